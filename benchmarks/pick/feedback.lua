-- A pick and the report of its end, in turn on every connection; a report names the last pick
-- that was answered and not reported.
local picks, reports = {}, 0
local turn = false
function request()
  turn = not turn
  local id = not turn and table.remove(picks)
  if not id then
    return wrk.format("GET", "/pick")
  end
  local body = '{"pick_id":"' .. id .. '","status":200,"ttft_seconds":0.3}'
  return wrk.format("POST", "/feedback", {["Content-Type"] = "application/json"}, body)
end
function response(status, headers, body)
  local id = string.match(body, '"pick_id":"([^"]+)"')
  if id then
    picks[#picks + 1] = id
  end
end
dofile(os.getenv("WRK_REPORT"))
