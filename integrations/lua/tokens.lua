--- Finds the first token in a stream of server-sent events as it passes by.
--
-- Frames without a token are skipped: those that carry only a role, keep-alive comments,
-- announcements and usage. A frame of a form that nobody knows counts as a token.

local _M = {}

local MOST_KEPT = 65536 -- of a frame that is cut between two reads
local RETURN, BLANK, QUOTE = 13, 32, 34

local CARRIERS = {
  content = true, text = true, reasoning_content = true, reasoning = true, delta = true,
  arguments = true, thinking = true, partial_json = true, refusal = true, generated_text = true,
}
local KNOWN = { '"choices"', '"type"', '"error"', '"usage"', '"object"' }

--- Return whether a frame's data carries a token.
local function carries(data)
  -- Most that do look like this, and a plain search is ten times cheaper than a pattern.
  local _, quote = data:find('"content":"', 1, true)
  local sign = quote and data:byte(quote + 1)
  if sign and sign ~= QUOTE then return true end
  for key in data:gmatch('"([%l_]+)"%s*:%s*"[^"]') do
    if CARRIERS[key] then return true end
  end
  local calls = data:find('"tool_calls"', 1, true)
  if calls and data:find('"tool_calls"%s*:%s*%[%s*{', calls) then return true end
  for _, known in ipairs(KNOWN) do
    if data:find(known, 1, true) then return false end
  end
  return true
end

--- Return the data of the line from `start` to before `stop`, nil if it has none.
local function data_of(text, start, stop)
  if not text:find("^data:", start) then return nil end
  local first, last = start + 5, stop - 1
  if text:byte(first) == BLANK then first = first + 1 end
  if text:byte(last) == RETURN then last = last - 1 end
  if last < first then return nil end
  return text:sub(first, last)
end

--- Return the text of an error that a chunk carries, nil without one.
-- Quotes in what a model writes are escaped, so its words about errors are none.
function _M.error_in(chunk)
  if not chunk:find("error", 1, true) then return nil end
  local place = chunk:find('"error"', 1, true)
  if place and chunk:find('^"error"%s*:%s*[{"]', place) and chunk:byte(place - 1) ~= 92 then
    return chunk:sub(place, place + 4095)
  end
  if chunk:find("^event: ?error") or chunk:find("\nevent: ?error") then
    return chunk:sub(1, 4096)
  end
  return nil
end

--- Look at one more chunk of a stream; `state` is a table that starts empty.
-- Returns true when the first token is in it. `state.finish_reason` is what a stream
-- without any token ended with.
function _M.first_in(state, chunk)
  local text = state.rest and state.rest .. chunk or chunk
  local start = 1
  while true do
    local stop = text:find("\n", start, true)
    if not stop then break end
    local data = data_of(text, start, stop)
    if data and data ~= "[DONE]" then
      if carries(data) then return true end
      state.finish_reason = data:match('"finish_reason"%s*:%s*"([%l_]+)"') or state.finish_reason
    end
    start = stop + 1
  end
  local rest = text:sub(start)
  state.rest = #rest <= MOST_KEPT and rest or nil
  return false
end

return _M
