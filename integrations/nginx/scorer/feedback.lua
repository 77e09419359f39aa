--- What became of requests, told to the daemon in batches.
--
-- A queue per worker, flushed by one timer: a timer per request would run into
-- lua_max_pending_timers. What the daemon does not take is dropped: it would be stale.

local cjson = require "cjson.safe"
local http = require "scorer.http"
local metrics = require "scorer.metrics"

local _M = {}

local PATIENCE = 1.0
local MOST_QUEUED = 10000
local MOST_NAMED = 4096
local MOST_BYTES = 512 * 1024 -- half of what the daemon takes

local queue, queued = {}, 0
local begun, begins = {}, 0 -- requests whose first token was not told yet
local options, token
local flushing = false
local state = "taken"

local function read_token()
  if not options.token_file then return end
  local file, problem = io.open(options.token_file)
  if not file then
    ngx.log(ngx.ERR, "scorer: token_file: ", problem)
    return
  end
  token = file:read("*l")
  file:close()
end

function _M.setup(given)
  options = given
  read_token()
end

--- Return a text as the daemon can read it: invalid UTF-8 would make it refuse the whole batch.
function _M.text(value)
  local _, _, problem = ngx.re.find(value, "^", "u")
  if problem then return (value:gsub("[\128-\255]", "?")) end
  return value
end

local names, named = {}, 0

--- Return the fields `pool` and `target` of a report as text.
function _M.names(pool, target)
  local of = names[pool]
  if not of then
    of = {}
    names[pool] = of
  end
  local text = of[target]
  if not text then
    if named >= MOST_NAMED then
      of, named = {}, 0
      names = { [pool] = of }
    end
    text = '"pool":' .. cjson.encode(pool) .. ',"target":' .. cjson.encode(target)
    of[target], named = text, named + 1
  end
  return text
end

--- Queue one item: the fields of a report, or its text.
function _M.tell(item)
  if queued >= MOST_QUEUED then
    metrics.feedback("dropped", 1)
    return
  end
  queued = queued + 1
  queue[queued] = item
end

--- Tell of a first token with the next flush, unless the request has ended by then: what is told
-- of the end tells that, too. Sets the field `told` of the request when it is told.
function _M.first_token(request)
  if begins < MOST_QUEUED then
    begins = begins + 1
    begun[begins] = request
  end
end

local function tell_first_tokens()
  local requests, count = begun, begins
  begun, begins = {}, 0
  for place = 1, count do
    local request = requests[place]
    if not request.ended then
      request.told = true
      _M.tell({
        event = "first_token", pick_id = request.pick_id, target = request.target,
        ttft_seconds = request.ttft, stream = true,
      })
    end
  end
end

local function post(parts, count)
  local body = "[" .. table.concat(parts, ",") .. "]"
  local request = "POST /feedback HTTP/1.1\r\nHost: scorer\r\nContent-Length: " .. #body .. "\r\n"
    .. (token and "Authorization: Bearer " .. token .. "\r\n" or "") .. "\r\n" .. body
  local status, problem = http.exchange(options.daemon, request, PATIENCE)
  if status == 401 then read_token() end
  metrics.feedback(status == 202 and "sent" or status and "refused" or "failed", count)
  -- A line when it begins and when it ends, not twenty a second.
  local now = status == 202 and "taken" or tostring(status or problem)
  if now ~= state then
    ngx.log(ngx.WARN, "feedback is ", now == "taken" and "taken again" or "not taken: " .. now)
    state = now
  end
end

--- Send what is queued.
function _M.flush()
  if flushing then return end
  if begins > 0 then tell_first_tokens() end
  if queued == 0 then return end
  flushing = true
  local items, count = queue, queued
  queue, queued = {}, 0
  local parts, size = {}, 0
  for place = 1, count do
    local text = items[place]
    if type(text) == "table" then text = cjson.encode(text) end
    if size + #text > MOST_BYTES then
      post(parts, #parts)
      parts, size = {}, 0
    end
    parts[#parts + 1] = text
    size = size + #text + 1
  end
  if #parts > 0 then post(parts, #parts) end
  flushing = false
end

return _M
