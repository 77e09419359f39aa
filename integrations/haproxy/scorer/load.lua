--- What this thread sent to each target: what local picks reckon with.
--
-- The snapshot's own numbers are of the moment it was made and hold what was sent until
-- then; they fade as it ages, and what was picked here since counts on top. Work ahead of
-- a first token is worked off at the target's rate. A lease that nobody ends is dropped.

local p2c = require "p2c"

local _M = {}

local HALF_LIFE = 5.0 -- seconds in which half of a snapshot's requests are over
local LEASE_TTL = 600.0

local leases, targets, last = {}, {}, 0

local function of(target)
  local own = targets[target]
  if not own then
    own = { n = 0, tokens = 0, free_at = 0 }
    targets[target] = own
  end
  return own
end

--- A request goes to a target; returns the number that ends it.
function _M.start(target, tokens, rate, now)
  local own = of(target)
  own.n, own.tokens = own.n + 1, own.tokens + tokens
  local seconds = p2c.work(tokens) / rate
  own.free_at = math.max(own.free_at, now) + seconds
  last = last + 1
  leases[last] = {
    target = target, tokens = tokens, at = now, seconds = seconds, until_then = own.free_at,
  }
  return last
end

--- A request is over; what was still ahead of it by the estimate is ahead of nobody.
function _M.finish(number, now)
  local lease = leases[number]
  if not lease then return end
  leases[number] = nil
  local own = of(lease.target)
  own.n, own.tokens = own.n - 1, own.tokens - lease.tokens
  own.free_at = own.free_at - math.max(0, math.min(lease.seconds, lease.until_then - now))
  if own.n == 0 then targets[lease.target] = nil end
end

--- End the leases that nobody ended.
function _M.expire(now)
  local old = {}
  for number, lease in pairs(leases) do
    if now - lease.at > LEASE_TTL then old[#old + 1] = number end
  end
  for _, number in ipairs(old) do _M.finish(number, now) end
end

--- Return the function that tells p2c the load of a row of a snapshot made at `made`.
function _M.since(made, now)
  local left = 0.5 ^ (math.max(0, now - made) / HALF_LIFE)
  return function(row)
    local own = targets[row.target]
    local ahead = math.max(0, row.outstanding - row.rate * (now - made))
    if not own then return row.in_flight * left, row.resident * left, ahead end
    return math.max(own.n, row.in_flight * left), math.max(own.tokens, row.resident * left),
      math.max(ahead, (own.free_at - now) * row.rate)
  end
end

function _M.in_flight(target)
  return targets[target] and targets[target].n or 0
end

return _M
