--- What an engine's error says: whether another target may be asked instead.

local _M = {}

-- Words about the limit of a key, an account or a tenant, and about requests that are too
-- large: another target would answer the same.
local CLIENT = {
  "rate_limit_exceeded", "quota", "budget", "billing", "api key", "api_key", "apikey", "per min",
  "per second", "per hour", "per day", "/min", "(tpm)", "(rpm)", "tokens per", "requests per",
  "organization", "your account", "your plan", "your rate limit", "tenant", "request too large",
}
local FULL = { [429] = true, [529] = true }

--- Return whether the answer is that of an engine which is full rather than of one that
-- refuses this client. `headers` are HAProxy's: name -> {[0] = value, …}.
function _M.is_full(status, headers, body)
  if not FULL[status] then return false end
  for name, values in pairs(headers) do
    if name == "rate_limit_type" or name == "x-envoy-ratelimited" then return false end
    if name:find("rate%-?limit") and name:find("remaining", 1, true)
      and tostring(values[0]):find("^%s*[0-]") then
      return false
    end
  end
  body = body:lower()
  for _, word in ipairs(CLIENT) do
    if body:find(word, 1, true) then return false end
  end
  return true
end

--- Return the names of response headers that the daemon's classifier may want.
function _M.wanted(name)
  return name == "retry-after" or name == "rate_limit_type" or name == "endpoint-load-metrics"
    or name == "x-envoy-ratelimited" or name:find("rate%-?limit") ~= nil
end

return _M
