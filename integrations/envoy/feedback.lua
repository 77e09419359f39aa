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
-- The cluster's header_mutation filter, which comes after this one, says in the header
-- x-scorer-upstream which endpoint an answer is from.

local CLUSTER = "scorer_feedback"
local ASK_MS, TELL_MS = 20, 1000
local BODY_LIMIT = 4096
local KEPT_BODY_LIMIT = 65536
local MOST_HEADERS = 40
local LONGEST_LINE = 65536
local REMEMBERED = 4096
local RETRIED = { ["429"] = true, ["502"] = true, ["503"] = true, ["529"] = true }
local CLIENTS_FAULT = { client_rate_limit = true, client_error = true, client_abort = true }
local TOKEN = os.getenv("SCORER_FEEDBACK_TOKEN")

-- Attempts that have no answer yet, by pick id, in two generations: those of requests that were
-- dropped are forgotten with the older one.
local waiting, waited, count = {}, {}, 0

local function remember(id, target)
  if count >= REMEMBERED then
    waiting, waited, count = {}, waiting, 0
  end
  waiting[id] = target
  count = count + 1
end

local function recall(id)
  local target = waiting[id] or waited[id]
  waiting[id], waited[id] = nil, nil
  return target
end

local function now(handle)
  return tonumber(handle:timestampString(EnvoyTimestampResolution.MICROSECOND)) / 1e6
end

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

local function tell(handle, fields, path)
  local body = "{" .. table.concat(fields, ",") .. "}"
  return handle:httpCall(CLUSTER, {
    [":method"] = "POST",
    [":path"] = path or "/feedback",
    [":authority"] = "scorer",
    ["content-type"] = "application/json",
    ["content-length"] = tostring(#body),
    ["authorization"] = TOKEN and "Bearer " .. TOKEN or nil,
  }, body, path and ASK_MS or TELL_MS, not path)
end

local function told_of(id, target, status)
  local fields = { '"status":' .. status }
  if id then
    fields[#fields + 1] = '"pick_id":' .. quoted(id)
  end
  if target and target ~= "" then
    fields[#fields + 1] = '"target":' .. quoted(target)
  end
  return fields
end

local TOKENS = {
  '"content"%s*:%s*"[^"]', '"text"%s*:%s*"[^"]', '"reasoning[%w_]*"%s*:%s*"[^"]',
  '"arguments"%s*:%s*"[^"]', '"tool_calls"%s*:%s*%[%s*{', '"delta"%s*:%s*"[^"]',
  '"thinking"%s*:%s*"[^"]', '"partial_json"%s*:%s*"[^"]',
}
local EMPTY = {
  '^%[DONE%]', '"role"%s*:', '"choices"%s*:%s*%[%s*%]', '"delta"%s*:%s*{%s*}', '"error"%s*:',
  '"content"%s*:%s*""', '"text"%s*:%s*""',
  '"type"%s*:%s*"message_', '"type"%s*:%s*"ping"', '"type"%s*:%s*"content_block_st',
  '"type"%s*:%s*"response%.created"', '"type"%s*:%s*"response%.queued"',
  '"type"%s*:%s*"response%.in_progress"', '"type"%s*:%s*"response%.[%w_]*%.?added"',
}

local function matches(text, patterns)
  for _, pattern in ipairs(patterns) do
    if text:find(pattern) then
      return true
    end
  end
  return false
end

-- Whether the data of an event carries a token: it has text, or is of a kind not known here.
local function has_token(data)
  return matches(data, TOKENS) or not matches(data, EMPTY)
end

-- Reads `text` line by line after what was left over; returns whether a token came, what is left
-- over, and the reason the stream gave for its end, if it did.
local function read_lines(left, text)
  local rest, token, finish = left .. text, false, nil
  for line, ending in rest:gmatch("([^\n]*)(\n?)") do
    if ending == "" then
      rest = line
      break
    end
    local data = line:match("^data:%s*(.-)%s*$")
    if data and data ~= "" then
      token = token or has_token(data)
      finish = data:match('"finish_reason"%s*:%s*"([%w_]+)"') or finish
    end
  end
  return token, #rest <= LONGEST_LINE and rest or "", finish
end

-- The text of an error event. Within a token's text the quotes would be escaped.
local function error_event(text)
  if not text:find('"error"', 1, true) then
    return nil
  end
  return text:match('data:%s*({%s*"error"%s*:[^\n]*)') or text:match("event:%s*error[^\n]*\n(.*)")
end

local function watch_stream(handle, told, sent_at)
  local id, target, status, load = told.id, told.target, told.status, told.load
  local left, first_at, finish, broken = "", nil, nil, nil
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    local text = length > 0 and chunk:getBytes(0, length) or ""
    broken = broken or error_event(text)
    if not first_at and text ~= "" then
      local token, reason
      token, left, reason = read_lines(left, text)
      finish = reason or finish
      if token then
        first_at = now(handle)
        local fields = told_of(id, target, status)
        fields[#fields + 1] = '"event":"first_token"'
        if sent_at then
          fields[#fields + 1] = string.format('"ttft_seconds":%.6f', first_at - sent_at)
        end
        tell(handle, fields)
      end
    end
  end
  local fields = told_of(id, target, status)
  fields[#fields + 1] = '"stream":true'
  if not first_at then
    fields[#fields + 1] = '"ttft_seconds":null'
    if finish then
      fields[#fields + 1] = '"finish_reason":' .. quoted(finish)
    end
  end
  if broken then
    fields[#fields + 1] = '"stream_error":' .. quoted(broken:sub(1, BODY_LIMIT))
  end
  if load then
    fields[#fields + 1] = '"headers":' .. load
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
  local fields = told_of(told.id, told.target, told.status)
  fields[#fields + 1] = '"stream":false'
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
  local fields = told_of(told.id, told.target, told.status)
  fields[#fields + 1] = '"headers":' .. told.headers
  fields[#fields + 1] = '"error_body":'
    .. quoted(size > 0 and body:getBytes(0, math.min(size, BODY_LIMIT)) or "")
  local answer, verdict = tell(handle, fields, "/feedback?explain=1")
  local class = answer and answer[":status"] == "202" and verdict
    and verdict:match('"class"%s*:%s*"([%w_]+)"')
  if not CLIENTS_FAULT[class or ""] then
    handle:headers():add("x-scorer-retry", class or "unknown")
  end
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local id = headers:get("x-scorer-pick-id")
  local attempt = tonumber(headers:get("x-envoy-attempt-count") or "1") or 1
  if id then
    local unanswered = recall(id)
    if attempt > 1 and unanswered then
      -- The attempt before had no answer at all: refused, reset, or timed out.
      tell(handle, told_of(id, unanswered, "0"))
    end
    local place = 0
    for target in (headers:get("x-scorer-endpoints") or ""):gmatch("[^,]+") do
      place = place + 1
      if place == attempt then
        remember(id, target)
      end
    end
    handle:streamInfo():dynamicMetadata():set("scorer", "id", id)
  end
  for _ in handle:bodyChunks() do
    -- Passed on as it comes; the time runs from its end.
  end
  handle:streamInfo():dynamicMetadata():set("scorer", "sent", tostring(now(handle)))
end

function envoy_on_response(handle)
  local meta = handle:streamInfo():dynamicMetadata():get("scorer") or {}
  local headers = handle:headers()
  local status = headers:get(":status") or "0"
  local told = { id = meta.id, target = headers:get("x-scorer-upstream"), status = status }
  if told.id then
    recall(told.id)
  end
  local failed = tonumber(status) >= 400
  if failed then
    told.headers = headers_json(headers)
  end
  local load = headers:get("endpoint-load-metrics")
  told.load = load and '{"endpoint-load-metrics":' .. quoted(load) .. "}"
  if RETRIED[status] and (tonumber(headers:get("content-length") or "0") or 0) <= KEPT_BODY_LIMIT then
    refuse(handle, told)
    return
  end
  local sent_at = tonumber(meta.sent or "")
  local fields
  if not failed and (headers:get("content-type") or ""):find("text/event-stream", 1, true) then
    fields = watch_stream(handle, told, sent_at)
  else
    fields = watch_body(handle, told, failed)
  end
  if sent_at then
    fields[#fields + 1] = string.format('"duration_seconds":%.6f', math.max(0, now(handle) - sent_at))
  end
  tell(handle, fields)
end
