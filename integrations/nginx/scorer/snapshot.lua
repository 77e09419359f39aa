--- The last snapshot of the daemon, and picks from it while the daemon cannot be asked.
--
-- One worker fetches it every second into the shared dictionary; every worker decodes it
-- when it first picks from it, so in ordinary times nobody does.

local cjson = require "cjson.safe"
local http = require "scorer.http"
local load = require "scorer.load"
local p2c = require "p2c"

local _M = {}

local now = ngx.now
local PATIENCE = 2.0
local DOWN_FOR = 2.0 -- seconds for which local picks pass by a target that just failed

local dict, options
local etag
local held = { version = nil, data = nil, views = {}, mark = {} }
local down = {}

function _M.setup(shared, given)
  dict, options = shared, given
end

local function get(path, more)
  local request = "GET " .. path .. " HTTP/1.1\r\nHost: scorer\r\n" .. (more or "") .. "\r\n"
  return http.exchange(options.daemon, request, PATIENCE)
end

local function instance_of(tag)
  return tag and tag:match('^"?(.-)%-%d+"?$')
end

--- Fetch the snapshot if there is another one.
function _M.fetch()
  local unchanged = etag and "If-None-Match: " .. etag .. "\r\n"
  local status, answer, start = get("/api/v1/snapshot", unchanged)
  if status == 304 then dict:set("snapshot at", now()) end
  if status ~= 200 then return end
  local tag = answer:sub(1, start - 1):match('\r\n[Ee][Tt]ag: *("[^"\r]*")')
  local body = answer:sub(start)
  -- A daemon that just started knows no targets or scores yet: what there is stays until it does.
  if instance_of(tag) ~= instance_of(dict:get("snapshot etag")) and get("/-/ready") ~= 200 then
    return
  end
  local targets = {}
  for target in body:gmatch('"target":"([^"\\]+)"') do targets[#targets + 1] = target end
  local mark = load.mark(targets)
  local ok, problem = dict:set("snapshot", body)
  if not ok then
    ngx.log(ngx.ERR, "scorer: snapshot does not fit into lua_shared_dict: ", problem)
    return
  end
  dict:set("snapshot mark", mark)
  dict:set("snapshot etag", tag)
  dict:set("snapshot at", now())
  etag = tag
end

--- Return when the snapshot was last fetched, in seconds since 1970; nil without one.
function _M.fetched_at()
  return dict:get("snapshot at")
end

--- Return the snapshot's data, nil without one.
function _M.data()
  local version = dict:get("snapshot etag")
  if version ~= held.version then
    local answer = cjson.decode(dict:get("snapshot") or "")
    local mark = cjson.decode(dict:get("snapshot mark") or "")
    held = { version = version, data = answer and answer.data, views = {}, mark = mark or {} }
  end
  return held.data
end

--- Note that a target failed just now.
function _M.failed(target)
  down[target] = now() + DOWN_FOR
end

local function excluding(tried)
  local found, moment = {}, now()
  for target, ends in pairs(down) do
    if ends > moment then found[target] = true else down[target] = nil end
  end
  for target in pairs(tried) do found[target] = true end
  return found
end

local function from_list(tried)
  local targets = options.targets
  local target, alternates = p2c.any_two(targets, excluding(tried), math.random)
  if not target then target, alternates = p2c.any_two(targets, tried, math.random) end
  if not target then return nil, "no snapshot, and no targets configured" end
  return { target = target, alternates = alternates, pool = options.pool or "" }
end

--- Pick without the daemon: by the snapshot, without one among the configured targets.
-- `ask` has pool, model, key, lora, tokens; `tried` is a set of targets not to return.
-- Returns a table with target, alternates and pool; or nil and the reason.
function _M.pick(ask, tried)
  local data = _M.data()
  if not data or #data.pools == 0 then return from_list(tried) end
  local pool, reason = p2c.pool(data, ask.pool, ask.model)
  if not pool then return nil, reason end
  local age = math.max(0, now() - (_M.fetched_at() or 0))
  local since = load.since(held.mark, age)
  local key = (age > p2c.BRIEF and "old " or "new ") .. pool.pool
  local view = held.views[key]
  if not view then
    view = p2c.view(age > p2c.BRIEF and p2c.lasting(pool) or pool, math.random)
    held.views[key] = view
  end
  local request = {
    prompt_tokens = ask.tokens, key = ask.key, lora = ask.lora, exclude = excluding(tried),
  }
  local choice = p2c.choose(view, request, math.random, since)
  if not choice then
    request.exclude = tried
    choice = p2c.choose(view, request, math.random, since)
  end
  if not choice then return nil, "pool " .. pool.pool .. " has no target" end
  choice.pool = pool.pool
  return choice
end

--- Return the set of targets that exist: those of the snapshot and the configured ones.
function _M.known()
  local data = _M.data()
  if not data then return nil end
  local found = {}
  for _, pool in ipairs(data.pools) do
    for _, target in ipairs(pool.targets) do found[target.target] = true end
  end
  for _, target in ipairs(options.targets) do found[target] = true end
  return found
end

return _M
