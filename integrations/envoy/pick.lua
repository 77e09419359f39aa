-- Asks the daemon for a target before Envoy chooses an endpoint; a Lua filter of the listener.
--
-- The answer becomes the header x-scorer-endpoints ("ip:port,ip:port", the alternates after the
-- target), which the load-balancing policy override_host reads; retries walk down the list.
-- Without an answer within TIMEOUT_MS there is no such header, and the policy's fallback
-- chooses: no request waits longer, and none fails, for want of a daemon. After MISSES misses in a
-- row the daemon is left alone for SKIP_MS; then a single request tries again.
--
-- `pool` in the filter_context of a route names the pool; without one the daemon has to have
-- only one.

-- Nothing here can be compiled, as it is all calls of Envoy; trying costs more.
jit.off()

local CLUSTER, FEEDBACK_CLUSTER = "scorer", "scorer_feedback"
local TIMEOUT_MS, TELL_MS = 20, 1000
local MISSES, SKIP_MS = 3, 1000
local BODY_LIMIT = 1024
local TOKEN = os.getenv("SCORER_FEEDBACK_TOKEN")

-- Of this worker: Envoy has one Lua state for each.
local misses, ask_again_at = 0, 0

-- Whether the daemon may be asked at `now`, in milliseconds.
local function may_ask(now)
  if misses < MISSES then
    return true
  end
  if now < ask_again_at then
    return false
  end
  ask_again_at = now + TIMEOUT_MS  -- the others go on without, until this one knows
  return true
end

local function note(answered, now)
  misses = answered and 0 or misses + 1
  if misses >= MISSES then
    ask_again_at = now + SKIP_MS
  end
end

local function pool_of(handle)
  local context = handle:filterContext()
  local pool = context and context["pool"]
  return type(pool) == "string" and pool ~= "" and pool or nil
end

function envoy_on_request(handle)
  local headers = handle:headers()
  -- Ours alone: a client must not steer a pick, nor report one.
  headers:remove("x-scorer-endpoints")
  headers:remove("x-scorer-pick-id")
  if not may_ask(handle:timestamp()) then
    return
  end
  local answer = handle:httpCall(CLUSTER, {
    [":method"] = "GET",
    [":path"] = "/pick?format=headers",
    [":authority"] = "scorer",
    ["x-scorer-pool"] = pool_of(handle),
    ["x-scorer-prompt-bytes"] = headers:get("content-length"),
  }, nil, TIMEOUT_MS)
  local status = answer and answer[":status"]
  note(status and status ~= "503" and status ~= "504", handle:timestamp())
  if status ~= "204" then
    return
  end
  -- Objects taken before a call that yields are dead after it.
  headers = handle:headers()
  headers:add("x-scorer-endpoints", answer["x-scorer-endpoints"])
  headers:add("x-scorer-pick-id", answer["x-scorer-pick-id"])
end

local function nth(list, number)
  for item in list:gmatch("[^,]+") do
    number = number - 1
    if number == 0 then
      return item
    end
  end
  return nil
end

local function escape(char)
  return string.format("\\u%04x", char:byte())
end

-- An answer that Envoy made itself, as no attempt got one. The cluster's filters never see the
-- end of such an attempt, so it is told from here, in Envoy's words, which the daemon knows. Which
-- pick it is about is in a header that the configuration adds to such answers alone: keeping it
-- from request to answer would cost every request.
function envoy_on_response(handle)
  local headers = handle:headers()
  local picked = headers:get("x-scorer-picked")
  if not picked then
    return
  end
  headers:remove("x-scorer-picked")
  local id, endpoints = picked:match("^(%S+) (%S+)$")
  if not id then
    return  -- there was no pick
  end
  local status = headers:get(":status")
  local attempts = tonumber(headers:get("x-envoy-attempt-count") or "1")
  local said = ""
  for chunk in handle:bodyChunks() do
    local size = chunk:length()
    if size > 0 and #said < BODY_LIMIT then
      said = said .. chunk:getBytes(0, math.min(size, BODY_LIMIT - #said))
    end
  end
  local target = nth(endpoints, attempts)
  local body = string.format(
    '{"pick_id":"%s",%s"status":%s,"error_body":"%s"}',
    id,
    target and '"target":"' .. target .. '",' or "",
    status,
    said:gsub('[^ !#-%[%]-~]', escape)
  )
  handle:httpCall(FEEDBACK_CLUSTER, {
    [":method"] = "POST",
    [":path"] = "/feedback",
    [":authority"] = "scorer",
    ["content-type"] = "application/json",
    ["authorization"] = TOKEN and "Bearer " .. TOKEN or nil,
  }, body, TELL_MS, true)
end
