--- Counters and the histogram of first tokens, for Prometheus and for the daemon itself.
--
-- The families are those of the nginx integration. Threads have a Lua of their own and share
-- HAProxy's process variables: each thread has variables that it alone writes, and whoever
-- renders the page adds them up. They are whole numbers; seconds are counted in µs.
--
--   proc.scorer_<thread>_n         how many counters the thread has
--   proc.scorer_<thread>_<i>       the i-th one, and with _k what it counts
--
-- Labels are pools, targets and statuses; beyond a number of targets further ones share one,
-- so nothing grows without an end.
-- luacheck: globals core

local _M = {}

local BOUNDS = { 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 4, 6, 10, 15, 25, 40, 60, 120 }
local MOST_TARGETS, MOST_THREADS = 2000, 64
local REQUESTS, PICKS = "gateway_requests_total", "gateway_picks_total"
local MISSES, RETRIES = "gateway_pick_misses_total", "gateway_retries_total"
local TTFT = "gateway_ttft_seconds"
local FAMILIES = {
  { REQUESTS, "Attempts at a target by the status they ended with; 000 is no answer." },
  { PICKS, "Targets picked: by the daemon, by the local rule from its snapshot, or by nobody." },
  { MISSES, "Picks that the daemon did not answer, by reason." },
  { RETRIES, "Requests sent on to another target, by the one that failed." },
}

local counters, count, names, targets = {}, 0, {}, 0

local function escaped(text)
  return (text:gsub('[\\"\n]', { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }))
end

--- Return `pool="…",target="…"`.
local function labels(pool, target)
  local key = pool .. " " .. target
  local found = names[key]
  if not found then
    if targets >= MOST_TARGETS then return 'pool="",target="others"' end
    targets = targets + 1
    found = ('pool="%s",target="%s"'):format(escaped(pool), escaped(target))
    names[key] = found
  end
  return found
end

local function add(txn, key, by)
  local prefix = "proc.scorer_" .. (core.thread or 0) .. "_"
  local own = counters[key]
  if not own then
    count = count + 1
    own = { name = prefix .. count, value = 0 }
    counters[key] = own
    txn:set_var(own.name .. "_k", key)
    txn:set_var(prefix .. "n", count)
  end
  own.value = own.value + by
  txn:set_var(own.name, own.value)
end

--- An attempt at a target ended; `code` is its status, 0 for no answer.
function _M.request(txn, pool, target, code)
  add(txn, REQUESTS .. " " .. labels(pool, target) .. (',code="%03d"'):format(code), 1)
end

function _M.retry(txn, pool, target)
  add(txn, RETRIES .. " " .. labels(pool, target), 1)
end

function _M.pick(txn, by, miss)
  add(txn, PICKS .. ' by="' .. escaped(by) .. '"', 1)
  if miss then add(txn, MISSES .. ' reason="' .. escaped(miss) .. '"', 1) end
end

function _M.ttft(txn, pool, target, microseconds)
  local place = 1
  while BOUNDS[place] and microseconds > BOUNDS[place] * 1000000 do place = place + 1 end
  local of = labels(pool, target)
  add(txn, TTFT .. " " .. of .. " " .. place, 1)
  add(txn, TTFT .. " " .. of .. " sum", microseconds)
end

--- Return family -> labels -> the sum over all threads; a histogram's is place -> sum.
local function gathered(from)
  local sums = {}
  for thread = 0, MOST_THREADS do
    local prefix = "proc.scorer_" .. thread .. "_"
    for index = 1, from:get_var(prefix .. "n") or 0 do
      local key, value = from:get_var(prefix .. index .. "_k"), from:get_var(prefix .. index)
      local family, of = tostring(key):match("^(%S+) (.*)$")
      local place
      if family == TTFT then of, place = of:match("^(.*) (%w+)$") end
      if family and value then
        sums[family] = sums[family] or {}
        local own = sums[family]
        if place then
          own[of] = own[of] or {}
          own, of = own[of], place
        end
        own[of] = (own[of] or 0) + value
      end
    end
  end
  return sums
end

local function sorted(values)
  local keys = {}
  for key in pairs(values) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

local function histogram(lines, of, own)
  local total = 0
  for place = 1, #BOUNDS + 1 do
    total = total + (own[tostring(place)] or 0)
    local bound = BOUNDS[place] and ("%g"):format(BOUNDS[place]) or "+Inf"
    lines[#lines + 1] = ('%s_bucket{%s,le="%s"} %d'):format(TTFT, of, bound, total)
  end
  lines[#lines + 1] = ("%s_sum{%s} %.6f"):format(TTFT, of, (own.sum or 0) / 1000000)
  lines[#lines + 1] = ("%s_count{%s} %d"):format(TTFT, of, total)
end

--- Return the page in Prometheus' text format 0.0.4; `from` reads variables.
function _M.page(from)
  local lines, sums = {}, gathered(from)
  for _, family in ipairs(FAMILIES) do
    local name, help = family[1], family[2]
    if sums[name] then
      lines[#lines + 1] = ("# HELP %s %s\n# TYPE %s counter"):format(name, help, name)
      for _, of in ipairs(sorted(sums[name])) do
        lines[#lines + 1] = ("%s{%s} %d"):format(name, of, sums[name][of])
      end
    end
  end
  if sums[TTFT] then
    lines[#lines + 1] = ("# HELP %s Time from sending a request to the first token of its answer."
      .. "\n# TYPE %s histogram"):format(TTFT, TTFT)
    for _, of in ipairs(sorted(sums[TTFT])) do histogram(lines, of, sums[TTFT][of]) end
  end
  return table.concat(lines, "\n") .. "\n"
end

return _M
