"""How HAProxy's Lua reads what a daemon, or what stands in its place, answers."""

import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "integrations" / "haproxy" / "scorer" / "http.lua"
STAND_IN = """
local answers, opened = {}, 0
local Socket = {}
Socket.__index = Socket

function Socket:connect() return true end
function Socket:settimeout() end
function Socket:close() end
function Socket:send() return true end
function Socket:receive(what)
  local stop = what == "*l" and self.text:find("\\n", 1, true) or what
  local found = self.text:sub(1, stop)
  self.text = self.text:sub(#found + 1)
  return (found:gsub("\\n$", ""))
end

core = { now = function() return { sec = 1, usec = 0 } end }
function core.tcp()
  opened = opened + 1
  return setmetatable({ text = answers[opened] }, Socket)
end

return function(texts) answers = texts end, function() return opened end
"""
WHOLE = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab"


@pytest.fixture(params=["lua53", "lua54"])
def ask(request):
    """Return what asks with the answers of the connections; then status or reason, and how many."""
    runtime = importlib.import_module(f"lupa.{request.param}").LuaRuntime(
        unpack_returned_tuples=True
    )
    answer, opened = runtime.execute(STAND_IN)
    http = runtime.execute(SOURCE.read_text())
    site = runtime.table_from(["127.0.0.1", 9808])

    def asks(*texts: str, times: int = 1):
        answer(runtime.table_from(texts))
        found = [http.get(site, "/pick", 1.0, True) for _ in range(times)]
        return found, opened()

    return asks


def test_connection_is_kept(ask):
    """Both answers come on it."""
    assert ask(WHOLE * 2, times=2) == ([(200, "ab")] * 2, 1)


@pytest.mark.parametrize("head", ["", "transfer-encoding: chunked\r\n"], ids=["no", "chunked"])
def test_answer_of_unknown_length_is_none(ask, head: str):
    """What follows its head would be taken for the next answer."""
    text = f"HTTP/1.1 200 OK\r\n{head}\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    assert ask(text, WHOLE, times=2) == ([(None, "broken"), (200, "ab")], 2)
