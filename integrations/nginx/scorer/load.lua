--- Requests under way per target, shared by all workers: what local picks reckon with.
--
-- Three numbers per target: requests in flight, tokens of their prompts, and the work of
-- those that wait for their first token. A snapshot is kept with the same numbers as they were
-- at that moment, its mark: what it holds beyond them is the load of others, whose end nobody
-- tells here. That fades, or a target that was busy when the daemon died would be for ever.

local cjson = require "cjson.safe"
local p2c = require "p2c"

local _M = {}

local HALF_LIFE = 5.0 -- seconds in which half of the others' requests are over

local dict
local keys = {}

local function keys_of(target)
  local found = keys[target]
  if not found then
    found = { n = "n " .. target, r = "r " .. target, w = "w " .. target }
    keys[target] = found
  end
  return found
end

function _M.setup(shared)
  dict = shared
end

--- A request goes to a target; returns what `first_token` and `finish` need.
function _M.start(target, tokens)
  local lease = { keys = keys_of(target), tokens = tokens, work = math.floor(p2c.work(tokens)) }
  dict:incr(lease.keys.n, 1, 0)
  dict:incr(lease.keys.r, tokens, 0)
  dict:incr(lease.keys.w, lease.work, 0)
  return lease
end

function _M.first_token(lease)
  if lease.work then
    dict:incr(lease.keys.w, -lease.work, 0)
    lease.work = nil
  end
end

function _M.finish(lease)
  _M.first_token(lease)
  dict:incr(lease.keys.n, -1, 0)
  dict:incr(lease.keys.r, -lease.tokens, 0)
end

function _M.in_flight(target)
  return math.max(0, dict:get(keys_of(target).n) or 0)
end

--- Return the mark of a snapshot as JSON.
function _M.mark(targets)
  local found = {}
  for _, target in ipairs(targets) do
    local own = keys_of(target)
    local n = dict:get(own.n)
    if n then found[target] = { n, dict:get(own.r) or 0, dict:get(own.w) or 0 } end
  end
  return cjson.encode(found)
end

--- Return the function that tells p2c the load of a row of a snapshot `age` seconds old.
function _M.since(mark, age)
  local left = 0.5 ^ (age / HALF_LIFE)
  return function(row)
    local own, before = keys_of(row.target), mark[row.target]
    local n, r, w = row.in_flight, row.resident, row.outstanding
    if before then n, r, w = n - before[1], r - before[2], w - before[3] end
    return (dict:get(own.n) or 0) + math.max(0, n) * left,
      (dict:get(own.r) or 0) + math.max(0, r) * left,
      (dict:get(own.w) or 0) + math.max(0, w - row.rate * age)
  end
end

--- Forget a target that is gone.
function _M.forget(target)
  local own = keys_of(target)
  dict:delete(own.n)
  dict:delete(own.r)
  dict:delete(own.w)
  keys[target] = nil
end

return _M
