-- What each Lua file may rely on: `luacheck integrations`.
std = "min"
max_line_length = 100
files["integrations/nginx"] = { std = "ngx_lua" }
files["integrations/envoy"] = {
  globals = { "envoy_on_request", "envoy_on_response" }, read_globals = { "jit" },
}
