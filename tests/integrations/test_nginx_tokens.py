"""What counts as a first token in the streams of OpenAI's, Anthropic's and engines' own APIs."""

import importlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

SOURCE = Path(__file__).parent.parent.parent / "integrations" / "lua" / "tokens.lua"

TOKENLESS = [
    'data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n',
    'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": null}}]}\r\n\r\n',
    'data: {"choices":[{"index":0,"text":"","finish_reason":null}]}\n\n',
    'data: {"choices":[],"usage":{"prompt_tokens":3}}\n\n',
    'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n',
    'event: message_start\ndata: {"type":"message_start","message":{"content":[]}}\n\n',
    'event: ping\ndata: {"type": "ping"}\n\n',
    'data: {"type":"content_block_start","content_block":{"type":"text","text":""}}\n\n',
    'data: {"type":"response.created","response":{"id":"r","output":[]}}\n\n',
    'data: {"error":{"message":"overloaded"}}\n\n',
    ": keep-alive\n\n",
    "data: [DONE]\n\n",
    "data:\n\n",
]
WITH_TOKEN = [
    'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":null}]}\n\n',
    'data: {"choices": [{"index": 0, "delta": {"content": "\\"quoted\\""}}]}\r\n\r\n',
    'data:{"choices":[{"text":" a"}]}\n\n',
    'data: {"choices":[{"delta":{"role":"assistant","content":"Hi"}}]}\n\n',
    'data: {"choices":[{"delta":{"reasoning_content":"Hm"}}]}\n\n',
    'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}\n\n',
    'data: {"choices":[{"delta":{"tool_calls":null}},{"delta":{"tool_calls":[{"id":"c"}]}}]}\n\n',
    'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"Hi"}}\n\n',
    'data: {"type":"response.output_text.delta","delta":"Hi"}\n\n',
    'data:{"index":1,"token":{"id":5,"text":" a","special":false}}\n\n',
    'data: {"whatever":"an engine of its own"}\n\n',
]

CARRIER = re.compile(
    r'"(content|text|reasoning_content|reasoning|delta|arguments|thinking|partial_json|refusal'
    r'|generated_text)"\s*:\s*"[^"]|"tool_calls"\s*:\s*\[\s*\{'
)
"""What makes a frame a token, as one pattern."""
PIECES = st.sampled_from([
    '"content"', '"delta"', '"role"', '"content\\"', '"my content"', '"tool_calls"', '_calls"',
    '""', '"x"', '"', ":", " ", "\t", "\v", "{", "}", "[", ",", "null", "\\", "é",
])  # fmt: skip


def runtime_with_tokens(name: str):
    """Return a Lua in which ``tokens`` is the module."""
    runtime = importlib.import_module(f"lupa.{name}").LuaRuntime()
    runtime.globals().tokens = runtime.execute(SOURCE.read_text())
    return runtime


@pytest.fixture(scope="module", params=["luajit21", "lua54"])
def lua(request: pytest.FixtureRequest):
    return runtime_with_tokens(request.param)


JIT = runtime_with_tokens("luajit21")


@given(st.lists(PIECES, max_size=12).map("".join))
def test_a_carrier_is_found_in_any_text(text: str):
    """By a name, a colon and a text that is not empty, with white space between them."""
    frame = f'data: {{"object":{text}\n\n'
    seen = JIT.globals().tokens.first_in(JIT.table(), frame)
    assert seen is (CARRIER.search(text) is not None)


@pytest.mark.parametrize("frame", TOKENLESS)
def test_frames_without_a_token_are_skipped(lua, frame: str):
    """Whole, and byte by byte."""
    state = lua.table()
    assert not lua.globals().tokens.first_in(state, frame)
    state = lua.table()
    assert not any(lua.globals().tokens.first_in(state, each) for each in frame)


@pytest.mark.parametrize("frame", WITH_TOKEN)
def test_a_token_is_seen_wherever_its_frame_is_cut(lua, frame: str):
    """After frames without one, in one piece, in two of any length."""
    first_in = lua.globals().tokens.first_in
    assert first_in(lua.table(), "".join(TOKENLESS) + frame)
    for place in range(1, len(frame) - 2):
        state = lua.table()
        parts = frame[:place], frame[place:]
        assert any([first_in(state, TOKENLESS[0]), *(first_in(state, part) for part in parts)])


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (TOKENLESS[4], "stop"),
        (
            'data: {"choices":[{"finish_reason":null},{"finish_reason":"length"}]}\n\n',
            "length",
        ),
    ],
    ids=["of its only choice", "of another choice"],
)
def test_the_reason_of_an_empty_stream_is_kept(lua, frame: str, reason: str):
    """A stream that ends by its own will without a token is no failure."""
    state = lua.table()
    lua.globals().tokens.first_in(state, frame)
    assert state.finish_reason == reason


def test_an_endless_line_is_not_kept(lua):
    """What is kept of a frame that never ends is bounded."""
    state = lua.table()
    for _ in range(80):
        lua.globals().tokens.first_in(state, "x" * 1000)
    assert len(state.rest or "") <= 65_536


@pytest.mark.parametrize(
    ("chunk", "found"),
    [
        ('data: {"error":{"message":"KV cache exhausted"}}\n\n', True),
        ('data: {"error": "broken"}\n\n', True),
        ('data: {"type":"error","error":{"type":"overloaded_error"}}\n\n', True),
        ("event: error\ndata: {}\n\n", True),
        ('data: {"error":null,"choices":[{"delta":{"content":"x"}}]}\n\n', False),
        ('data: {"choices":[{"delta":{"content":"{\\"error\\":{\\"a\\":1}}"}}]}\n\n', False),
        ('data: {"choices":[{"delta":{"content":"an error"}}]}\n\n', False),
    ],
)
def test_errors_in_a_stream(lua, chunk: str, found: bool):
    """An error of the engine is told from a model's words about errors."""
    assert (lua.globals().tokens.error_in(chunk) is not None) is found
