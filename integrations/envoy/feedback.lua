-- Tells the daemon how each attempt at a request went; a Lua filter of the *cluster*
-- (HttpProtocolOptions.http_filters), so it runs once per attempt, where the listener's filters
-- see the last one only.
--
-- * The time to first token runs from the end of the request's body to the first event that
--   carries a token; events that carry a role or nothing are none.
-- * The body of a refusal is kept until it is whole. The daemon says whose fault it was, and the
--   header x-scorer-retry asks the route to try the alternate unless it was the client's:
--   a limit of its own key, which another target would not lift.
-- * A request that the client leaves, and a stream that breaks off, end here without a word:
--   Envoy drops the filter. The daemon sees their end in the engine's own numbers.
--
-- * Reports go in batches, as a call of its own for each would cost more than all else here. Envoy
--   has no timers for Lua, so a report waits only where another event will take it along: within
--   FLUSH_MS of the last batch, and while other requests are under way in this worker.
--
-- The cluster's header_mutation filter, which comes after this one, says in the header
-- x-scorer-upstream which endpoint an answer is from, and which pick it is about.

-- Nothing here can be compiled, as it is all calls of Envoy and patterns; trying costs more.
jit.off()

local CLUSTER = "scorer_feedback"
local ASK_MS, TELL_MS = 20, 1000
local FLUSH_MS = 20
local FLUSH_SIZE = 32  -- the daemon answers so many at once, and more with pauses
local BODY_LIMIT = 4096
local KEPT_BODY_LIMIT = 65536
local SHORT_BODY = 16384  -- comes with its head, as far as time goes
local MOST_HEADERS = 40
local LONGEST_LINE = 65536
local REMEMBERED = 4096
local RETRIED = { ["429"] = true, ["502"] = true, ["503"] = true, ["529"] = true }
local CLIENTS_FAULT = { client_rate_limit = true, client_error = true, client_abort = true }
local TOKEN = os.getenv("SCORER_FEEDBACK_TOKEN")

-- Attempts that have no answer yet, by pick id: which of its endpoints is tried, whether its answer
-- has no body, and when the request was sent, in ms. In two generations: those of requests that
-- were dropped are forgotten with the older one.
local waiting, waited, count = {}, {}, 0

local function remember(id, attempt)
  if count >= REMEMBERED then
    waiting, waited, count = {}, waiting, 0
  end
  waiting[id] = attempt
  count = count + 1
end

local function recall(id)
  local attempt = waiting[id] or waited[id]
  waiting[id], waited[id] = nil, nil
  return attempt
end

-- The handles of requests that will still be told of, by pick id, or by what is told of them.
-- Weak: Envoy holds a handle until it drops the request, which is all that is seen of that.
local under_way = setmetatable({}, { __mode = "v" })
-- What was not told yet: reports, and the requests whose first token came, which is told by the
-- report of their end if that comes before the batch goes.
local queue, flushed_at = {}, 0

local ESCAPED = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escape(char)
  return ESCAPED[char] or string.format("\\u%04x", char:byte())
end

-- Whether `text` is UTF-8: nothing is left of its high bytes without the well-formed sequences.
local function is_utf8(text)
  if text:find("\224[\128-\159]") or text:find("\237[\160-\191]")
    or text:find("\240[\128-\143]") or text:find("\244[\144-\191]") then
    return false
  end
  local rest = text:gsub("[\240-\244][\128-\191][\128-\191][\128-\191]", "")
  rest = rest:gsub("[\224-\239][\128-\191][\128-\191]", ""):gsub("[\194-\223][\128-\191]", "")
  return not rest:find("[\128-\255]")
end

local function quoted(text)
  if text:find("[\128-\255]") then
    text = text:gsub("[\192-\247][\128-\191]*$", function(last)
      return is_utf8(last) and last or ""  -- a character cut by the limit
    end)
    if not is_utf8(text) then
      text = text:gsub("[\128-\255]", "?")
    end
  end
  return '"' .. text:gsub('[%c"\\\127]', escape) .. '"'
end

local function headers_json(headers)
  local found = {}
  for name, value in pairs(headers) do
    if #found < MOST_HEADERS and not name:find("^:") and not name:find("cookie", 1, true)
      and not name:find("^x%-scorer%-") then
      found[#found + 1] = quoted(name) .. ":" .. quoted(value)
    end
  end
  return "{" .. table.concat(found, ",") .. "}"
end

local function post(handle, path, body, timeout, later)
  return handle:httpCall(CLUSTER, {
    [":method"] = "POST",
    [":path"] = path,
    [":authority"] = "scorer",
    ["authorization"] = TOKEN and "Bearer " .. TOKEN or nil,
  }, body, timeout, later)
end

local function seconds(ms)
  return string.format("%.4f", ms / 1000)
end

local function report(fields)
  return "{" .. table.concat(fields, ",") .. "}"
end

local function first_token(told)
  return report({ told.about, '"event":"first_token"', told.ttft })
end

-- Sends what is queued if it is time to, or if nothing else will happen here that would.
local function flush_if_due(handle, at)
  local size = #queue
  if size == 0 or (size < FLUSH_SIZE and at - flushed_at < FLUSH_MS and next(under_way)) then
    return
  end
  local batch = {}
  for _, item in ipairs(queue) do
    if type(item) == "string" then
      batch[#batch + 1] = item
    elseif not item.ended then
      batch[#batch + 1] = first_token(item)
    end
  end
  queue, flushed_at = {}, at
  local body = #batch == 1 and batch[1] or "[" .. table.concat(batch, ",") .. "]"
  post(handle, "/feedback", body, TELL_MS, true)
end

local function tell(handle, item, at)
  queue[#queue + 1] = item
  flush_if_due(handle, at)
end

-- The fields that every report of an attempt has, as JSON.
local function about(id, target, status)
  return '"status":' .. status
    .. (id and ',"pick_id":"' .. id .. '"' or "")
    .. (target and ',"target":"' .. target .. '"' or "")
end

-- Names of strings that are, or hold, what a model says; besides those that begin with "reasoning".
local CARRIERS = {
  content = true, text = true, arguments = true, delta = true, thinking = true,
  partial_json = true,
}
local EMPTY = {
  '^%[DONE%]', '"role"%s*:', '"choices"%s*:%s*%[%s*%]', '"delta"%s*:%s*{%s*}', '"error"%s*:',
  '"content"%s*:%s*""', '"text"%s*:%s*""',
  '"type"%s*:%s*"message_', '"type"%s*:%s*"ping"', '"type"%s*:%s*"content_block_st',
  '"type"%s*:%s*"response%.created"', '"type"%s*:%s*"response%.queued"',
  '"type"%s*:%s*"response%.in_progress"', '"type"%s*:%s*"response%.[%w_]*%.?added"',
}

-- Whether the data of an event has text of the model; in one pass, as there is much of it.
local function has_text(data)
  for name in data:gmatch('"([%w_]+)"%s*:%s*"[^"]') do
    if CARRIERS[name] or name:find("^reasoning") then
      return true
    end
  end
  return data:find('"tool_calls"', 1, true) and data:find('"tool_calls"%s*:%s*%[%s*{')
end

-- Whether the data of an event carries a token: it has text, or is of a kind not known here.
local function has_token(data)
  if has_text(data) then
    return true
  end
  for _, pattern in ipairs(EMPTY) do
    if data:find(pattern) then
      return false
    end
  end
  return true
end

-- Reads `text` line by line after what was left over, up to the first token; returns whether one
-- came, what is left over, and the reason the stream gave for its end, if it did.
local function read_lines(left, text)
  text = left .. text
  local start, finish = 1, nil
  local stop = text:find("\n", start, true)
  while stop do
    local data = text:match("^data:[ \t]*([^\r\n]+)", start)
    if data then
      if has_token(data) then
        return true
      end
      finish = data:match('"finish_reason"%s*:%s*"([%w_]+)"') or finish
    end
    start = stop + 1
    stop = text:find("\n", start, true)
  end
  local rest = text:sub(start)
  return false, #rest <= LONGEST_LINE and rest or "", finish
end

-- The text of an error event. Within a token's text the quotes would be escaped.
local function error_event(text)
  if not text:find('"error"', 1, true) then
    return nil
  end
  return text:match('data:%s*({%s*"error"%s*:[^\n]*)') or text:match("event:%s*error[^\n]*\n(.*)")
end

local function watch_stream(handle, told, sent_at)
  local left, seen, finish, broken = "", false, nil, nil
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    local text = length > 0 and chunk:getBytes(0, length) or ""
    broken = broken or error_event(text)
    if not seen and text ~= "" then
      local reason
      seen, left, reason = read_lines(left, text)
      finish = reason or finish
      if seen then
        local at = handle:timestamp()
        -- Envoy's clock ticks once a millisecond; a time of zero would say that no token came.
        told.ttft = sent_at and '"ttft_seconds":' .. seconds(math.max(0.5, at - sent_at))
        tell(handle, told, at)
      end
    end
    if #queue > 0 then
      flush_if_due(handle, handle:timestamp())
    end
  end
  local fields = { told.about, '"stream":true' }
  if not seen then
    fields[#fields + 1] = '"ttft_seconds":null'
    if finish then
      fields[#fields + 1] = '"finish_reason":' .. quoted(finish)
    end
  else
    fields[#fields + 1] = told.ttft
  end
  if broken then
    fields[#fields + 1] = '"stream_error":' .. quoted(broken:sub(1, BODY_LIMIT))
  end
  if told.load then
    fields[#fields + 1] = '"headers":' .. told.load
  end
  return fields
end

local function watch_body(handle, told, keep)
  local kept, length = {}, 0
  for chunk in handle:bodyChunks() do
    local size = chunk:length()
    if keep and size > 0 and length < BODY_LIMIT then
      kept[#kept + 1] = chunk:getBytes(0, math.min(size, BODY_LIMIT - length))
      length = length + #kept[#kept]
    end
  end
  local fields = { told.about, '"stream":false' }
  if keep then
    fields[#fields + 1] = '"error_body":' .. quoted(table.concat(kept))
    fields[#fields + 1] = '"headers":' .. told.headers
  elseif told.load then
    fields[#fields + 1] = '"headers":' .. told.load
  end
  return fields
end

-- Holds a refusal back until its body is whole, and asks whose fault it was.
local function refuse(handle, told)
  local body = handle:body()
  local size = body and body:length() or 0
  local text = report({
    told.about,
    '"headers":' .. told.headers,
    '"error_body":' .. quoted(size > 0 and body:getBytes(0, math.min(size, BODY_LIMIT)) or ""),
  })
  local answer, verdict = post(handle, "/feedback?explain=1", text, ASK_MS, false)
  local class = answer and answer[":status"] == "202" and verdict
    and verdict:match('"class"%s*:%s*"([%w_]+)"')
  if not CLIENTS_FAULT[class or ""] then
    handle:headers():add("x-scorer-retry", class or "unknown")
  end
end

local function nth(list, number)
  for item in list:gmatch("[^,]+") do
    number = number - 1
    if number == 0 then
      return item
    end
  end
  return nil
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local id = headers:get("x-scorer-pick-id")
  if not id then
    return
  end
  local number = tonumber(headers:get("x-envoy-attempt-count") or "1") or 1
  local endpoints = headers:get("x-scorer-endpoints") or ""
  local unanswered = recall(id)
  if number > 1 and unanswered then
    local target = nth(endpoints, unanswered.number)
    if target then
      -- The attempt before had no answer at all: refused, reset, or timed out. This one may end
      -- like that, and then nothing happens here that would take along what is told of it.
      under_way[id] = nil
      tell(handle, report({ about(id, target, "0") }), handle:timestamp())
    end
  end
  local attempt = { number = number, bodiless = headers:get(":method") == "HEAD" }
  remember(id, attempt)
  under_way[id] = handle
  local length = tonumber(headers:get("content-length") or "")
  if not length or length > SHORT_BODY then
    for _ in handle:bodyChunks() do
      -- Passed on as it comes; the time runs from its end.
    end
  end
  attempt.sent_at = handle:timestamp()
  flush_if_due(handle, attempt.sent_at)
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local status = headers:get(":status") or "0"
  local target, id = (headers:get("x-scorer-upstream") or ""):match("^(%S+) (%S*)$")
  if id == "" then
    id = nil  -- there was no pick
  end
  local attempt = id and recall(id) or {}
  local failed = tonumber(status) >= 400
  local load = headers:get("endpoint-load-metrics")
  local told = {
    about = about(id, target, status),
    headers = failed and headers_json(headers),
    load = load and '{"endpoint-load-metrics":' .. quoted(load) .. "}",
  }
  if RETRIED[status] and (tonumber(headers:get("content-length")) or 0) <= KEPT_BODY_LIMIT then
    refuse(handle, told)
    if id then
      under_way[id] = nil  -- until it is tried again
    end
    flush_if_due(handle, handle:timestamp())
    return
  end
  under_way[id or told] = handle
  local fields
  local streams = not attempt.bodiless
    and (headers:get("content-type") or ""):find("text/event-stream", 1, true)
  if streams and not failed then
    fields = watch_stream(handle, told, attempt.sent_at)
  else
    fields = watch_body(handle, told, failed)
  end
  local at = handle:timestamp()
  if attempt.sent_at then
    fields[#fields + 1] = '"duration_seconds":' .. seconds(math.max(0, at - attempt.sent_at))
  end
  told.ended = true
  under_way[id or told] = nil
  tell(handle, report(fields), at)
end
