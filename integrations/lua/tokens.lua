--- Finds the first token in a stream of server-sent events as it passes by.
--
-- Frames without a token are skipped: those that carry only a role, keep-alive comments,
-- announcements and usage. A frame of a form that nobody knows counts as a token.

local _M = {}

local byte, find, match, sub = string.byte, string.find, string.match, string.sub
local max = math.max

local MOST_KEPT = 65536 -- of a frame that is cut between two reads
local QUOTE, CARRIAGE_RETURN, SPACE = 34, 13, 32

local CARRIERS = {
  content = true, text = true, reasoning_content = true, reasoning = true, delta = true,
  arguments = true, thinking = true, partial_json = true, refusal = true, generated_text = true,
}
local KNOWN = { '"choices"', '"type"', '"error"', '"usage"', '"object"' }

--- Return the first place from `place` on in steps of `step` that holds no white space.
local function past_space(data, place, step)
  local sign = byte(data, place)
  while sign and (sign == SPACE or sign >= 9 and sign <= 13) do
    place = place + step
    sign = byte(data, place)
  end
  return place, sign
end

--- Return the name that ends before the colon at a place if a text follows that is not empty.
local function name_of_text(data, colon)
  local value, sign = past_space(data, colon + 1, 1)
  if sign ~= QUOTE or byte(data, value + 1) == QUOTE or value == #data then return nil end
  local stop
  stop, sign = past_space(data, colon - 1, -1)
  if sign ~= QUOTE then return nil end
  local start = stop - 1
  while start > 0 and byte(data, start) ~= QUOTE do start = start - 1 end
  return sub(data, start + 1, stop - 1)
end

--- Return the place of a name in quotes; nil without one. `rest` is how it goes on from its
-- underscore: a frame has a quote or a letter at twenty places to look at, an underscore at few.
local function place_of(data, name, rest)
  local place = find(data, rest, 1, true)
  return place and find(data, name, max(1, place + #rest - #name), true)
end

--- Return whether a frame's data carries a token.
-- From colon to colon: '"([%l_]+)"%s*:%s*"[^"]' would be tried at each place of the frame.
local function carries(data)
  -- Most that do look like this.
  local place, quote = find(data, 'content":"', 1, true)
  local sign = place and byte(data, place - 1) == QUOTE and byte(data, quote + 1)
  if sign and sign ~= QUOTE then return true end
  local colon = find(data, ":", 1, true)
  while colon do
    local name = name_of_text(data, colon)
    if name and CARRIERS[name] then return true end
    colon = find(data, ":", colon + 1, true)
  end
  local calls = place_of(data, '"tool_calls"', '_calls"')
  if calls and find(data, '"tool_calls"%s*:%s*%[%s*{', calls) then return true end
  for each = 1, #KNOWN do
    if find(data, KNOWN[each], 1, true) then return false end
  end
  return true
end

--- Return why a frame says that the stream ends; nil when it does not.
local function finish_reason(data)
  local place = place_of(data, '"finish_reason"', '_reason"')
  return place and match(data, '"finish_reason"%s*:%s*"([%l_]+)"', place)
end

--- Return the data in the line from `start` to before `stop`; nil for another line.
local function data_of(text, start, stop)
  if sub(text, start, start + 4) ~= "data:" then return nil end
  start = start + 5
  if byte(text, start) == SPACE then start = start + 1 end
  if byte(text, stop - 1) == CARRIAGE_RETURN then stop = stop - 1 end
  return sub(text, start, stop - 1)
end

--- Return the text of an error that a chunk carries, nil without one.
-- Quotes in what a model writes are escaped, so its words about errors are none.
function _M.error_in(chunk)
  -- Each "e" would be a place to look at, of which a frame has many more than of "r".
  if not find(chunk, "rror", 1, true) then return nil end
  local place = chunk:find('"error"%s*:%s*[{"]')
  if place and chunk:byte(place - 1) ~= 92 then
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
    local stop = find(text, "\n", start, true)
    if not stop then break end
    local data = data_of(text, start, stop)
    if data and data ~= "" and data ~= "[DONE]" then
      if carries(data) then
        if state.rest then state.rest = nil end
        return true
      end
      local reason = finish_reason(data)
      if reason then state.finish_reason = reason end
    end
    start = stop + 1
  end
  local left = #text - start + 1
  local rest = left > 0 and left <= MOST_KEPT and sub(text, start) or nil
  if rest or state.rest then state.rest = rest end
  return false
end

return _M
