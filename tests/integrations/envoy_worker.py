"""One worker of Envoy's with ``feedback.lua``, as far as that sees of it; time is set by hand."""

import json
from itertools import count
from pathlib import Path
from typing import Any

from lupa.luajit21 import LuaRuntime

SOURCE = Path(__file__).parent.parent.parent / "integrations" / "envoy" / "feedback.lua"
ENDPOINTS = "10.0.0.1:8000,10.0.0.2:8000"
STAND_IN = """
local worker = { now = 1000000, calls = {} }
local Headers, Chunk, Handle = {}, {}, {}
Headers.__index, Chunk.__index, Handle.__index = Headers, Chunk, Handle

function Headers:get(name) return rawget(self, name) end
function Headers:add(name, value) rawset(self, name, value) end
function Chunk:length() return #self.text end
function Chunk:getBytes(from, length) return self.text:sub(from + 1, from + length) end
function Handle:headers() return self.map end
function Handle:timestamp() return worker.now end
function Handle:bodyChunks() return function() return coroutine.yield() end end
function Handle:httpCall(_, headers, body, _, later)
  worker.calls[#worker.calls + 1] = body
  assert(later and headers[":path"] == "/feedback")
end

-- Runs a function of the filter until it waits for a chunk; `go_on` of what is returned goes on.
function worker.run(name, headers)
  local stream = { handle = setmetatable({ map = setmetatable(headers, Headers) }, Handle) }
  local routine = coroutine.create(_G[name])
  function stream.go_on(text)
    local fine, problem = coroutine.resume(routine, text and setmetatable({ text = text }, Chunk))
    assert(fine, problem)
  end
  assert(coroutine.resume(routine, stream.handle))
  return stream
end

return worker
"""


class Worker:
    """What a worker's Lua state does, and what it sent to the daemon."""

    def __init__(self) -> None:
        self._lua = LuaRuntime()
        self._lua.execute(SOURCE.read_text())
        self._worker = self._lua.execute(STAND_IN)
        self._ids = count(1)

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        self._worker.now += milliseconds

    def request(
        self, pick_id: str | None = None, attempt: int = 1, method: str = "POST"
    ) -> "Request":
        """Send one attempt at a request; with "" one that goes without a pick."""
        pick_id = f"p{next(self._ids)}" if pick_id is None else pick_id
        return Request(self, pick_id, attempt, method)

    def run(self, name: str, headers: dict[str, str]) -> Any:
        """Call a function of the filter with the headers of a request or an answer."""
        return self._worker.run(name, self._lua.table_from(headers))

    def collect(self) -> None:
        """Collect garbage: weak references to what Envoy dropped are gone after it."""
        self._lua.execute("collectgarbage()")

    def sent(self) -> list[Any]:
        """Return what was sent since the last time, each body as JSON."""
        calls = [json.loads(body) for body in self._worker.calls.values()]
        self._worker.calls = self._lua.table()
        return calls


class Request:
    """One attempt; Envoy holds on to its handles while it lives, and so does this."""

    def __init__(self, worker: Worker, pick_id: str, attempt: int, method: str) -> None:
        self.pick_id = pick_id
        self._worker = worker
        picked = {"x-scorer-pick-id": pick_id, "x-scorer-endpoints": ENDPOINTS}
        self._asked = worker.run("envoy_on_request", {
            ":method": method,
            "x-envoy-attempt-count": str(attempt),
            "content-length": "2",
            **(picked if pick_id else {}),
        })  # fmt: skip
        self._target = ENDPOINTS.split(",")[attempt - 1]

    def answer(self) -> None:
        """Begin to answer with a stream."""
        self._answer = self._worker.run("envoy_on_response", {
            ":status": "200",
            "content-type": "text/event-stream",
            "x-scorer-upstream": f"{self._target} {self.pick_id}",
        })  # fmt: skip

    def chunk(self, text: str) -> None:
        """Pass a piece of the stream."""
        self._answer.go_on(text)

    def end(self) -> None:
        """End the stream well."""
        self._answer.go_on(None)
