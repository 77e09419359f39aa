"""Two engines that answer at once: a stream of four tokens in one piece, and a vLLM page.

Cheap on purpose: they share a core with the load, and what is measured is the proxy.
Prints the ports, one a line and then an empty line, and serves until killed.
"""

import asyncio
from itertools import count

import uvloop

EVENTS = b"".join(
    b'data: {"id":"x","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}\n\n' % each
    for each in [
        (b'{"role":"assistant","content":""}', b"null"),
        *[(b'{"content":" tok"}', b"null")] * 4,
        (b"{}", b'"stop"'),
    ]
)
STREAM = EVENTS + b"data: [DONE]\n\n"
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x\r\n%s\r\n0\r\n\r\n" % (len(STREAM), STREAM)
)
PAGE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} 0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name="m"} 0.2
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{model_name="m",le="+Inf"} 10
vllm:time_to_first_token_seconds_sum{model_name="m"} 1
vllm:time_to_first_token_seconds_count{model_name="m"} 10
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="m"} %d
"""
MODELS = b'{"object":"list","data":[{"id":"m","object":"model"}],"model_path":"m","status":"ok"}'
ENGINES = 2


class Engine(asyncio.Protocol):
    """One connection; reads heads and lengths, and nothing else."""

    _tokens = count(1, 100)

    def __init__(self) -> None:
        """Start with nothing read."""
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer the requests that are whole."""
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = self._read[: end + 2].lower()
            at = head.find(b"\r\ncontent-length:")
            length = int(head[at + 17 : head.index(b"\r\n", at + 2)]) if at >= 0 else 0
            if len(self._read) < end + 4 + length:
                return
            self._read = self._read[end + 4 + length :]
            self._transport.write(self._answer(head))  # type: ignore[attr-defined]

    def _answer(self, head: bytes) -> bytes:
        if head.startswith(b"post"):
            return ANSWER
        if not head.startswith(b"get /metrics"):
            return whole(MODELS, b"application/json")
        return whole((PAGE % next(self._tokens)).encode(), b"text/plain; version=0.0.4")


def whole(body: bytes, kind: bytes) -> bytes:
    """Return an answer with a body."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    return head % (kind, len(body)) + body


async def serve() -> None:
    """Listen, say where, and serve."""
    loop = asyncio.get_running_loop()
    for _ in range(ENGINES):
        server = await loop.create_server(Engine, "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
    print(flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve())
