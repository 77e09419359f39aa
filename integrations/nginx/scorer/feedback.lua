--- What became of requests, told to the daemon in batches.
--
-- A queue per worker, flushed by one timer: a timer per request would run into
-- lua_max_pending_timers. What the daemon does not take is dropped: it would be stale.

local cjson = require "cjson.safe"
local http = require "scorer.http"
local metrics = require "scorer.metrics"

local _M = {}

local exiting = ngx.worker.exiting
local floor, max, concat = math.floor, math.max, table.concat

local PATIENCE = 1.0
local MOST_QUEUED = 10000
local MOST_NAMED = 4096
local MOST_BYTES = 512 * 1024 -- half of what the daemon takes
local MOST_STREAM = 192 -- bytes of the report of a stream, but for pool, target and the pick's id

local queue, queued = {}, 0 -- reports, and requests whose stream ended well
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

local beginnings, named = {}, 0

--- Return the beginning of a report, which names pool and target, as text.
local function beginning(pool, target)
  local of = beginnings[pool]
  if not of then
    of = {}
    beginnings[pool] = of
  end
  local text = of[target]
  if not text then
    if named >= MOST_NAMED then
      of, named = {}, 0
      beginnings = { [pool] = of }
    end
    text = '{"pool":' .. cjson.encode(pool) .. ',"target":' .. cjson.encode(target)
    of[target], named = text, named + 1
  end
  return text
end

--- Queue a report: a table of its fields.
function _M.tell(item)
  if queued >= MOST_QUEUED then
    metrics.feedback("dropped", 1)
    return
  end
  queued = queued + 1
  queue[queued] = item
end

--- Queue a request whose stream ended well after `duration` seconds, as nearly all do. Its report
-- is written when it is sent.
function _M.good_stream(request, duration)
  request.duration = duration
  _M.tell(request)
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

local function post(reports, count)
  local request = "POST /feedback HTTP/1.1\r\nHost: scorer\r\nContent-Length: " .. #reports + 2
    .. "\r\n" .. (token and "Authorization: Bearer " .. token .. "\r\n" or "")
    .. "\r\n[" .. reports .. "]"
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

--- Return seconds as whole milliseconds: numbers that are short, and quickly written.
local function milliseconds(seconds)
  return max(0, floor(seconds * 1000 + 0.5))
end

--- Append what follows the beginning of a report to the `size` parts of a text; returns how many
-- there are then.
-- A text of its own would be work for the garbage collector.
local function write_stream(parts, size, request)
  parts[size + 1], parts[size + 2] = ',"status":', request.status
  parts[size + 3] = ',"stream":true,"duration_seconds":'
  parts[size + 4], parts[size + 5] = milliseconds(request.duration), "e-3"
  size = size + 5
  if not request.told then
    parts[size + 1] = ',"ttft_seconds":'
    parts[size + 2], parts[size + 3] = milliseconds(request.ttft), "e-3"
    size = size + 3
  end
  if request.pick_id then
    parts[size + 1], parts[size + 2], parts[size + 3] = ',"pick_id":"', request.pick_id, '"'
    size = size + 3
  end
  if request.tokens then
    parts[size + 1], parts[size + 2] = ',"prompt_tokens":', request.tokens
    size = size + 2
  end
  parts[size + 1] = "}"
  return size + 1
end

--- Send what was queued, in as many batches as it takes.
local function send(items, count)
  local parts, size, bytes, first = {}, 0, 0, 1
  for place = 1, count do
    local item = items[place]
    local ended_well = item.duration ~= nil
    local text = ended_well and beginning(item.pool, item.target) or cjson.encode(item)
    local more = ended_well and MOST_STREAM + #(item.pick_id or "") or 0
    if size > 0 and bytes + #text + more > MOST_BYTES then
      post(concat(parts), place - first)
      parts, size, bytes, first = {}, 0, 0, place
    end
    if size > 0 then
      size = size + 1
      parts[size] = ","
    end
    size, bytes = size + 1, bytes + #text + more + 1
    parts[size] = text
    if ended_well then size = write_stream(parts, size, item) end
  end
  post(concat(parts), count - first + 1)
end

--- Send what is queued.
function _M.flush()
  if flushing then return end
  if begins > 0 then tell_first_tokens() end
  flushing = true
  local fine, problem = true, nil
  while fine and queued > 0 do
    local items, count = queue, queued
    queue, queued = {}, 0
    fine, problem = pcall(send, items, count)
    -- What came meanwhile is for the next flush, which a worker that ends may not have.
    if not exiting() then break end
  end
  flushing = false
  if not fine then error(problem, 0) end
end

return _M
