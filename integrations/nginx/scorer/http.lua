--- HTTP/1.1 to the daemon over cosockets that are kept open, with one deadline for all of it.
--
-- This runs for every request, so it makes no closure and reads what comes in one go.

local _M = {}

local tcp, now = ngx.socket.tcp, ngx.now
local IDLE_MS = 30000 -- less than the daemon's 75 s: the side that asks closes first
local POOL = { pool_size = 64 }
local MOST_READ = 65536
local MOST_HEAD = 65536

--- Close a connection and return nil, what failed, and whether it had been used before.
local function failed(sock, what)
  local reused = (sock:getreusedtimes() or 0) > 0
  sock:close()
  return nil, what, reused
end

--- Let what follows on a connection take until the deadline at most; false when that has passed.
local function in_time(sock, deadline)
  local ms = (deadline - now()) * 1000
  if ms < 1 then return false end
  sock:settimeout(ms)
  return true
end

--- Return the length of the body that a head announces.
local function length_of(status, head)
  if status == 204 or status == 304 then return 0 end
  return tonumber(head:match("\r\n[Cc]ontent%-[Ll]ength: *(%d+)"))
end

--- Exchange one request; returns status, body and head; or nil and what failed, and whether the
-- connection had been used before.
local function once(daemon, request, deadline)
  local sock = tcp()
  if not in_time(sock, deadline) then return nil, "timeout", false end
  local ok, problem = sock:connect(daemon.host, daemon.port, POOL)
  if not ok then return nil, problem, false end
  ok, problem = sock:send(request)
  if not ok then return failed(sock, problem) end
  local data = ""
  local stop
  repeat
    if not in_time(sock, deadline) then return failed(sock, "timeout") end
    local more
    more, problem = sock:receiveany(MOST_READ)
    if not more then return failed(sock, problem) end
    data = data == "" and more or data .. more
    stop = data:find("\r\n\r\n", 1, true)
  until stop or #data > MOST_HEAD
  local status = tonumber(data:match("^HTTP/1%.%d (%d%d%d)"))
  if not (stop and status) then return failed(sock, "no HTTP") end
  local head = data:sub(1, stop + 1)
  local length, body = length_of(status, head), data:sub(stop + 4)
  if not length then return failed(sock, "no length") end
  if #body < length then
    if not in_time(sock, deadline) then return failed(sock, "timeout") end
    local rest
    rest, problem = sock:receive(length - #body)
    if not rest then return failed(sock, problem) end
    body = body .. rest
  end
  if #body > length or head:find("\r\n[Cc]onnection: *close") then
    sock:close()
  else
    sock:setkeepalive(IDLE_MS)
  end
  return status, body, head
end

--- Return status, body and head of the answer; or nil and what failed.
-- `daemon` has host and port, `seconds` are for everything together.
function _M.exchange(daemon, request, seconds)
  local deadline = now() + seconds
  local status, body, more = once(daemon, request, deadline)
  -- The daemon may have closed a kept connection meanwhile. Never again after a timeout:
  -- that would double the longest wait.
  if not status and more and body ~= "timeout" then
    status, body, more = once(daemon, request, deadline)
  end
  if not status then return nil, body end
  return status, body, more
end

return _M
