--- The pick of scorer in pure Lua: what a proxy goes by while the daemon cannot be asked.
--
-- The rule is that of docs/picking.md, from the data of GET /api/v1/snapshot, and comes to
-- the same choices as the daemon for the same draws (tests/vectors). No I/O, no clock, no
-- library: Lua 5.1, 5.3, 5.4 and LuaJIT, in any proxy.
--
--   local p2c = require "p2c"
--
--   pool = p2c.pool(data, name, model)
--     One pool of the snapshot's data: the one called `name`, else the first that serves
--     `model`, else the only one. nil and a reason when there is none.
--
--   view = p2c.view(pool [, random])
--     What picks look at; made once per snapshot. With `random` a pool of more than eight
--     targets is brought into random order, as it must be outside of tests. `view.rows` has
--     a row per candidate, `view.rest` one per other target that is not draining.
--
--   choice = p2c.choose(view, ask, random [, load])
--     ask.prompt_tokens  tokens of the prompt; nil: not known
--     ask.exclude        set of targets not to return: {["10.0.0.7:8000"] = true}
--     ask.key, ask.lora  affinity and adapter; nil or "": none
--     random             a function that returns a float in [0, 1)
--     load               a function that is given a row and returns three numbers to reckon
--                        with instead of the snapshot's own: requests in flight, tokens of
--                        their prompts, token-equivalents ahead of a new prompt. For a
--                        proxy that knows what it sent since the snapshot was made.
--     Returns nil when every target is excluded, else a table with `target`, `url`, `score`
--     (nil: not judged), `alternates` (up to two targets, whom to try next), `reason`,
--     `relaxed` and `panic`, as the daemon's decisions have them.
--
--   target, alternates = p2c.any_two(targets, exclude, random)
--     Without any snapshot: two of a list of targets at random. nil when all are excluded.
--
--   p2c.work(tokens)   token-equivalents of a prompt
--
--   p2c.MOST_BYTES     a proxy takes no prompt to be longer, whatever its client announces
--
--   p2c.lasting(pool)  the pool without what is true for seconds only, saturation cooldowns and
--                      full KV caches: for a snapshot that is older than p2c.BRIEF seconds, or
--                      whoever was full when the daemon died would get no long prompt again
--
-- JSON's null may be nil or any value that is no number, string or boolean (cjson.null).

local p2c = {}

local floor, huge = math.floor, math.huge

local SAMPLE, RUN, LOOKED_AT, ADAPTERS = 8, 4, 24, 2
local PRIME, WINDOW = 67108859, 8
local L0, DECODE_WORK, RESIDENT_WORK = 50000.0, 32.0, 0.05
local LONG_WORK, HARM = 32000.0, 0.07
local LEAST_SHARE = 0.02
local COLD_SECONDS, COLD_SHARE = 0.1, 0.25
local POINTS_PER_SECOND, SURE_AT = 100.0, 20.0
local MAX_ALTERNATES = 2
-- No engine takes a longer prompt; a larger number is a mistake that must not spread.
local MOST_TOKENS = 10000000

p2c.MOST_BYTES = 4 * MOST_TOKENS

local function number(value)
  if type(value) == "number" then return value end
  return nil
end

--- Return an index of a list of `size` for one draw.
local function drawn(random, size)
  return floor(random() * size) + 1
end

local function holds(list, wanted)
  for _, each in ipairs(list) do
    if each == wanted then return true end
  end
  return false
end

-- Affinity: rendezvous hashing among the targets that follow the key on a ring. ------------

--- Return the hash of a text: its bytes after a 1 as a number, modulo the prime.
function p2c.point(text)
  local value = 1
  for place = 1, #text do
    value = (value * 256 + text:byte(place)) % PRIME
  end
  return value
end

--- Return a hash of two points; every product is exact in a double.
function p2c.mixed(one, other)
  local value = (one + other) % PRIME
  value = (value * value + one) % PRIME
  value = (value * value + other) % PRIME
  return (value * value + one) % PRIME
end

--- Return the ring of a list of targets.
function p2c.ring(targets)
  local ring = { points = {}, order = {}, places = {}, targets = targets }
  local placed = {}
  for index, target in ipairs(targets) do
    local point = p2c.point(target)
    ring.points[index] = point
    placed[index] = { place = p2c.mixed(point, 0), target = target, index = index }
  end
  table.sort(placed, function(one, other)
    if one.place ~= other.place then return one.place < other.place end
    if one.target ~= other.target then return one.target < other.target end
    return one.index < other.index
  end)
  for step, each in ipairs(placed) do
    ring.places[step], ring.order[step] = each.place, each.index
  end
  return ring
end

--- Return the index of the target that a key prefers; targets in the set `out` do not count.
function p2c.preferred(ring, key, out)
  local own, size = p2c.point(key), #ring.order
  local sought = p2c.mixed(own, 0)
  local low, high = 0, size
  while low < high do
    local middle = floor((low + high) / 2)
    if ring.places[middle + 1] < sought then low = middle + 1 else high = middle end
  end
  local best, highest = nil, -1
  for step = low, low + math.min(WINDOW, size) - 1 do
    local index = ring.order[step % size + 1]
    if not (out and out[ring.targets[index]]) then
      local value = p2c.mixed(own, ring.points[index])
      if value > highest or (value == highest and best and index < best) then
        best, highest = index, value
      end
    end
  end
  return best
end

-- What picks look at. ------------------------------------------------------------------------

--- Return whether a shell-style pattern fits a text; case counts.
local function fits(glob, text)
  local pattern, place = "^", 1
  while place <= #glob do
    local sign = glob:sub(place, place)
    local first = glob:sub(place + 1, place + 1) == "!" and place + 3 or place + 2
    local close = sign == "[" and glob:find("]", first, true)
    if sign == "*" then
      pattern = pattern .. ".*"
    elseif sign == "?" then
      pattern = pattern .. "."
    elseif close then
      local set = glob:sub(place + 1, close - 1):gsub("^!", "\1"):gsub("[%%%]%[^]", "%%%0")
      pattern = pattern .. "[" .. set:gsub("^\1", "^") .. "]"
      place = close
    else
      pattern = pattern .. sign:gsub("%p", "%%%0")
    end
    place = place + 1
  end
  return text:find(pattern .. "$") ~= nil
end

function p2c.pool(data, name, model)
  local pools = data.pools
  if name and name ~= "" then
    for _, pool in ipairs(pools) do
      if pool.pool == name then return pool end
    end
    return nil, "no pool " .. name
  end
  if model and model ~= "" then
    for _, pool in ipairs(pools) do
      if #pool.models == 0 then return pool end
      for _, glob in ipairs(pool.models) do
        if fits(glob, model) then return pool end
      end
    end
    return nil, "no pool serves the model " .. model
  end
  if #pools == 1 then return pools[1] end
  return nil, "several pools, and neither pool nor model given"
end

local function row_of(target, guard)
  local used, capacity = number(target.kv_cache), number(target.kv_capacity)
  local loras = {}
  for _, name in ipairs(target.loras) do loras[name] = true end
  return {
    target = target.target,
    url = target.url,
    score = number(target.score),
    health = target.health,
    share = math.max(target.health / 100.0, LEAST_SHARE),
    admit = target.admit,
    cooling = target.cooling,
    room = (capacity and capacity > 0) and (guard - (used or 0)) * capacity or huge,
    loras = loras,
    rate = target.prefill_rate,
    in_flight = target.in_flight,
    resident = target.resident_tokens,
    outstanding = target.outstanding,
    fresh = target.fresh_tokens,
  }
end

p2c.BRIEF = 10.0

function p2c.lasting(pool)
  local copy = {}
  for name, value in pairs(pool) do copy[name] = value end
  copy.targets = {}
  for place, target in ipairs(pool.targets) do
    local kept = {}
    for name, value in pairs(target) do kept[name] = value end
    kept.cooling, kept.kv_cache = false, nil
    copy.targets[place] = kept
  end
  return copy
end

function p2c.view(pool, random)
  local view = {
    pool = pool.pool,
    panic = pool.panic,
    mean_prompt_tokens = pool.mean_prompt_tokens,
    choices = pool.choices,
    long_prompt_tokens = pool.long_prompt_tokens,
    rows = {},
    rest = {},
  }
  for _, target in ipairs(pool.targets) do
    local row = row_of(target, pool.kv_guard)
    if target.candidate then
      table.insert(view.rows, row)
    elseif not target.draining then
      table.insert(view.rest, row)
    end
  end
  local rows = view.rows
  if random and #rows > SAMPLE then
    for last = #rows, 2, -1 do
      local other = drawn(random, last)
      rows[last], rows[other] = rows[other], rows[last]
    end
  end
  view.short_list = {}
  for _, row in ipairs(rows) do
    if not row.cooling then table.insert(view.short_list, row) end
  end
  -- One and the same list tells that a prompt's length makes no difference.
  if #view.short_list == #rows then view.short_list = rows end
  return view
end

--- Return the candidate that the key of a request prefers.
local function preferred(view, ask)
  if #view.rows == 0 then return nil end
  if not view.ring then
    local targets = {}
    for index, row in ipairs(view.rows) do targets[index] = row.target end
    view.ring = p2c.ring(targets)
  end
  local index = p2c.preferred(view.ring, ask.key, ask.exclude)
  return index and view.rows[index]
end

-- The sample. --------------------------------------------------------------------------------

--- Return where the two runs start, counted from 0; they never overlap.
local function runs_of(size, random)
  local one = floor(random() * size)
  local two = one + RUN + floor(random() * (size - 2 * RUN + 1))
  return one, two % size
end

--- Return the two runs that start at these places.
local function cut(rows, one, two)
  local found, size = {}, #rows
  for _, start in ipairs({ one, two }) do
    for step = 0, RUN - 1 do
      found[#found + 1] = rows[(start + step) % size + 1]
    end
  end
  return found
end

--- Return who follows the second run, without the first: 16 besides those excluded.
local function after(rows, one, two, exclude)
  local found, size, left = {}, #rows, LOOKED_AT
  for _, row in ipairs(cut(rows, one, two)) do
    if not exclude[row.target] then left = left - 1 end
  end
  for step = 0, size - 1 do
    local place = (two + RUN + step) % size
    if (place - one) % size >= RUN then
      local row = rows[place + 1]
      found[#found + 1] = row
      if not exclude[row.target] then left = left - 1 end
      if left == 0 or #found == size - SAMPLE then break end
    end
  end
  return found
end

local function without(rows, others)
  local found = {}
  for _, row in ipairs(rows) do
    if not holds(others, row) then found[#found + 1] = row end
  end
  return found
end

--- Draw targets, those in `first` before, until there are enough to compare.
-- Returns them, those short of KV room, and those whose ramp kept them out.
local function survey(rows, tokens, ask, random, first)
  local kept, guarded, warming = {}, {}, {}
  local exclude = ask.exclude
  local function look_at(part)
    for _, row in ipairs(part) do
      if exclude[row.target] then -- luacheck: ignore 542
      elseif row.admit < 1.0 and random() >= row.admit then
        warming[#warming + 1] = row
      elseif row.fresh + tokens > row.room then
        guarded[#guarded + 1] = row
      else
        kept[#kept + 1] = row
        if #kept == SAMPLE then return true end
      end
    end
    return false
  end
  if #rows <= SAMPLE then
    look_at(rows)
  elseif not look_at(first) then
    local one, two = runs_of(#rows, random)
    if not look_at(without(cut(rows, one, two), first)) then
      look_at(without(after(rows, one, two, exclude), first))
    end
  end
  return kept, guarded, warming
end

--- Return whom the request asks for by key or adapter, as far as they take the prompt.
local function named(view, ask, rows, random)
  local long, found = rows ~= view.rows, {}
  local function add(row)
    if row and not (long and row.cooling) and not holds(found, row) then
      found[#found + 1] = row
    end
  end
  if ask.key ~= "" then add(preferred(view, ask)) end
  if ask.lora ~= "" then
    local running = {}
    for _, row in ipairs(view.rows) do
      if row.loras[ask.lora] then running[#running + 1] = row end
    end
    if #running > ADAPTERS then
      local one, two = drawn(random, #running), drawn(random, #running - 1)
      if two >= one then two = two + 1 end
      running = { running[one], running[two] }
    end
    for _, row in ipairs(running) do add(row) end
  end
  return found
end

local function head(rows)
  local found = {}
  for place = 1, math.min(SAMPLE, #rows) do found[place] = rows[place] end
  return found
end

--- Return the sample, the last filter that had to be dropped, and whether it is panic.
local function sampled(view, ask, tokens, random)
  local rows = tokens < view.long_prompt_tokens and view.rows or view.short_list
  local first = named(view, ask, rows, random)
  local kept, guarded, warming = survey(rows, tokens, ask, random, first)
  if #kept > 0 then return kept, "", view.panic end
  if #guarded > 0 then return head(guarded), "kv_guard", view.panic end
  if rows ~= view.rows then
    kept, guarded, warming = survey(view.rows, tokens, ask, random, {})
    if #kept > 0 then return kept, "cooldown", view.panic end
    if #guarded > 0 then return head(guarded), "cooldown", view.panic end
  end
  if #warming > 0 then return head(warming), "warmup", view.panic end
  kept, guarded, warming = survey(view.rest, tokens, ask, random, {})
  if #kept == 0 then kept = #guarded > 0 and guarded or warming end
  return head(kept), "", true
end

-- The choice. --------------------------------------------------------------------------------

function p2c.work(tokens)
  return tokens * (1.0 + tokens / L0)
end

local function weigh(sample, tokens, load)
  local need, costs, best = p2c.work(tokens), {}, huge
  local harm = HARM * math.max(0, need - LONG_WORK)
  for index, row in ipairs(sample) do
    local in_flight, resident, outstanding = row.in_flight, row.resident, row.outstanding
    if load then in_flight, resident, outstanding = load(row) end
    local decode = DECODE_WORK * in_flight + RESIDENT_WORK * resident
    local own = need + harm * in_flight
    local cost = ((outstanding + decode) / row.rate + own / row.rate) / row.share
    costs[index] = cost
    if cost < best then best = cost end
  end
  return costs, best
end

--- Append to `order` further targets of the sample, cold ones first.
local function filled(order, sample, cold, random)
  while #order <= MAX_ALTERNATES and #order < #sample do
    local others = {}
    for _, index in ipairs(cold) do
      if not holds(order, index) then others[#others + 1] = index end
    end
    if #others == 0 then
      for index = 1, #sample do
        if not holds(order, index) then others[#others + 1] = index end
      end
    end
    order[#order + 1] = #others > 1 and others[drawn(random, #others)] or others[1]
  end
  return order
end

--- Return whether target `one` of the sample wins against the `other`.
local function wins(sample, costs, one, other, random)
  local ahead = (sample[one].health - POINTS_PER_SECOND * costs[one])
    - (sample[other].health - POINTS_PER_SECOND * costs[other])
  return random() < 0.5 + ahead / SURE_AT
end

--- Return two of the cold ones, the winner first, and those that were not drawn.
local function two_of(cold, sample, costs, random)
  local one, two = drawn(random, #cold), drawn(random, #cold - 1)
  if two >= one then two = two + 1 end
  local left = {}
  for place, index in ipairs(cold) do
    if place ~= one and place ~= two then left[#left + 1] = index end
  end
  one, two = cold[one], cold[two]
  if wins(sample, costs, one, two, random) then return { one, two }, left end
  return { two, one }, left
end

--- Return how the winner was found, and indexes of the sample: it, then whom to try next.
local function ordered(view, ask, sample, costs, cold, random)
  if ask.key ~= "" then
    local wanted = preferred(view, ask)
    for _, index in ipairs(cold) do
      if sample[index] == wanted then
        return "key", filled({ index }, sample, cold, random)
      end
    end
  end
  if view.choices == "all" then
    local equal, lowest = {}, huge
    for _, index in ipairs(cold) do lowest = math.min(lowest, costs[index]) end
    for _, index in ipairs(cold) do
      if costs[index] == lowest then equal[#equal + 1] = index end
    end
    local first = #equal > 1 and equal[drawn(random, #equal)] or equal[1]
    return "all", filled({ first }, sample, cold, random)
  end
  if #cold == 1 then return "cold", filled({ cold[1] }, sample, cold, random) end
  local order, left = two_of(cold, sample, costs, random)
  local choices = view.choices
  while #left > 0 and choices > 2 do
    local further = table.remove(left, drawn(random, #left))
    if wins(sample, costs, further, order[1], random) then
      order = { further, order[1] }
    else
      order = { order[1], further }
    end
    choices = choices - 1
  end
  return "draw", filled(order, sample, cold, random)
end

function p2c.choose(view, ask, random, load)
  local request = { exclude = ask.exclude or {}, key = ask.key or "", lora = ask.lora or "" }
  local tokens = ask.prompt_tokens or 0
  if tokens <= 0 then tokens = view.mean_prompt_tokens end
  if tokens ~= tokens or tokens > MOST_TOKENS then tokens = MOST_TOKENS end -- NaN, too
  local sample, relaxed, panic = sampled(view, request, tokens, random)
  if #sample == 0 then return nil end
  local costs, best = weigh(sample, tokens, load)
  local limit = best + COLD_SECONDS + COLD_SHARE * best
  local cold, running = {}, {}
  for index, cost in ipairs(costs) do
    if cost <= limit then
      cold[#cold + 1] = index
      if sample[index].loras[request.lora] then running[#running + 1] = index end
    end
  end
  if #running > 0 then cold = running end
  local reason, order = ordered(view, request, sample, costs, cold, random)
  local alternates = {}
  for place = 2, #order do alternates[#alternates + 1] = sample[order[place]].target end
  -- Candidates that a filter kept out of the sample are tried at last.
  for _, row in ipairs(view.rows) do
    if #alternates >= MAX_ALTERNATES then break end
    if not request.exclude[row.target] and not holds(sample, row) then
      alternates[#alternates + 1] = row.target
    end
  end
  local row = sample[order[1]]
  return {
    target = row.target, url = row.url, score = row.score, alternates = alternates,
    reason = reason, relaxed = relaxed, panic = panic,
  }
end

function p2c.any_two(targets, exclude, random)
  local left = {}
  for _, target in ipairs(targets) do
    if not exclude[target] then left[#left + 1] = target end
  end
  if #left == 0 then return nil end
  local target = table.remove(left, drawn(random, #left))
  local other = #left > 0 and left[drawn(random, #left)]
  return target, { other or nil }
end

return p2c
