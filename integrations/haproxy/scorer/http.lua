--- GET from the daemon over kept connections, within a hard deadline.
--
-- `core.httpclient` waits for seconds and tries again by itself; a plain socket does what
-- it is told. Each step gets the time that is left of the whole.
-- luacheck: globals core

local _M = {}

local KEPT = 64
local KEPT_FOR = 60 -- seconds; the daemon keeps connections for 75
local MOST_BYTES = 33554432

local idle = {}

--- Return the seconds of a clock that only tells differences.
function _M.now()
  local at = core.now()
  return at.sec + at.usec / 1000000
end

local function line_of(socket)
  local line, why = socket:receive("*l")
  if not line then return nil, why end
  return (line:gsub("\r$", ""))
end

--- Send a request and read its answer; returns status and body, or nil and a reason.
local function exchange(socket, request, left)
  left()
  local sent, why = socket:send(request)
  if not sent then return nil, why end
  left()
  local line, problem = line_of(socket)
  if not line then return nil, problem end
  local status, length = tonumber(line:match("^HTTP/1%.%d (%d%d%d)")), 0
  if not status then return nil, "no HTTP" end
  while true do
    left()
    line, problem = line_of(socket)
    if not line then return nil, problem end
    if line == "" then break end
    local size = line:lower():match("^content%-length:%s*(%d+)")
    if size then length = tonumber(size) end
  end
  if length > MOST_BYTES then return nil, "too large" end
  if length == 0 then return status, "" end
  left()
  local body, cut = socket:receive(length)
  if not body then return nil, cut end
  return status, body
end

--- Return status and body of a GET of `path` within `seconds`, or nil and a reason.
-- `site` is {host, port}. A connection that the daemon closed meanwhile is replaced once;
-- one that was silent until the deadline is not, or the wait would be doubled.
function _M.get(site, path, seconds)
  local deadline = _M.now() + seconds
  local request = "GET " .. path .. " HTTP/1.1\r\nHost: scorer\r\n\r\n"
  while true do
    local socket, old = table.remove(idle), true
    local function left()
      local rest = deadline - _M.now()
      if rest <= 0 then error("timeout", 0) end
      socket:settimeout(rest)
    end
    if not socket then
      old = false
      socket = core.tcp()
      socket:settimeout(math.max(0.001, deadline - _M.now()))
      if not socket:connect(site[1], site[2]) then
        socket:close()
        return nil, _M.now() >= deadline - 0.002 and "timeout" or "connect"
      end
    end
    local fine, status, body = pcall(exchange, socket, request, left)
    if fine and status then
      socket:settimeout(KEPT_FOR)
      if #idle < KEPT then idle[#idle + 1] = socket else socket:close() end
      return status, body
    end
    pcall(socket.close, socket)
    if not old or _M.now() >= deadline - 0.002 then
      return nil, _M.now() >= deadline - 0.002 and "timeout" or "broken"
    end
  end
end

return _M
