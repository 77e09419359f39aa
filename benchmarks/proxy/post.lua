-- A short chat completion that asks for a stream, and what wrk measured as a line of JSON.
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"model":"m","stream":true,"max_tokens":4,"messages":[{"role":"user","content":"'
  .. ("hello "):rep(20) .. '"}]}'
dofile(os.getenv("WRK_REPORT"))
