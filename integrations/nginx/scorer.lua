--- scorer for nginx: asks the daemon where each request goes, tries the next target when one
-- fails, times the first token, tells the daemon how it went, and picks by itself while the
-- daemon cannot be asked. Needs nginx with http-lua (Debian: libnginx-mod-http-lua, lua-cjson).
--
--   lua_package_path ".../integrations/nginx/?.lua;.../integrations/lua/?.lua;;";
--   lua_shared_dict scorer 8m;
--   init_by_lua_block {
--     scorer = require "scorer"
--     scorer.setup { daemon = "127.0.0.1:9808" }
--   }
--   init_worker_by_lua_block { scorer.start() }
--   upstream engines { server 0.0.0.1; balancer_by_lua_block { scorer.balance() } keepalive 256; }
--   location /v1/ {
--     access_by_lua_block      { scorer.pick() }
--     body_filter_by_lua_block { scorer.body() }
--     log_by_lua_block         { scorer.done() }
--     proxy_pass http://engines;
--   }
--   location = /metrics { content_by_lua_block { scorer.metrics() } }
--
-- examples/nginx/lua.conf is a whole configuration, docs/integrations/nginx.md says what each
-- part sees and what breaks.

local balancer = require "ngx.balancer"
local cjson = require "cjson.safe"
local feedback = require "scorer.feedback"
local http = require "scorer.http"
local load = require "scorer.load"
local metrics = require "scorer.metrics"
local p2c = require "p2c"
local snapshot = require "scorer.snapshot"
local tokens = require "tokens"

local _M = {}

local ngx, now, exiting = ngx, ngx.now, ngx.worker.exiting
local floor, max, min = math.floor, math.max, math.min
local find, sub = string.find, string.sub

local BYTES_PER_TOKEN = 4
local MISSES, SKIP_FOR = 3, 1.0 -- after 3 misses in a row the daemon is not asked for a second
local MOST_ERROR = 4096
local NO_HTTP = 9 -- what nginx calls the status of an answer that is no HTTP
local SHORT_BODY = 16384
local MOST_REMEMBERED = 4096 -- addresses of targets
local MOST_DECODED = 65536 -- bytes of a body that is read as JSON to find its model
local LIMIT_HEADERS = { -- variables of the upstream's answer that tell why it refused
  ["retry-after"] = "upstream_http_retry_after",
  ["retry-after-ms"] = "upstream_http_retry_after_ms",
  ["x-ratelimit-remaining"] = "upstream_http_x_ratelimit_remaining",
  ["x-ratelimit-remaining-requests"] = "upstream_http_x_ratelimit_remaining_requests",
  ["x-ratelimit-remaining-tokens"] = "upstream_http_x_ratelimit_remaining_tokens",
  ["x-envoy-ratelimited"] = "upstream_http_x_envoy_ratelimited",
  ["x-smg-error-code"] = "upstream_http_x_smg_error_code",
  ["endpoint-load-metrics"] = "upstream_http_endpoint_load_metrics",
}
-- name → default; false: none. What must be given has no default and is checked below.
local OPTIONS = {
  daemon = false, -- ip:port of the daemon, or unix:/path
  pool = false, -- pool to pick from; without it the daemon goes by model, or by its only pool
  targets = {}, -- where requests go when there is neither daemon nor snapshot
  deadline = 0.02, -- seconds that a pick may take at most
  token_file = false, -- holds the daemon's feedback.token
  model_from_body = false, -- pick by the `model` of the request
  dict = "scorer", -- name of the lua_shared_dict
  snapshot_interval = 1.0, -- seconds
  flush_interval = 0.05, -- seconds
}

local options

-- Set-up. ------------------------------------------------------------------------------------

local addresses, remembered = {}, 0

--- Return the address of a target as { host, port }; nil for what is no IP and port.
local function address_of(target)
  local found = addresses[target]
  if found then return found end
  local host, port = target:match("^(%d+%.%d+%.%d+%.%d+):(%d+)$")
  if not host then
    host, port = target:match("^(%[[%x:.]+%]):(%d+)$")
  end
  if not host then return nil end
  if remembered >= MOST_REMEMBERED then addresses, remembered = {}, 0 end
  found = { host = host, port = tonumber(port) }
  addresses[target], remembered = found, remembered + 1
  return found
end

--- Return where the daemon is as { host, port }; nil for what is no place.
local function site_of(daemon)
  if daemon:match("^unix:/") then return { host = daemon, port = 0 } end
  return address_of(daemon)
end

--- Take the options, see OPTIONS; an error names the one that is wrong. In init_by_lua.
function _M.setup(given)
  for name in pairs(given) do
    if OPTIONS[name] == nil then error("scorer.setup: unknown option " .. tostring(name), 2) end
  end
  options = {}
  for name, default in pairs(OPTIONS) do
    local value = given[name]
    if value == nil then value = default end
    local kind = type(default) == "boolean" and name ~= "model_from_body" and "string"
      or type(default)
    if value and type(value) ~= kind then
      error("scorer.setup: " .. name .. " must be a " .. kind .. ", got " .. type(value), 2)
    end
    options[name] = value or nil
  end
  options.daemon = options.daemon and site_of(options.daemon)
  if not options.daemon then
    error("scorer.setup: daemon must be an IP address and port such as 127.0.0.1:9808, "
      .. "or unix:/run/scorer/scorer.sock", 2)
  end
  for _, target in ipairs(options.targets) do
    if not address_of(target) then
      error("scorer.setup: targets must be IP addresses and ports, got " .. tostring(target), 2)
    end
  end
  local dict = ngx.shared[options.dict]
  if not dict then
    error("scorer.setup: there is no lua_shared_dict " .. options.dict, 2)
  end
  load.setup(dict)
  metrics.setup(dict)
  snapshot.setup(dict, options)
  feedback.setup(options)
end

local function guarded(what, work)
  local ok, problem = pcall(work)
  if not ok then ngx.log(ngx.ERR, "scorer: ", what, ": ", problem) end
end

local ending = false -- whether a flush is due at once

local function flush()
  ending = false
  guarded("feedback", feedback.flush)
  guarded("metrics", metrics.flush)
  guarded("load", load.flush)
end

--- Return a parameter of the URL of a pick, "" without a value.
local function parameter(name, value)
  if value == nil or value == "" then return "" end
  return "&" .. name .. "=" .. ngx.escape_uri(tostring(value))
end

local ASK, HOST = "GET /pick?format=json", " HTTP/1.1\r\nHost: scorer\r\n\r\n"
local ask_pool -- the beginning of a request for a pick from the pool in the options

--- Start the timers of a worker. In init_worker_by_lua.
function _M.start()
  ask_pool = ASK .. parameter("pool", options.pool)
  math.randomseed(ngx.worker.pid() * 1000 + floor(now() * 1000) % 1000000)
  assert(ngx.timer.every(options.flush_interval, flush))
  if ngx.worker.id() == 0 then
    local fetching = false
    local function fetch(premature)
      if premature or fetching then return end
      fetching = true
      guarded("snapshot", snapshot.fetch)
      fetching = false
    end
    assert(ngx.timer.at(0, fetch))
    assert(ngx.timer.every(options.snapshot_interval, fetch))
  end
end

-- The pick. ----------------------------------------------------------------------------------

--- Answer the client by ourselves, in the form of the OpenAI API.
local function refuse(status, message)
  ngx.status = status
  ngx.header.content_type = "application/json"
  if status == 503 then ngx.header.retry_after = "1" end
  ngx.say(cjson.encode({ error = { message = message, type = "gateway_error", code = status } }))
  return ngx.exit(status)
end

--- Read the request; returns the length of its body in bytes, nil where that is not known.
-- A short body comes with its head, and nginx reads it by itself; a long one may take its time,
-- and a pick should not be made before that.
local function read_request()
  local length = tonumber(ngx.var.http_content_length)
  if length and length <= SHORT_BODY and not options.model_from_body then return length end
  if not length and ngx.req.get_method() == "GET" then return BYTES_PER_TOKEN end
  -- http-lua cannot read a body of HTTP/2 that does not tell its length: nginx does so later.
  if length or ngx.req.http_version() < 2 then
    ngx.req.read_body()
    if not length then
      local body = ngx.req.get_body_data()
      length = body and #body
    end
  end
  return length
end

--- Return the model that a body names. A large one is not decoded: what counts is near its ends.
local function model_of_body()
  local body = ngx.req.get_body_data()
  if not body then
    local name = ngx.req.get_body_file()
    local file = name and io.open(name, "rb")
    if not file then return nil end
    body = file:read(MOST_DECODED) or ""
    if file:seek("end") > 2 * MOST_DECODED then file:seek("end", -MOST_DECODED) end
    body = body .. (file:read("*a") or "")
    file:close()
  elseif #body <= MOST_DECODED then
    local request = cjson.decode(body)
    local model = type(request) == "table" and request.model
    return type(model) == "string" and model or nil
  end
  -- Quotes inside of a prompt are escaped, so no prompt can name a model.
  return body:sub(1, MOST_DECODED):match('"model"%s*:%s*"([^"\\]*)"')
    or body:sub(-MOST_DECODED):match('"model"%s*:%s*"([^"\\]*)"')
end

local misses, skip_until = 0, 0

local function missed(reason)
  metrics.miss(reason)
  misses = misses + 1
  if misses >= MISSES then skip_until = now() + SKIP_FOR end
end

local REASONS = {
  timeout = "timeout",
  ["connection refused"] = "refused",
  ["no such file or directory"] = "refused", -- a Unix socket that is gone
  ["permission denied"] = "refused",
}

local lists, listed = {}, 0 -- targets by the part of an answer that names them

--- Keep of a list of targets those that can be reached by address.
local function usable(target, alternates)
  local found = {}
  for place = 0, #alternates do
    local each = place == 0 and target or alternates[place]
    if type(each) == "string" and address_of(each) then
      found[#found + 1] = each
    else
      ngx.log(ngx.ERR, "scorer: a target must be an IP address and port, got ", tostring(each))
    end
  end
  return found
end

local PICK_ID = "^[%w_.-]+$"

--- Return an answer read as JSON, nil for one that names no target.
local function decoded(text)
  local answer = cjson.decode(text)
  if type(answer) ~= "table" or type(answer.target) ~= "string"
    or type(answer.alternates) ~= "table" then
    return nil
  end
  return answer
end

--- Return the usable targets of the part of an answer that names them; nil for none.
-- It is the same again and again, so it is read as JSON once.
local function targets_in(names)
  local found = lists[names]
  if found then return found end
  local answer = decoded(names .. "}")
  if not answer then return nil end
  if listed >= MOST_REMEMBERED then lists, listed = {}, 0 end
  found = usable(answer.target, answer.alternates)
  lists[names], listed = found, listed + 1
  return found
end

--- Return the text between two others, and the place where it begins; nil without them.
local function between(text, before, after, place)
  local start, stop = find(text, before, place, true)
  if not start then return nil end
  local last = find(text, after, stop + 1, true)
  if not last then return nil end
  return sub(text, stop + 1, last - 1), start
end

--- Return the targets, the pick's id and the pool of an answer whose body begins at `start`; nil
-- for one that is none.
-- What the daemon writes is cut where its parts begin: the targets, the id, and later the pool. No
-- pattern does that as quickly. With escapes in it, or in another order, it is read as JSON.
local function read_answer(text, start)
  local pick_id, place = between(text, ',"pick_id":"', '"', start)
  local pool = place and between(text, ',"pool":"', '"', place)
  if pool and not find(text, "\\", start, true) then
    local targets = targets_in(sub(text, start, place - 1))
    if targets then return targets, pick_id, pool end
  end
  local answer = decoded(sub(text, start))
  if not answer or type(answer.pool) ~= "string" then return nil end
  local id = type(answer.pick_id) == "string" and answer.pick_id:match(PICK_ID) or nil
  return usable(answer.target, answer.alternates), id, answer.pool
end

--- Note that the daemon answered with an error; returns a status that the client must be told.
local function refused(status, body)
  local answer = cjson.decode(body)
  if type(answer) ~= "table" or status >= 500 and status ~= 503 then
    missed("status_" .. status)
    return nil
  end
  misses = 0
  metrics.miss("status_" .. status)
  return answer.errorType == "unknown_model" and 404 or nil, answer.error
end

--- Return what the daemon must be asked.
local function question(ask, bytes)
  local text = ask.pool == options.pool and ask_pool or ASK .. parameter("pool", ask.pool)
  if ask.model then text = text .. parameter("model", ask.model) end
  if ask.key then text = text .. parameter("key", ask.key) end
  if ask.lora then text = text .. parameter("lora", ask.lora) end
  if bytes then text = text .. "&prompt_bytes=" .. bytes end
  return text .. HOST
end

--- Ask the daemon; returns targets, the pick's id and the pool; or nil, perhaps with a status
-- that the client must be told and why.
local function ask_daemon(ask, bytes)
  if misses >= MISSES then
    if now() < skip_until then
      metrics.miss("skipped")
      return nil
    end
    skip_until = now() + SKIP_FOR -- one request finds out, the others need not wait
  end
  local request = question(ask, bytes)
  local status, answer, start = http.exchange(options.daemon, request, options.deadline)
  if not status then
    missed(REASONS[answer] or "broken")
    return nil
  end
  if status ~= 200 then return nil, refused(status, sub(answer, start)) end
  local targets, pick_id, pool = read_answer(answer, start)
  if not targets then
    missed("broken")
    return nil
  end
  misses = 0
  return targets, pick_id, pool
end

--- Pick without the daemon; returns the answer and its targets, or nil and the reason.
local function pick_locally(ask, tried)
  local answer, reason = snapshot.pick(ask, tried)
  if not answer then return nil, reason end
  local targets = usable(answer.target, answer.alternates)
  if #targets == 0 then return nil, "no target of the pool is an IP address and port" end
  return answer, targets
end

local none = nil -- LuaJIT makes room for a field with a value that is not literally nil

--- Return a table with room for what is known of most requests: one that grows field by field is
-- made anew several times. 16 fields, because room comes in powers of two. What is seldom known is
-- only set when it is: a field that is set to nil takes room, too.
local function new_request()
  return {
    pool = none, tokens = none, targets = none, pick_id = none, -- what was asked and answered
    attempt = 0, target = none, sent_at = none, lease = none, -- the attempt under way
    status = none, streams = none, begun = none, complete = none, ttft = none, -- its answer
    told = none, ended = none, duration = none, -- feedback
  }
end

--- Return what is known of a request, and the length of its body: what a pick is asked by.
local function asked(given)
  local ctx, bytes = new_request(), read_request()
  if bytes then
    bytes = min(bytes, p2c.MOST_BYTES)
    ctx.tokens = floor(bytes / BYTES_PER_TOKEN)
  end
  local model = given and given.model
  if options.model_from_body and not model then model = model_of_body() end
  if model then ctx.model = sub(model, 1, 256) end
  if given then
    ctx.pool, ctx.key, ctx.lora = given.pool, given.key, given.lora
  end
  ctx.pool = ctx.pool or options.pool
  return ctx, bytes
end

--- Pick a target for the request. In access_by_lua; `request` may have pool, model, key, lora.
function _M.pick(request)
  local ctx, bytes = asked(request)
  local targets, pick_id, pool = ask_daemon(ctx, bytes)
  if not targets and pick_id then return refuse(pick_id, pool) end
  if targets and #targets > 0 then
    metrics.pick("daemon")
    if #targets == 1 then
      -- Somebody to try next, where the pool has anybody else.
      local _, more = pick_locally(ctx, { [targets[1]] = true })
      if type(more) == "table" then targets = { targets[1], more[1] } end
    end
  else
    local answer, found = pick_locally(ctx, {})
    if not answer then
      metrics.pick("nobody")
      return refuse(503, found)
    end
    metrics.pick(answer.reason and "local" or "random")
    targets, pick_id, pool = found, nil, answer.pool
  end
  ctx.targets, ctx.pick_id, ctx.pool = targets, pick_id, pool
  ngx.ctx.scorer = ctx
end

-- Attempts. ----------------------------------------------------------------------------------

--- Return the headers of the upstream's answer that tell why it refused.
local function limit_headers()
  local found = {}
  for name, variable in pairs(LIMIT_HEADERS) do
    local value = ngx.var[variable]
    if value and value ~= "" then found[name] = feedback.text(value) end
  end
  return found
end

--- Return the part of a list such as "0.003, -" that is about attempt number `place`.
local function part(list, place)
  if place == 1 then
    local only = tonumber(list)
    if only then return only end
  end
  for each in (list or ""):gmatch("[^,%s]+") do
    if each ~= ":" then
      place = place - 1
      if place == 0 then return tonumber(each) end
    end
  end
  return nil
end

--- Note that the attempt under way failed and another follows.
local function failed(ctx, code)
  local target = ctx.target
  -- Without a head there was no answer: the status is nginx's own word for that.
  local answered = part(ngx.var.upstream_header_time, ctx.attempt) ~= nil
  local status = answered and (part(ngx.var.upstream_status, ctx.attempt) or code) or 0
  load.finish(ctx.lease)
  snapshot.failed(target)
  metrics.request(ctx.pool, target, status)
  metrics.retry(ctx.pool, target)
  -- An item of its own, without the pick: its headers would be lost in a list of attempts.
  feedback.tell({
    target = target, pool = ctx.pool, status = status, prompt_tokens = ctx.tokens,
    headers = answered and limit_headers() or nil, duration_seconds = max(0, now() - ctx.sent_at),
  })
end

--- Set the peer of this attempt. In balancer_by_lua.
function _M.balance()
  local ctx = ngx.ctx.scorer
  if not ctx then
    ngx.log(ngx.ERR, "scorer: no pick; access_by_lua_block { scorer.pick() } is missing")
    return ngx.exit(500)
  end
  ngx.update_time()
  local state, code = balancer.get_last_failure()
  if state then
    failed(ctx, code)
  elseif #ctx.targets > 1 then
    balancer.set_more_tries(#ctx.targets - 1)
  end
  ctx.attempt = ctx.attempt + 1
  local target = ctx.targets[ctx.attempt]
  if not target then
    -- A kept connection that the engine closed gives nginx one try more than we asked for.
    ctx.lease = nil
    return ngx.exit(502)
  end
  ctx.target, ctx.sent_at = target, now()
  ctx.lease = load.start(target, ctx.tokens or 0)
  local address = address_of(target)
  local ok, problem = balancer.set_current_peer(address.host, address.port)
  if not ok then
    ngx.log(ngx.ERR, "scorer: ", target, ": ", problem)
    return ngx.exit(502)
  end
end

-- The answer. --------------------------------------------------------------------------------

local function first_token(ctx)
  ngx.update_time()
  ctx.ttft = max(0, now() - ctx.sent_at)
  if ctx.lease then load.first_token(ctx.lease) end
  metrics.ttft(ctx.pool, ctx.target, ctx.ttft)
  -- After a retry the daemon learns at the end that the request has moved.
  if ctx.pick_id and ctx.attempt == 1 then feedback.first_token(ctx) end
end

--- Look at what passes by. In body_filter_by_lua.
function _M.body()
  local ctx = ngx.ctx.scorer
  if not (ctx and ctx.sent_at) then return end
  if not ctx.status then
    ctx.status = ngx.status
    local kind = ngx.header.content_type
    ctx.streams = type(kind) == "string" and kind:find("text/event-stream", 1, true) ~= nil
  end
  local chunk, last = ngx.arg[1], ngx.arg[2]
  if last then
    ctx.complete = true
  elseif chunk == "" then
    -- nginx flushes an empty chunk after the head, and another one when the upstream broke off.
    -- When the client leaves, there is none.
    if ctx.begun then ctx.broken = true end
  end
  ctx.begun = true
  if chunk == "" then return end
  if ctx.status >= 400 then
    local kept = ctx.error_body or ""
    if #kept < MOST_ERROR then ctx.error_body = (kept .. chunk):sub(1, MOST_ERROR) end
  elseif ctx.streams then
    if not ctx.ttft and tokens.first_in(ctx, chunk) then
      first_token(ctx)
    end
    local problem = not ctx.stream_error and tokens.error_in(chunk)
    if problem then ctx.stream_error = problem end
  end
end

--- Say in the item how a stream ended.
local function stream_end(ctx, item)
  item.stream = true
  if ctx.ttft then
    if not ctx.told then item.ttft_seconds = ctx.ttft end
  elseif ctx.complete then
    item.output_tokens = 0
    item.finish_reason = ctx.finish_reason
  end
  if ctx.stream_error then item.stream_error = feedback.text(ctx.stream_error) end
  if ctx.complete or ngx.req.http_version() >= 2 then return end
  -- $status stays 200 after the head, whoever broke off.
  if ctx.broken then
    item.stream_error = item.stream_error or "the upstream broke off"
  else
    item.gateway_status = 499
  end
end

--- Return the report of a request that did not end as it should, or not as a stream.
local function report_of(ctx, status, load_report)
  local item = {
    pick_id = ctx.pick_id, target = ctx.target, pool = ctx.pool, status = status,
    prompt_tokens = ctx.tokens, duration_seconds = max(0, now() - ctx.sent_at),
  }
  if ngx.status == 499 then item.gateway_status = 499 end
  if status and status >= 200 and status < 300 then
    -- Nothing but a head came, and that did not get through: whoever left, it did not end well.
    if not ctx.status and ngx.var.request_completion == "" then item.gateway_status = 499 end
    if ctx.streams then
      stream_end(ctx, item)
    else
      item.stream = false
    end
    if load_report then
      item.headers = { ["endpoint-load-metrics"] = feedback.text(load_report) }
    end
  elseif status and status > 0 then
    item.headers = limit_headers()
    item.error_body = feedback.text(ctx.error_body or "")
  end
  return item
end

--- Return the status of the last attempt, 0 without an answer, nil when nobody waited for one.
local function status_of(ctx)
  local status = ctx.status
  if status == NO_HTTP then return 0 end
  -- Errors may be nginx's own, success is the engine's.
  if status and status < 300 then return status end
  if part(ngx.var.upstream_header_time, ctx.attempt) then
    return part(ngx.var.upstream_status, ctx.attempt)
  end
  -- No head: refused, reset or timed out, which nginx calls 502 or 504; or the client left.
  return ngx.status ~= 499 and 0 or nil
end

local function tell_end(ctx)
  if not ctx.lease then
    -- Every attempt was told already, or the client left before the first: only the pick ends.
    if ctx.pick_id then
      feedback.tell({ pick_id = ctx.pick_id, target = "", gateway_status = ngx.status })
    end
    return
  end
  local status = status_of(ctx)
  load.finish(ctx.lease)
  metrics.request(ctx.pool, ctx.target, status or 499)
  if status == 0 or (status and status >= 500) then snapshot.failed(ctx.target) end
  local load_report = ngx.var.upstream_http_endpoint_load_metrics
  if ctx.ttft and ctx.complete and not (ctx.stream_error or load_report) then
    feedback.good_stream(ctx, now() - ctx.sent_at)
  else
    feedback.tell(report_of(ctx, status, load_report))
  end
end

--- Tell how the request ended. In log_by_lua.
function _M.done()
  local ctx = ngx.ctx.scorer
  if not ctx then return end
  ctx.ended = true
  tell_end(ctx)
  -- A worker that ends its last requests after a reload runs no timer but one that is due at once.
  if exiting() and not ending then ending = ngx.timer.at(0, flush) end
end

-- The page. ----------------------------------------------------------------------------------

--- Print the metrics. In content_by_lua of a location that only Prometheus and the daemon reach.
function _M.metrics()
  ngx.header.content_type = "text/plain; version=0.0.4; charset=utf-8"
  local known = snapshot.known()
  local page = { metrics.render(known) }
  local at = snapshot.fetched_at()
  if at then
    page[#page + 1] = "# HELP gateway_snapshot_timestamp_seconds When the daemon's snapshot was "
      .. "last fetched.\n# TYPE gateway_snapshot_timestamp_seconds gauge\n"
      .. "gateway_snapshot_timestamp_seconds " .. string.format("%.3f", at) .. "\n"
  end
  if known then
    local names = {}
    for target in pairs(known) do names[#names + 1] = target end
    table.sort(names)
    page[#page + 1] = "# HELP gateway_requests_in_flight Requests under way, by target.\n"
      .. "# TYPE gateway_requests_in_flight gauge\n"
    for _, target in ipairs(names) do
      page[#page + 1] = 'gateway_requests_in_flight{target="' .. target .. '"} '
        .. load.in_flight(target) .. "\n"
    end
  end
  ngx.print(page)
end

return _M
