--- HTTP/1.1 to the daemon over cosockets that are kept open, with one deadline for all of it.

local _M = {}

local tcp, now = ngx.socket.tcp, ngx.now
local IDLE_MS = 30000 -- less than the daemon's 75 s: the side that asks closes first
local POOL_SIZE = 64

local function left(deadline)
  local ms = (deadline - now()) * 1000
  return ms >= 1 and ms or nil
end

--- Exchange one request; returns nil, what failed, and how often its connection was used before.
local function once(daemon, request, deadline)
  local ms = left(deadline)
  if not ms then return nil, "timeout", 0 end
  local sock = tcp()
  sock:settimeout(ms)
  local ok, problem = sock:connect(daemon.host, daemon.port, { pool_size = POOL_SIZE })
  if not ok then return nil, problem, 0 end
  local reused = sock:getreusedtimes() or 0

  local function fails(what)
    sock:close()
    return nil, what, reused
  end

  ok, problem = sock:send(request)
  if not ok then return fails(problem) end
  ms = left(deadline)
  if not ms then return fails("timeout") end
  sock:settimeout(ms)
  local head
  head, problem = sock:receiveuntil("\r\n\r\n")()
  if not head then return fails(problem) end
  local status = tonumber(head:match("^HTTP/1%.%d (%d%d%d)"))
  if not status then return fails("no HTTP") end
  local lower = head:lower()
  local length = tonumber(lower:match("\r\ncontent%-length: *(%d+)"))
  if status == 204 or status == 304 then length = 0 end
  if not length then return fails("no length") end
  local body = ""
  if length > 0 then
    ms = left(deadline)
    if not ms then return fails("timeout") end
    sock:settimeout(ms)
    body, problem = sock:receive(length)
    if not body then return fails(problem) end
  end
  if lower:find("\r\nconnection: close", 1, true) then
    sock:close()
  else
    sock:setkeepalive(IDLE_MS, POOL_SIZE)
  end
  return status, body, lower
end

--- Return status, body and head in lower case; or nil and what failed.
-- `daemon` has host and port, `seconds` are for everything together.
function _M.exchange(daemon, request, seconds)
  local deadline = now() + seconds
  local status, body, more = once(daemon, request, deadline)
  -- The daemon may have closed a kept connection meanwhile. Never again after a timeout:
  -- that would double the longest wait.
  if not status and more > 0 and body ~= "timeout" then
    status, body, more = once(daemon, request, deadline)
  end
  if not status then return nil, body end
  return status, body, more
end

return _M
