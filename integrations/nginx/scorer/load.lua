--- Requests under way per target, shared by all workers: what local picks reckon with.
--
-- Three numbers per target: requests in flight, tokens of their prompts, and the work of
-- those that wait for their first token. Each worker keeps what changed in a table of its own
-- and adds it to the shared dictionary with every flush, so that a request costs no locked
-- increments: of other workers a worker knows what was until then, of itself everything.
--
-- A snapshot is kept with the same numbers as they were at that moment, its mark: what it
-- holds beyond them is the load of others, whose end nobody tells here. That fades, or a
-- target that was busy when the daemon died would be for ever.

local cjson = require "cjson.safe"
local p2c = require "p2c"

local _M = {}

local HALF_LIFE = 5.0 -- seconds in which half of the others' requests are over
local MOST_REMEMBERED = 4096 -- targets

local dict
-- target → its keys in the dictionary, and what changed since the last flush
local targets, remembered = {}, 0
local changed = {}

local function of(target)
  local found = targets[target]
  if not found then
    -- Whatever is under way or was not flushed yet has a hold of its own on what it changes.
    if remembered >= MOST_REMEMBERED then targets, remembered = {}, 0 end
    found = {
      n_key = "n " .. target, r_key = "r " .. target, w_key = "w " .. target, n = 0, r = 0, w = 0,
    }
    targets[target], remembered = found, remembered + 1
  end
  return found
end

local function add(own, n, r, w)
  own.n, own.r, own.w = own.n + n, own.r + r, own.w + w
  if not own.changed then
    own.changed = true
    changed[#changed + 1] = own
  end
end

--- Return the three numbers of a target.
local function numbers(own)
  return (dict:get(own.n_key) or 0) + own.n, (dict:get(own.r_key) or 0) + own.r,
    (dict:get(own.w_key) or 0) + own.w
end

function _M.setup(shared)
  dict = shared
end

--- Add what this worker knows to what all workers have.
function _M.flush()
  for place = 1, #changed do
    local own = changed[place]
    own.changed = false
    if own.n ~= 0 then dict:incr(own.n_key, own.n, 0) end
    if own.r ~= 0 then dict:incr(own.r_key, own.r, 0) end
    if own.w ~= 0 then dict:incr(own.w_key, own.w, 0) end
    own.n, own.r, own.w = 0, 0, 0
  end
  if #changed > 0 then changed = {} end
end

--- A request goes to a target; returns what `first_token` and `finish` need.
function _M.start(target, tokens)
  local own, work = of(target), math.floor(p2c.work(tokens))
  add(own, 1, tokens, work)
  return { own = own, tokens = tokens, work = work }
end

function _M.first_token(lease)
  if lease.work ~= 0 then
    add(lease.own, 0, 0, -lease.work)
    lease.work = 0
  end
end

function _M.finish(lease)
  add(lease.own, -1, -lease.tokens, -lease.work)
  lease.work = 0
end

function _M.in_flight(target)
  return math.max(0, (numbers(of(target))))
end

--- Return the mark of a snapshot as JSON.
function _M.mark(names)
  local found = {}
  for _, target in ipairs(names) do
    local n, r, w = numbers(of(target))
    if n ~= 0 or r ~= 0 or w ~= 0 then found[target] = { n, r, w } end
  end
  return cjson.encode(found)
end

--- Return the function that tells p2c the load of a row of a snapshot `age` seconds old.
function _M.since(mark, age)
  local left = 0.5 ^ (age / HALF_LIFE)
  return function(row)
    local before = mark[row.target]
    local others, resident, outstanding = row.in_flight, row.resident, row.outstanding
    if before then
      others, resident = others - before[1], resident - before[2]
      outstanding = outstanding - before[3]
    end
    local n, r, w = numbers(of(row.target))
    return math.max(0, n) + math.max(0, others) * left,
      math.max(0, r) + math.max(0, resident) * left,
      math.max(0, w) + math.max(0, outstanding - row.rate * age)
  end
end

--- Forget a target that is gone.
function _M.forget(target)
  local own = targets[target]
  if own and own.changed then return end -- a request of it is just ending
  dict:delete("n " .. target)
  dict:delete("r " .. target)
  dict:delete("w " .. target)
  if own then targets[target], remembered = nil, remembered - 1 end
end

return _M
