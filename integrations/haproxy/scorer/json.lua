--- JSON, as far as the daemon's snapshot and log records need it; null is nil.
-- luacheck: globals utf8

local _M = {}

local ESCAPES = {
  ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t",
}
local CODES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }
local WORDS = { ["true"] = true, ["false"] = false }
local DEEPEST = 64

local function unescaped(text)
  text = text:gsub("\\u(%x%x%x%x)", function(digits) return utf8.char(tonumber(digits, 16)) end)
  return (text:gsub("\\(.)", function(sign) return ESCAPES[sign] or sign end))
end

local value

local function text_at(source, place)
  local _, stop, plain = source:find('^"([^"\\]*)"', place)
  if stop then return plain, stop + 1 end
  stop = place + 1
  while true do
    stop = source:find('["\\]', stop)
    if not stop then error("a string has no end") end
    if source:byte(stop) == 34 then break end
    stop = stop + 2
  end
  return unescaped(source:sub(place + 1, stop - 1)), stop + 1
end

local function after_blanks(source, place)
  return source:find("[^ \t\r\n]", place) or #source + 1
end

local function members(source, place, depth, close, read)
  place = after_blanks(source, place + 1)
  if source:sub(place, place) == close then return place + 1 end
  while true do
    place = after_blanks(source, read(place, depth))
    local sign = source:sub(place, place)
    if sign == close then return place + 1 end
    if sign ~= "," then error("no comma at " .. place) end
    place = after_blanks(source, place + 1)
  end
end

function value(source, place, depth)
  if depth > DEEPEST then error("nested too deep") end
  local sign = source:sub(place, place)
  if sign == '"' then return text_at(source, place) end
  if sign == "{" then
    local found = {}
    return found, members(source, place, depth, "}", function(at)
      local name, item
      if source:sub(at, at) ~= '"' then error("no name at " .. at) end
      name, at = text_at(source, at)
      at = after_blanks(source, at)
      if source:sub(at, at) ~= ":" then error("no colon at " .. at) end
      item, at = value(source, after_blanks(source, at + 1), depth + 1)
      found[name] = item
      return at
    end)
  end
  if sign == "[" then
    local found, count = {}, 0
    return found, members(source, place, depth, "]", function(at)
      local item
      item, at = value(source, at, depth + 1)
      count = count + 1
      found[count] = item
      return at
    end)
  end
  local _, stop, word = source:find("^(%l+)", place)
  if word == "null" then return nil, stop + 1 end
  if WORDS[word] ~= nil then return WORDS[word], stop + 1 end
  _, stop, word = source:find("^(-?[%d.eE+-]+)", place)
  local number = word and tonumber(word)
  if not number then error("no value at " .. place) end
  return number, stop + 1
end

--- Return the value of a text, or nil and why it is none.
function _M.decode(source)
  local fine, found, stop = pcall(value, source, after_blanks(source, 1), 1)
  if not fine then return nil, found end
  if after_blanks(source, stop) <= #source then return nil, "more than one value" end
  return found
end

--- Return a text as a JSON string of at most `most` bytes between its quotes, ASCII only.
-- Bytes that are no ASCII are written as if each were a character: the daemon looks for
-- words, and a log line must stay valid wherever it is cut.
function _M.quoted(text, most)
  if not text:find('[%z\1-\31"\\\127-\255]') then
    return '"' .. (most and text:sub(1, most) or text) .. '"'
  end
  local out = text:gsub('[%z\1-\31"\\\127-\255]', function(sign)
    return CODES[sign] or string.format("\\u%04x", sign:byte())
  end)
  if most and #out > most then
    out = out:sub(1, most)
    -- An escape that was cut goes.
    local tail = out:match("()\\u%x?%x?%x?$") or (out:match("\\+$") and #out:match("\\+$") % 2 == 1
      and #out)
    if tail then out = out:sub(1, tail - 1) end
  end
  return '"' .. out .. '"'
end

return _M
