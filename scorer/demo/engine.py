"""An emulated continuous-batching engine: first come, first served, chunked prefill.

Each step gives every running request its next token (or the next chunk of its prompt)
within a token budget, then admits waiting requests whose whole prompt fits the free KV
blocks. A running request that finds no block takes those of the newest one, which goes
back to the head of the queue and computes its tokens again. The model is discrete: it
knows no clock, its caller says what time it is and asks what happened until then.

Invariant: the blocks in use are the sum of the blocks of the running requests.
"""

from collections import deque
from dataclasses import dataclass

from scorer.demo.cost import Chunk, CostModel
from scorer.demo.tally import Tally


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of an engine: per step, at once, and KV cache (blocks of ``block_size`` tokens)."""

    step_tokens: int = 2048
    sequences: int = 256
    kv_blocks: int = 4096
    block_size: int = 16

    def blocks(self, tokens: int) -> int:
        """Return how many KV blocks hold ``tokens``."""
        return -(-tokens // self.block_size)


@dataclass(frozen=True, slots=True)
class Progress:
    """At ``at`` seconds a request got its token number ``generated``, its last one if ``done``."""

    request_id: str
    at: float
    generated: int
    done: bool


@dataclass(slots=True)
class _Request:
    request_id: str
    prompt: int
    output: int
    arrived: float
    computed: int = 0
    generated: int = 0
    blocks: int = 0

    @property
    def known(self) -> int:
        """Tokens whose KV the next token needs."""
        return self.prompt + self.generated

    @property
    def decoding(self) -> bool:
        return self.computed > 0 and self.known - self.computed == 1


@dataclass(frozen=True, slots=True)
class _Step:
    ends: float
    tokens: int
    requests: list[_Request]


class Engine:
    """One engine; every method takes or implies the caller's time in seconds."""

    def __init__(self, cost: CostModel, limits: Limits, now: float) -> None:
        self.limits = limits
        self._cost = cost
        self._reset(now)

    def _reset(self, now: float) -> None:
        self.started_at = now
        self.tally = Tally()
        self._waiting: deque[_Request] = deque()
        self._running: list[_Request] = []
        self._used_blocks = 0
        self._step: _Step | None = None
        self._outbox: list[Progress] = []

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests not admitted yet, or preempted."""
        return len(self._waiting)

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks in use, 0-1."""
        return self._used_blocks / self.limits.kv_blocks

    @property
    def due(self) -> float | None:
        """When the current step ends; None while there is nothing to do."""
        return self._step.ends if self._step else None

    def fits(self, prompt: int, output: int) -> bool:
        """Return whether a request of that many tokens can ever be served."""
        return self.limits.blocks(prompt + output) <= self.limits.kv_blocks

    def submit(self, request_id: str, prompt: int, output: int, now: float) -> None:
        """Queue a request of ``prompt`` tokens that will generate ``output`` tokens.

        Raises ValueError when it could never be served.
        """
        if prompt < 1 or output < 1 or not self.fits(prompt, output):
            raise ValueError(f"a request of {prompt} + {output} tokens cannot be served")
        self._catch_up(now)
        self._waiting.append(_Request(request_id, prompt, output, arrived=now))
        if self._step is None:
            self._step = self._schedule(now)

    def abort(self, request_id: str, now: float) -> None:
        """Forget a request and free its KV blocks; an unknown or finished one is ignored."""
        self._catch_up(now)
        for queue in (self._running, self._waiting):
            for request in queue:
                if request.request_id == request_id:
                    queue.remove(request)
                    self._release(request)
                    self.tally.aborted += 1
                    return

    def advance(self, now: float) -> list[Progress]:
        """Run every step that ends until ``now`` and return the tokens they made, in order."""
        self._catch_up(now)
        made, self._outbox = self._outbox, []
        return made

    def restart(self, now: float) -> list[str]:
        """Lose all requests and counters; return the ids of the requests that were lost."""
        self._catch_up(now)
        lost = [request.request_id for request in (*self._running, *self._waiting)]
        self._reset(now)
        return lost

    def _catch_up(self, now: float) -> None:
        while self._step is not None and self._step.ends <= now:
            ended = self._step
            self._finish(ended)
            self._step = self._schedule(ended.ends)

    def _schedule(self, now: float) -> _Step | None:
        """Compose the next step and take the KV blocks it needs."""
        preempted = self.tally.preemptions
        chunks: list[Chunk] = []
        requests: list[_Request] = []
        budget = self.limits.step_tokens
        position = 0
        while position < len(self._running) and budget > 0:
            request = self._running[position]
            tokens = min(request.known - request.computed, budget)
            if not self._make_room(request, tokens):
                break
            chunks.append(self._take(request, tokens))
            requests.append(request)
            budget -= tokens
            position += 1
        # Whoever was just preempted heads the queue: admitting it at once would thrash.
        while budget > 0 and self.tally.preemptions == preempted and self._admissible():
            request = self._waiting.popleft()
            self._running.append(request)
            tokens = min(request.known, budget)
            chunks.append(self._take(request, tokens))
            requests.append(request)
            budget -= tokens
        if not chunks:
            return None
        tokens = self.limits.step_tokens - budget
        return _Step(now + self._cost.step_seconds(chunks), tokens, requests)

    def _admissible(self) -> bool:
        if not self._waiting or len(self._running) >= self.limits.sequences:
            return False
        needed = self.limits.blocks(self._waiting[0].known)
        return needed <= self.limits.kv_blocks - self._used_blocks

    def _make_room(self, request: _Request, tokens: int) -> bool:
        """Preempt the newest until ``tokens`` more fit; False when ``request`` was the newest."""
        needed = self.limits.blocks(request.computed + tokens) - request.blocks
        while needed > self.limits.kv_blocks - self._used_blocks:
            victim = self._running.pop()
            self._release(victim)
            self._waiting.appendleft(victim)
            self.tally.preemptions += 1
            if victim is request:
                return False
        return True

    def _take(self, request: _Request, tokens: int) -> Chunk:
        chunk = Chunk(tokens, request.computed, request.decoding)
        request.computed += tokens
        blocks = self.limits.blocks(request.computed)
        self._used_blocks += blocks - request.blocks
        request.blocks = blocks
        return chunk

    def _release(self, request: _Request) -> None:
        self._used_blocks -= request.blocks
        request.blocks = request.computed = 0

    def _finish(self, step: _Step) -> None:
        """Give a token to each request of the step whose KV is complete."""
        self.tally.step_tokens.observe(step.tokens)
        for request in step.requests:
            # An aborted request has lost its KV and so gets none.
            if request.computed == request.known:
                self._sample(request, step.ends)
        self._running = [r for r in self._running if r.generated < r.output]

    def _sample(self, request: _Request, now: float) -> None:
        request.generated += 1
        self.tally.generation_tokens += 1
        if request.generated == 1:
            self.tally.prompt_tokens += request.prompt
            self.tally.ttft.observe(now - request.arrived)
        done = request.generated == request.output
        if done:
            self.tally.finished += 1
            self._release(request)
        self._outbox.append(Progress(request.request_id, now, request.generated, done))
