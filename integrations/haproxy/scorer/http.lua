--- GET from the daemon over kept connections, within a deadline.
--
-- `core.httpclient` waits for seconds and tries again by itself; a plain socket does what
-- it is told. A socket's timeout is set once and never again: HAProxy 3.0 aborts when the
-- timeout of a socket that was idle for longer is shortened. So an idle socket lives no
-- longer than the timeout of a pick, and is used again in the first half of that only.
-- luacheck: globals core

local _M = {}

local KEPT = 64
local MOST_BYTES = 33554432

local idle = {}

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
  local status, length = tonumber(line:match("^HTTP/1%.%d (%d%d%d)")), 0
  if not status then return nil, "no HTTP" end
  repeat
    line, why = socket:receive("*l")
    if not line then return nil, why end
    length = tonumber(line:match("^[Cc]ontent%-[Ll]ength:%s*(%d+)")) or length
  until line == "" or line == "\r"
  if length > MOST_BYTES then return nil, "too large" end
  if length == 0 then return status, "" end
  if _M.now() >= deadline then return nil, "timeout" end
  local body, cut = socket:receive(length)
  if not body then return nil, cut end
  return status, body
end

--- Return a kept socket that was idle for less than `longest` seconds, nil without one.
local function kept(longest)
  while #idle > 0 do
    local last = table.remove(idle)
    if _M.now() - last.since < longest then return last.socket end
    last.socket:close()
  end
  return nil
end

local function late(deadline)
  return _M.now() >= deadline - 0.002
end

--- Return status and body of a GET of `path`, or nil and a reason.
-- `site` is {host, port}. Nothing is waited for longer than `seconds`, and no step begins
-- after that. With `keep` the connection is used again; `seconds` must then be the same every
-- time. A connection that the daemon closed meanwhile is replaced once; one that was silent
-- until the deadline is not, or the wait would be doubled.
function _M.get(site, path, seconds, keep)
  local deadline = _M.now() + seconds
  local request = "GET " .. path .. " HTTP/1.1\r\nHost: scorer\r\n\r\n"
  while true do
    local socket, old = keep and kept(seconds / 2), true
    if not socket then
      old = false
      socket = core.tcp()
      socket:settimeout(seconds)
      if not socket:connect(site[1], site[2]) then
        socket:close()
        return nil, late(deadline) and "timeout" or "connect"
      end
    end
    local fine, status, body = pcall(exchange, socket, request, deadline)
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
