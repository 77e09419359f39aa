--- What is told of an attempt at its end: a record of feedback, and counts.

local json = require "scorer.json"
local metrics = require "scorer.metrics"

local _M = {}

local MOST_ERROR = 8192 -- bytes of a body in a datagram
local MOST_NAMED = 2000

local named, count = {}, 0 -- pool and target -> the fields that name them

--- Return the name of a server as the daemon calls it: IPv6 in brackets.
function _M.target_of(server)
  local host, port = server:match("^(.*:.*):(%d+)$")
  return host and ("[%s]:%s"):format(host, port) or server
end

--- Return the words of txn.scorer_pick that are told, nil for each that is missing.
local function words_of(pick)
  local target, id, pool, _, by, miss =
    (pick or ""):match("^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)")
  return target ~= "-" and target or nil, id ~= "-" and id or nil, pool ~= "-" and pool or "",
    by, miss ~= "-" and miss or nil
end

local function field(name, text, most)
  return ',"' .. name .. '":' .. json.quoted(tostring(text), most)
end

--- Return the fields that name a target and its pool; remembered, as there are few.
local function names(target, pool)
  local key = pool .. " " .. target
  local text = named[key]
  if text then return text end
  text = '"target":' .. json.quoted(target, 256)
  if pool ~= "" then text = text .. field("pool", pool, 64) end
  if count < MOST_NAMED then
    count = count + 1
    named[key] = text
  end
  return text
end

--- Return the fields that tell how a stream went.
local function stream_fields(txn, target, pool)
  local ttft = txn:get_var("txn.scorer_ttft")
  if ttft then
    if target then metrics.ttft(txn, pool, target, ttft) end
    return (',"stream":true,"ttft_seconds":%.6f'):format(ttft / 1000000)
  end
  local text = ',"stream":true,"ttft_seconds":null'
  local reason, problem = txn:get_var("txn.scorer_finish_reason"),
    txn:get_var("txn.scorer_stream_error")
  if reason then text = text .. field("finish_reason", reason, 64) end
  if problem then text = text .. field("stream_error", problem, MOST_ERROR) end
  return text
end

--- Return the fields that tell why an engine refused, or how busy it says it is.
local function header_fields(txn, status)
  if status and status >= 400 then
    local headers, body = txn:get_var("txn.scorer_headers"), txn:get_var("txn.scorer_error")
    return (headers and ',"headers":{' .. headers .. "}" or "")
      .. (body and field("error_body", body, MOST_ERROR) or "")
  end
  local load = txn:get_var("txn.scorer_load")
  if not load then return "" end
  return ',"headers":{"endpoint-load-metrics":' .. json.quoted(load, 512) .. "}"
end

--- Return the fields of a record, without braces, and count.
function _M.fields(txn)
  local target, pick_id, pool, by, miss = words_of(txn:get_var("txn.scorer_pick"))
  local server = txn.f:srv_name() or ""
  local sent_on = server:find("^scorer_again") ~= nil
  local status = not sent_on and txn:get_var("txn.scorer_status") or nil
  if not target and server ~= "" and not server:find("^scorer_") then
    target = _M.target_of(server)
  end
  if by then metrics.pick(txn, by, miss) end
  if target then metrics.request(txn, pool, target, status or 0) end
  local tried = txn:get_var("txn.scorer_tried")
  if tried then metrics.retry(txn, pool, tried) end
  local text = names(target or "", pool or "")
  if pick_id then text = text .. field("pick_id", pick_id, 128) end
  -- It took no connection; what follows in the log is of another target.
  if sent_on then return text .. ',"status":0' end
  if not status then return text end
  text = text .. ',"status":' .. status
  if txn:get_var("txn.scorer_stream") then
    text = text .. stream_fields(txn, target, pool)
  else
    text = text .. ',"stream":false'
  end
  return text .. header_fields(txn, status)
end

return _M
