--- Counters and the histogram of first tokens, for Prometheus and for the daemon itself.
--
-- Each worker counts in a table of its own and adds it to the shared dictionary with every
-- flush, so that a request costs no locked increments.

local load = require "scorer.load"

local _M = {}

local MOST_REMEMBERED = 4096 -- targets whose labels are kept
local BOUNDS = { 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 4, 6, 10, 15, 25, 40, 60, 120 }
local TEXT = {
  requests = "# HELP gateway_requests_total Attempts at a target by the status they ended with; "
    .. "000 is no answer.\n# TYPE gateway_requests_total counter\n",
  ttft = "# HELP gateway_ttft_seconds Time from sending a request to the first token of its "
    .. "answer.\n# TYPE gateway_ttft_seconds histogram\n",
  picks = "# HELP gateway_picks_total Targets picked: by the daemon, by the local rule from its "
    .. "snapshot or at random, or by nobody.\n# TYPE gateway_picks_total counter\n",
  misses = "# HELP gateway_pick_misses_total Picks that the daemon did not answer, by reason."
    .. "\n# TYPE gateway_pick_misses_total counter\n",
  retries = "# HELP gateway_retries_total Requests sent on to another target, by the one that "
    .. "failed.\n# TYPE gateway_retries_total counter\n",
  feedback = "# HELP gateway_feedback_items_total Reports to the daemon by what became of them."
    .. "\n# TYPE gateway_feedback_items_total counter\n",
}
local ORDER = { "requests", "ttft", "picks", "misses", "retries", "feedback" }
local NAMES = {
  requests = "gateway_requests_total",
  picks = "gateway_picks_total",
  misses = "gateway_pick_misses_total",
  retries = "gateway_retries_total",
  feedback = "gateway_feedback_items_total",
}

local dict
local counts = {}
local labels, made = {}, 0

local function escaped(text)
  return (text:gsub('[\\"\n]', { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }))
end

local function add(key, value)
  counts[key] = (counts[key] or 0) + value
end

--- Return `pool="…",target="…"` as `text`, with keys that were made for it.
local function labels_of(pool, target)
  local pools = labels[pool]
  if not pools then
    pools = {}
    labels[pool] = pools
  end
  local found = pools[target]
  if not found then
    made = made + 1
    if made > MOST_REMEMBERED then
      pools, made = {}, 1
      labels = { [pool] = pools }
    end
    local text = 'pool="' .. escaped(pool) .. '",target="' .. escaped(target) .. '"'
    found = { text = text, codes = {}, places = {}, sum = "m ttft " .. text .. " sum" }
    pools[target] = found
  end
  return found
end

function _M.setup(shared)
  dict = shared
end

function _M.request(pool, target, code)
  local of = labels_of(pool, target)
  local key = of.codes[code]
  if not key then
    key = "m requests " .. of.text .. string.format(',code="%03d"', code)
    of.codes[code] = key
  end
  add(key, 1)
end

function _M.ttft(pool, target, seconds)
  local place = 1
  while BOUNDS[place] and seconds > BOUNDS[place] do place = place + 1 end
  local of = labels_of(pool, target)
  local key = of.places[place]
  if not key then
    key = "m ttft " .. of.text .. " " .. place
    of.places[place] = key
  end
  add(key, 1)
  add(of.sum, seconds)
end

local PICKS = {
  daemon = 'm picks by="daemon"', ["local"] = 'm picks by="local"',
  random = 'm picks by="random"', nobody = 'm picks by="nobody"',
}

function _M.pick(by)
  add(PICKS[by], 1)
end

function _M.miss(reason)
  add('m misses reason="' .. reason .. '"', 1)
end

function _M.retry(pool, target)
  add("m retries " .. labels_of(pool, target).text, 1)
end

function _M.feedback(result, count)
  add('m feedback result="' .. result .. '"', count)
end

--- Add what this worker counted to what all workers have.
function _M.flush()
  if next(counts) == nil then return end
  local mine = counts
  counts = {}
  for key, value in pairs(mine) do
    local _, problem = dict:incr(key, value, 0)
    if problem then ngx.log(ngx.ERR, "scorer: ", key, ": ", problem) end
  end
end

local function number(value)
  return (string.format("%.6f", value):gsub("%.?0+$", ""))
end

local function histogram(lines, of, values)
  local count = 0
  for place = 1, #BOUNDS + 1 do
    count = count + (values[tostring(place)] or 0)
    local bound = BOUNDS[place] and tostring(BOUNDS[place]) or "+Inf"
    lines[#lines + 1] = "gateway_ttft_seconds_bucket{" .. of .. ',le="' .. bound .. '"} ' .. count
  end
  lines[#lines + 1] = "gateway_ttft_seconds_sum{" .. of .. "} " .. number(values.sum or 0)
  lines[#lines + 1] = "gateway_ttft_seconds_count{" .. of .. "} " .. count
end

--- Return the page. Series of targets that are not in the set `known` are forgotten; nil keeps all.
function _M.render(known)
  _M.flush()
  load.flush()
  local found = {}
  for _, name in ipairs(ORDER) do found[name] = {} end
  local keys = dict:get_keys(0)
  table.sort(keys)
  local histograms, order = {}, {}
  for _, key in ipairs(keys) do
    local name, rest = key:match("^m (%l+) (.*)$")
    local target = name and rest:match('target="([^"]*)"')
    local counted = key:match("^n (.*)$")
    if counted and known and not known[counted] and dict:get(key) <= 0 then load.forget(counted) end
    if target and known and not known[target] then
      dict:delete(key)
    elseif name == "ttft" then
      local of, what = rest:match("^(.*) (%w+)$")
      if not histograms[of] then
        histograms[of] = {}
        order[#order + 1] = of
      end
      histograms[of][what] = dict:get(key)
    elseif name then
      local line = NAMES[name] .. "{" .. rest .. "} " .. (dict:get(key) or 0)
      found[name][#found[name] + 1] = line
    end
  end
  for _, of in ipairs(order) do histogram(found.ttft, of, histograms[of]) end
  local page = {}
  for _, name in ipairs(ORDER) do
    if #found[name] > 0 then
      page[#page + 1] = TEXT[name] .. table.concat(found[name], "\n") .. "\n"
    end
  end
  return table.concat(page)
end

return _M
