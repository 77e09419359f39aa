--- Picks a target for each request and times its first token. One copy per thread:
--
--   setenv SCORER_ADDRESS 127.0.0.1:9808       where the daemon is: an IP and a port, or unix:/path
--   setenv SCORER_PICK_TIMEOUT_MS 20           ms that a pick may take
--   lua-prepend-path    /etc/haproxy/lua/?.lua
--   lua-load-per-thread /etc/haproxy/lua/scorer.lua
--
-- Loaded with `lua-load`, all threads would wait for one lock.
--
-- action `lua.scorer_pick` (http-request), reads the variables
--     txn.scorer_pool, txn.scorer_model, txn.scorer_key, txn.scorer_lora   if set
--     txn.scorer_tried   targets not to return, with commas between
--   and sets
--     txn.scorer_pick    "target pick_id pool alternates by miss ip port name", "-" for what is
--                        missing; the name of a host that has to be resolved is in place of the IP
--     txn.scorer_refused when there is no target: the pool is empty, drained, or all are tried
-- action `lua.scorer_pick_again` (http-request): the same where the attempt is made, on the bind
--     line `name again`; the first attempt is handed its pick in the header X-Scorer-Pick
-- action `lua.scorer_error` (http-response), for errors: txn.scorer_error, txn.scorer_headers,
--     and txn.scorer_again when another target may be asked
-- fetch  `lua.scorer_record` (log-format): the fields of a feedback record, without braces
-- service `lua.scorer_metrics` (http-request use-service): the page for Prometheus
-- filter `lua.scorer`, in the front end of attempts: counts what is under way until the record,
--     and where txn.scorer_stream is set, txn.scorer_ttft in µs
-- luacheck: globals core filter

local answers = require "scorer.answers"
local http = require "scorer.http"
local json = require "scorer.json"
local load = require "scorer.load"
local metrics = require "scorer.metrics"
local record = require "scorer.record"
local p2c = require "p2c"
local tokens = require "tokens"

local BREAK_AFTER, BREAK_FOR = 3, 1.0 -- misses in a row, seconds without asking
local SNAPSHOT_EVERY, SNAPSHOT_WITHIN = 1.0, 2.0 -- seconds
local BUSY_SHARE = 20 -- a snapshot is read for a twentieth of the time at most
local LOG_EVERY = 10.0 -- seconds between two lines about the daemon
local BYTES_PER_TOKEN = 4
local MOST_ERROR = 4096
local SHORT_BODY = 16384

--- Return what the configuration says by `setenv`, or end the start with the rule that it breaks.
-- 2.6 hands no arguments to a copy per thread.
local function told(name, form, default, rule)
  local text = os.getenv(name)
  if not text or text == "" then text = default end
  local one, two = text:match(form)
  if not one then error(("scorer.lua: %s must be %s, got %s"):format(name, rule, text), 0) end
  return one, tonumber(two)
end

local path = (os.getenv("SCORER_ADDRESS") or ""):match("^unix:(/.*)$")
-- HAProxy takes a path for a Unix socket, as long as the port is 0.
local site = path and { path, 0 }
  or { told("SCORER_ADDRESS", "^%[?([%x.:]+)%]?:(%d+)$", "127.0.0.1:9808",
            "an IP address and a port, or unix:/path") }
local timeout = tonumber((told("SCORER_PICK_TIMEOUT_MS", "^(%d+)$", "20", "a number"))) / 1000

local misses, closed_until, logged_at = 0, 0, -LOG_EVERY
local snapshot -- the last one, decoded: {data =, made =, views = {}}

local function complain(what)
  local now = http.now()
  if now - logged_at >= LOG_EVERY then
    logged_at = now
    core.Warning("scorer: " .. what)
  end
end

-- The pick. ----------------------------------------------------------------------------------

local function escaped(text)
  return (text:gsub("[^%w._~:%-]", function(sign) return ("%%%02X"):format(sign:byte()) end))
end

local function parameter(name, text)
  if not text or text == "" then return "" end
  return "&" .. name .. "=" .. escaped(tostring(text))
end

local function path_of(ask)
  return "/pick?format=json" .. (ask.bytes and "&prompt_bytes=" .. ask.bytes or "")
    .. parameter("pool", ask.pool) .. parameter("model", ask.model) .. parameter("key", ask.key)
    .. parameter("lora", ask.lora) .. parameter("exclude", ask.tried)
end

--- Return the daemon's choice; or nil and why there is none.
local function asked(ask, now)
  if now < closed_until then return nil, "skipped" end
  -- One request finds out whether it is back; the others do not wait for that.
  if misses >= BREAK_AFTER then closed_until = now + BREAK_FOR end
  local status, body = http.get(site, path_of(ask), timeout, true)
  if not status then
    misses = misses + 1
    if misses >= BREAK_AFTER then closed_until = http.now() + BREAK_FOR end
    complain("no pick from the daemon (" .. tostring(body) .. "), picking locally")
    return nil, body
  end
  local target = status == 200 and body:match('^{"target":"([^"]+)"')
  local tried = ask.tried
  if target and not (tried and ("," .. tried .. ","):find("," .. target .. ",", 1, true)) then
    misses, closed_until = 0, 0
    local others, id, pool =
      body:match('"alternates":%[(.-)%],"pick_id":"([^"]+)".-"pool":"([^"]+)"')
    local alternates = others and others ~= "" and (others:find('","', 1, true) and 2 or 1) or 0
    return { target = target, pick_id = id, by = "daemon", pool = pool, alternates = alternates }
  end
  if status == 503 and body:find('"no_target"', 1, true) then
    misses, closed_until = 0, 0
    return nil, "no_target"
  end
  -- A daemon that says what is wrong with this request has an answer to the next one.
  local refused = status < 500 and body:find('"errorType"', 1, true)
  misses = refused and 0 or misses + 1
  if refused then closed_until = 0 end
  complain("a pick was answered with " .. status .. " " .. body:sub(1, 200))
  return nil, "status"
end

--- Return the choice by the last snapshot; `{refused = true}` for none; nil without a snapshot.
local function local_choice(ask, now)
  if not snapshot then return nil end
  local pool = p2c.pool(snapshot.data, ask.pool, ask.model)
  if not pool then return nil end
  local old = now - snapshot.made > p2c.BRIEF
  local key = (old and "old " or "new ") .. pool.pool
  local view = snapshot.views[key]
  if not view then
    view = p2c.view(old and p2c.lasting(pool) or pool, math.random)
    snapshot.views[key] = view
  end
  local exclude = {}
  for target in (ask.tried or ""):gmatch("[^,]+") do exclude[target] = true end
  local choice = p2c.choose(
    view, { prompt_tokens = ask.tokens, exclude = exclude, key = ask.key, lora = ask.lora },
    math.random, load.since(snapshot.made, now)
  )
  if not choice then return { refused = true } end
  return {
    target = choice.target, pool = pool.pool, by = "snapshot", alternates = #choice.alternates,
  }
end

local function rate_of(target)
  return snapshot and snapshot.rates[target] or 8000
end

--- Return the bytes that a request announces, nil if it does not.
-- Before the body is here a client may announce any length.
local function bytes_of(txn)
  local bytes = tonumber(txn.sf:req_hdr("content-length"))
  return bytes and math.floor(math.min(bytes, p2c.MOST_BYTES))
end

local function tokens_of(bytes)
  return bytes and math.ceil(bytes / BYTES_PER_TOKEN)
end

--- Return what HAProxy needs to know of a target: an IP, a port, and a host that is a name.
local function place_of(target)
  local host, port = target:match("^%[?(.-)%]?:(%d+)$")
  if not host then return "- - -" end
  if host:find("^[%d.]+$") or host:find(":", 1, true) then return host .. " " .. port .. " -" end
  return "- " .. port .. " " .. host
end

--- Count a request as under way until its record is written.
local function lease(txn, target, bytes)
  local number = load.start(target, tokens_of(bytes) or 1000, rate_of(target), http.now())
  txn:set_var("txn.scorer_lease", number)
end

--- Pick; returns the target, nil without one, and the bytes that the request announces.
local function pick(txn)
  local now = http.now()
  local bytes = bytes_of(txn)
  local ask = {
    bytes = bytes, tokens = tokens_of(bytes),
    pool = txn:get_var("txn.scorer_pool"), model = txn:get_var("txn.scorer_model"),
    key = txn:get_var("txn.scorer_key"), lora = txn:get_var("txn.scorer_lora"),
    tried = txn:get_var("txn.scorer_tried"),
  }
  local choice, miss = asked(ask, now)
  if not choice then
    -- A daemon that just started knows no target yet; who asked its predecessor does.
    choice = local_choice(ask, http.now()) or miss == "no_target" and { refused = true } or nil
  end
  if choice and choice.refused then
    txn:set_var("txn.scorer_refused", true)
  end
  choice = choice or {}
  txn:set_var("txn.scorer_pick", (choice.target or "-") .. " " .. (choice.pick_id or "-") .. " "
    .. (choice.pool or "-") .. " " .. (choice.alternates or 0) .. " " .. (choice.by or "nobody")
    .. " " .. (miss or "-") .. " " .. (choice.target and place_of(choice.target) or "- - -"))
  return choice.target, bytes
end

core.register_action("scorer_pick", { "http-req" }, function(txn) pick(txn) end, 0)

core.register_action("scorer_pick_again", { "http-req" }, function(txn)
  local target, bytes = pick(txn)
  if target then lease(txn, target, bytes) end
end, 0)

-- The answer. --------------------------------------------------------------------------------

core.register_action("scorer_error", { "http-res" }, function(txn)
  local headers = txn.http:res_get_headers()
  local body = txn.f:res_body() or ""
  local kept = {}
  for name, values in pairs(headers) do
    if answers.wanted(name) and #kept < 16 then
      kept[#kept + 1] = json.quoted(name, 100) .. ":" .. json.quoted(tostring(values[0]), 300)
    end
  end
  txn:set_var("txn.scorer_headers", table.concat(kept, ","))
  txn:set_var("txn.scorer_error", body:sub(1, MOST_ERROR))
  if answers.is_full(txn.f:status(), headers, body) then
    txn:set_var("txn.scorer_again", true)
  end
end, 0)

-- For each call of a filter's function HAProxy makes a dozen tables, which costs more than what is
-- done here with them. So there is one filter, on attempts only, and a function that has nothing
-- left to do is hidden by a `false` in its place. Without the flag the filter is skipped silently.
local Watch = { id = "scorer", flags = filter.FLT_CFG_FL_HTX }
Watch.__index = Watch

function Watch:new() -- luacheck: no self
  return setmetatable({}, Watch)
end

--- The request starts; what there is to do for the response is done here, too.
function Watch:start_analyze(txn)
  self.start_analyze = false
  self.began = http.now()
  local bytes = bytes_of(txn)
  -- A short request comes with its head: its end is no news.
  if bytes and bytes <= SHORT_BODY then
    self.http_end = false
  else
    filter.register_data_filter(self, txn.req)
  end
  filter.register_data_filter(self, txn.res)
  -- What the second attempt was picked for is not known yet; its lease comes with that.
  if txn.f:so_name() == "again" then return end
  local target = txn.sf:req_hdr("x-scorer-pick"):match("^%S+")
  if target and target ~= "-" then lease(txn, target, bytes) end
end

--- The request is with the target as a whole: from here on it is the target that takes time.
function Watch:http_end(_, message)
  if message.channel:is_resp() then return end
  self.http_end = false
  self.began = http.now()
end

function Watch:http_payload(txn, message)
  local channel = message.channel
  if not channel:is_resp() then return end
  if not txn:get_var("txn.scorer_stream") then
    filter.unregister_data_filter(self, channel)
    return
  end
  local chunk = message:body()
  if not chunk or chunk == "" then return end
  local problem = tokens.error_in(chunk)
  if problem then
    txn:set_var("txn.scorer_stream_error", problem)
  else
    self.seen = self.seen or {}
    if not tokens.first_in(self.seen, chunk) then
      local reason = self.seen.finish_reason
      if reason then txn:set_var("txn.scorer_finish_reason", reason) end
      return
    end
    local seconds = http.now() - self.began
    txn:set_var("txn.scorer_ttft", math.max(1, math.floor(seconds * 1000000)))
  end
  filter.unregister_data_filter(self, channel)
end

core.register_filter("scorer", Watch, function(watch) return watch end)

-- The end. No hook sees the end of every request but the one that writes its log line. --------

core.register_fetches("scorer_record", function(txn)
  local number = txn:get_var("txn.scorer_lease")
  if number then load.finish(number, http.now()) end
  return record.fields(txn)
end)

core.register_service("scorer_metrics", "http", function(applet)
  local page = metrics.page(applet)
  applet:set_status(200)
  applet:add_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
  applet:add_header("content-length", #page)
  applet:start_response()
  applet:send(page)
end)

-- The snapshot. ------------------------------------------------------------------------------

local function refresh()
  local began = os.clock()
  local status, body = http.get(site, "/api/v1/snapshot", SNAPSHOT_WITHIN)
  if status ~= 200 then return 0 end
  local answer, why = json.decode(body)
  if not answer or type(answer.data) ~= "table" then
    complain("the snapshot cannot be read: " .. tostring(why))
    return 0
  end
  -- A daemon that just started knows no targets or scores yet: what there is stays until it does.
  if snapshot and answer.data.instance ~= snapshot.data.instance
    and http.get(site, "/-/ready", SNAPSHOT_WITHIN) ~= 200 then
    return 0
  end
  local rates = {}
  for _, pool in ipairs(answer.data.pools) do
    for _, target in ipairs(pool.targets) do rates[target.target] = target.prefill_rate end
  end
  snapshot = { data = answer.data, made = http.now(), views = {}, rates = rates }
  return os.clock() - began
end

core.register_task(function() http.watch(timeout) end)

core.register_task(function()
  math.randomseed(os.time() + (core.thread or 0) * 7919 + math.floor(os.clock() * 1000000))
  while true do
    local fine, spent = pcall(refresh)
    load.expire(http.now())
    local pause = math.max(SNAPSHOT_EVERY, BUSY_SHARE * (fine and spent or 0))
    core.msleep(math.floor(pause * (900 + math.random(200))))
  end
end)
