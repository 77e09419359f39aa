--- GET from the daemon over kept connections, within a deadline.
--
-- `core.httpclient` waits for seconds and tries again by itself; a plain socket does what
-- it is told. A socket's timeout is set once and never again: HAProxy 3.0 aborts when the
-- timeout of a socket that was idle for longer is shortened. It also ends idle sockets, so
-- it is long, and what keeps a deadline is a task that closes sockets whose time is up.
-- Sockets are worth keeping for more than the connection: whenever a request ends that opened
-- one, or closed one, HAProxy has Lua collect all its garbage.
-- luacheck: globals core

local _M = {}

local KEPT, KEPT_FOR = 64, 30.0 -- connections, seconds; less than the daemon's 75
local PARTS = 4 -- of a deadline between two looks at the clock; one when nothing is asked
local BUSY_FOR = 1.0 -- seconds after the last pick
local MOST_BYTES = 33554432

local idle = {}
local deadlines, used_at = {}, 0 -- of kept sockets that are waited for

--- Return the seconds of a clock that only tells differences.
function _M.now()
  local at = core.now()
  return at.sec + at.usec / 1000000
end

--- Send a request and read its answer; returns status and body, or nil and a reason.
-- The first line is what is waited for: the clock is looked at before and after it.
local function exchange(socket, request, deadline)
  if _M.now() >= deadline then return nil, "timeout" end
  local sent, why = socket:send(request)
  if not sent then return nil, why end
  local line
  line, why = socket:receive("*l")
  if not line then return nil, why end
  if _M.now() >= deadline then return nil, "timeout" end
  local status, length = tonumber(line:match("^HTTP/1%.%d (%d%d%d)")), nil
  if not status then return nil, "no HTTP" end
  repeat
    line, why = socket:receive("*l")
    if not line then return nil, why end
    length = tonumber(line:match("^[Cc]ontent%-[Ll]ength:%s*(%d+)")) or length
  until line == "" or line == "\r"
  -- What follows would be taken for the next answer.
  if not length then return nil, "no length" end
  if length > MOST_BYTES then return nil, "too large" end
  if length == 0 then return status, "" end
  if _M.now() >= deadline then return nil, "timeout" end
  local body, cut = socket:receive(length)
  if not body then return nil, cut end
  return status, body
end

--- Close sockets whose deadline has passed, for ever; who waits for one is told that it is closed.
-- `seconds` is what everything may take that uses kept sockets. This needs a task of its own.
function _M.watch(seconds)
  while true do
    local now = _M.now()
    local parts = now - used_at < BUSY_FOR and PARTS or 1
    core.msleep(math.max(1, math.floor(seconds * 1000 / parts)))
    now = _M.now()
    for socket, deadline in pairs(deadlines) do
      if now >= deadline then
        deadlines[socket] = nil
        socket:close()
      end
    end
  end
end

--- Return a kept socket, nil without one.
local function kept(now)
  while #idle > 0 do
    local last = table.remove(idle)
    if now - last.since < KEPT_FOR / 2 then return last.socket end
    last.socket:close()
  end
  return nil
end

local function late(deadline)
  return _M.now() >= deadline - 0.002
end

--- Return status and body of a GET of `path`, or nil and a reason.
-- `site` is {host, port}. No step begins after `seconds`. With `keep` the connection is used
-- again, and `watch` ends what takes longer, a quarter of that later at most while picks are
-- made. A connection that the daemon closed meanwhile is replaced once; one that was silent
-- until the deadline is not, or the wait would be doubled.
function _M.get(site, path, seconds, keep)
  local now = _M.now()
  local deadline = now + seconds
  local request = "GET " .. path .. " HTTP/1.1\r\nHost: scorer\r\n\r\n"
  while true do
    local socket, old = keep and kept(now), true
    if not socket then
      old = false
      socket = core.tcp()
      socket:settimeout(keep and KEPT_FOR or seconds)
    end
    if keep then
      deadlines[socket], used_at = deadline, now
    end
    if not old and not socket:connect(site[1], site[2]) then
      deadlines[socket] = nil
      socket:close()
      return nil, late(deadline) and "timeout" or "connect"
    end
    local fine, status, body = pcall(exchange, socket, request, deadline)
    deadlines[socket] = nil
    if fine and status then
      if keep and #idle < KEPT then
        idle[#idle + 1] = { socket = socket, since = _M.now() }
      else
        socket:close()
      end
      return status, body
    end
    pcall(socket.close, socket)
    if late(deadline) then return nil, "timeout" end
    if not old then return nil, "broken" end
  end
end

return _M
