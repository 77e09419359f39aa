--- HTTP/1.1 to the daemon over cosockets that are kept open, with one deadline for all of it.
--
-- This runs for every request, so it makes no closure, reads what comes in one go and looks for
-- plain texts: a pattern that is tried at each place of a head costs more than sending it.

local _M = {}

local tcp, now = ngx.socket.tcp, ngx.now
local find, match, sub = string.find, string.match, string.sub
local IDLE_MS = 30000 -- less than the daemon's 75 s: the side that asks closes first
local POOL = { pool_size = 64 }
local MOST_READ = 65536
local MOST_HEAD = 65536
local LENGTH = "\r\ncontent-length: "
local LAST_LINE = #LENGTH + 8

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

--- Return the status that an answer begins with.
local function status_of(data)
  if sub(data, 1, 13) == "HTTP/1.1 200 " then return 200 end
  return tonumber(match(data, "^HTTP/1%.%d (%d%d%d)"))
end

--- Return the length of the body that is announced before `stop`, where the head ends.
local function length_of(status, data, stop)
  if status == 204 or status == 304 then return 0 end
  local _, at = find(data, LENGTH, stop - LAST_LINE, true) -- where the daemon writes it
  return at and at < stop and tonumber(sub(data, at + 1, stop - 1))
    or tonumber(match(sub(data, 1, stop + 1), "\r\n[Cc]ontent%-[Ll]ength: *(%d+)"))
end

--- Return whether the other side closes the connection after this answer.
local function closes(data, stop)
  local at = find(data, "lose", 1, true) -- "l" is rarer than other letters
  return at and at < stop and find(sub(data, 1, stop + 1), "\r\n[Cc]onnection: *close") ~= nil
end

--- Exchange one request; returns what `exchange` does, and when that failed whether the connection
-- had been used before.
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
    stop = find(data, "\r\n\r\n", 1, true)
  until stop or #data > MOST_HEAD
  local status = stop and status_of(data)
  if not status then return failed(sock, "no HTTP") end
  local length, start = length_of(status, data, stop), stop + 4
  if not length then return failed(sock, "no length") end
  local missing = start + length - 1 - #data
  local ends = missing < 0 or closes(data, stop)
  if missing > 0 then
    if not in_time(sock, deadline) then return failed(sock, "timeout") end
    local rest
    rest, problem = sock:receive(missing)
    if not rest then return failed(sock, problem) end
    data = data .. rest
  end
  if ends then sock:close() else sock:setkeepalive(IDLE_MS) end
  return status, data, start
end

--- Return the status of the answer, the whole of it as text, and the place where its body begins;
-- or nil and what failed.
-- Head and body stay one text, because each text that is made is work for the garbage collector.
-- `daemon` has host and port, `seconds` are for everything together.
function _M.exchange(daemon, request, seconds)
  local deadline = now() + seconds
  local status, answer, more = once(daemon, request, deadline)
  -- The daemon may have closed a kept connection meanwhile. Never again after a timeout:
  -- that would double the longest wait.
  if not status and more and answer ~= "timeout" then
    status, answer, more = once(daemon, request, deadline)
  end
  if not status then return nil, answer end
  return status, answer, more
end

return _M
