--- What is told of an attempt at its end: a record of feedback, and counts.

local json = require "scorer.json"
local metrics = require "scorer.metrics"

local _M = {}

local MOST_ERROR = 8192 -- bytes of a body in a datagram

--- Return the name of a server as the daemon calls it: IPv6 in brackets.
function _M.target_of(server)
  local host, port = server:match("^(.*:.*):(%d+)$")
  return host and ("[%s]:%s"):format(host, port) or server
end

--- Return the words of txn.scorer_pick, false for each that is missing.
local function words_of(pick)
  local words = {}
  for word in tostring(pick or ""):gmatch("%S+") do
    words[#words + 1] = word ~= "-" and word or false
  end
  return words
end

--- Return the fields of a record, without braces, and count.
function _M.fields(txn)
  local fields = {}
  local function add(name, text, most)
    fields[#fields + 1] = '"' .. name .. '":' .. json.quoted(tostring(text), most)
  end
  local function var(name) return txn:get_var("txn.scorer_" .. name) end
  local words, server = words_of(var("pick")), txn.f:srv_name() or ""
  local target, pick_id, pool = words[1], words[2], words[3] or ""
  local sent_on = server:find("^scorer_again") ~= nil
  local status = not sent_on and var("status") or nil
  if not target and server ~= "" and not server:find("^scorer_") then
    target = _M.target_of(server)
  end
  if pick_id then add("pick_id", pick_id, 128) end
  add("target", target or "", 256)
  if pool ~= "" then add("pool", pool, 64) end
  if words[5] then metrics.pick(txn, words[5], words[6] or nil) end
  if target then metrics.request(txn, pool, target, status or 0) end
  if var("tried") then metrics.retry(txn, pool, var("tried")) end
  if sent_on then
    -- It took no connection; what follows in the log is of another target.
    add("status", 0)
    return table.concat(fields, ",")
  end
  if status then add("status", status) end
  local ttft = var("ttft")
  if var("stream") then
    fields[#fields + 1] = '"stream":true'
    fields[#fields + 1] = '"ttft_seconds":' .. (ttft and ("%.6f"):format(ttft / 1000000) or "null")
    if ttft and target then metrics.ttft(txn, pool, target, ttft) end
  elseif status then
    fields[#fields + 1] = '"stream":false'
  end
  if var("finish_reason") then add("finish_reason", var("finish_reason"), 64) end
  if var("stream_error") then add("stream_error", var("stream_error"), MOST_ERROR) end
  if var("headers") then
    fields[#fields + 1] = '"headers":{' .. var("headers") .. "}"
  elseif var("load") then
    local said = json.quoted(var("load"), 512)
    fields[#fields + 1] = '"headers":{"endpoint-load-metrics":' .. said .. "}"
  end
  if var("error") then add("error_body", var("error"), MOST_ERROR) end
  return table.concat(fields, ",")
end

return _M
