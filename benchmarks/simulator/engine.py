"""The demo's emulated engine, made fast: tokens between first and last are only counted.

Every step of :class:`scorer.demo.engine.Engine` gives each decoding request one token.
So a request that joined the batch at step *s* with *g* tokens has ``g + step - s`` of them;
a step costs the same arithmetic for one request as for 256. KV blocks follow likewise:
requests whose KV ends a block at the same step modulo the block size are counted together.
Only a step that finds too few free blocks goes through the batch one by one.

Invariant: first tokens, ends and preemptions are those of the demo's engine, at the same
seconds (a test plays both). Beyond it this one can be slowed down, and can hold a prefix
cache.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf

from scorer.demo.cost import CostModel
from scorer.demo.engine import Limits
from scorer.demo.tally import Tally

PREFIX_BLOCK = 512
"""Tokens that one hash of a prompt's prefix stands for, as in the traces of Mooncake."""


@dataclass(slots=True, eq=False)
class Job:
    """One request at an engine; ``handle`` is the caller's own word for it."""

    handle: object
    prompt: int
    output: int
    arrived: float
    prefix: Sequence[int] = ()
    computed: int = 0
    generated: int = 0
    joined: int = -1

    @property
    def known(self) -> int:
        """Tokens whose KV the next token needs."""
        return self.prompt + self.generated


Milestone = tuple[float, object, bool]
"""When, whose, and whether it is the last token (else the first)."""


class SimEngine:
    """One engine; every method takes the caller's time in seconds, which never goes back.

    ``ends`` is when the current step ends, infinite while there is nothing to do.
    ``slow`` is what each step takes in multiples of its usual time. ``outbox`` holds the
    milestones reached since somebody emptied it.
    """

    def __init__(self, cost: CostModel, limits: Limits, now: float, *, prefixes: int = 0) -> None:
        """Start idle; ``prefixes`` blocks of prefix cache, none for no cache."""
        if limits.sequences > limits.step_tokens:
            raise ValueError("a step must have room for a token of each sequence")
        self.cost = cost
        self.limits = limits
        self.slow = 1.0
        self._prefixes = prefixes
        self._reset(now)

    def _reset(self, now: float) -> None:
        self.started_at = now
        self.tally = Tally()
        self.outbox: list[Milestone] = []
        self.ends = inf
        self.cached_tokens = 0
        self._step = 0
        self._tokens = 0
        self._resident = 0
        self._used = 0
        self._waiting: deque[Job] = deque()
        self._decoding: dict[Job, None] = {}
        self._residues = [0] * self.limits.block_size
        self._due: dict[int, list[Job]] = {}
        self._partial: Job | None = None
        self._joining: list[Job] = []
        self._cache: OrderedDict[int, None] = OrderedDict()

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._decoding) + len(self._joining)

    @property
    def waiting(self) -> int:
        """Requests not admitted yet, or preempted."""
        return len(self._waiting)

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks in use, 0-1."""
        return self._used / self.limits.kv_blocks

    def submit(
        self, handle: object, prompt: int, output: int, now: float, prefix: Sequence[int] = ()
    ) -> Job:
        """Queue a request; raises ValueError when it could never be served."""
        if self.limits.blocks(prompt + output) > self.limits.kv_blocks:
            raise ValueError(f"a request of {prompt} + {output} tokens cannot be served")
        self.advance(now)
        job = Job(handle, prompt, output, now, prefix)
        self._waiting.append(job)
        if self.ends == inf:
            self._start(now)
        return job

    def abort(self, job: Job, now: float) -> None:
        """Forget a request and free its KV blocks; a finished one is ignored."""
        self.advance(now)
        if job in self._decoding:
            self._leave(job)
        elif job in self._joining:
            self._joining.remove(job)
            self._release(job)
            self._partial = None if job is self._partial else self._partial
        elif job in self._waiting:
            self._waiting.remove(job)
        else:
            return
        self.tally.aborted += 1

    def restart(self, now: float) -> list[object]:
        """Lose all requests and counters; return the handles of the requests that were lost."""
        self.advance(now)
        lost = [job.handle for job in (*self._decoding, *self._joining, *self._waiting)]
        self._reset(now)
        return lost

    def advance(self, now: float) -> None:
        """Run every step that ends until ``now``; what it brings is in the outbox."""
        while self.ends <= now:
            at = self.ends
            self._finish(at)
            self._start(at)

    def forecast(self, prompt: int, now: float, prefix: Sequence[int] = ()) -> float:
        """Return the seconds to the first token of a prompt that would be queued ``now``.

        What no gateway can know: the work that is really left, less what is cached of it, at
        the engine's real cost. Requests that arrive or end meanwhile are not foreseen.
        """
        cost, n = self.cost, len(self._decoding)
        job = self._partial
        parts = [(job.computed, job.known)] if job else []
        parts += [(self._cached(each.prefix, each.known), each.known) for each in self._waiting]
        parts.append((self._cached(prefix, prompt), prompt))
        tokens = sum(known - computed for computed, known in parts)
        pairs = sum((known**2 - computed**2) / 2 for computed, known in parts)
        steps = -(-tokens // (self.limits.step_tokens - n))
        blocks = sum(self.limits.blocks(known - computed) for computed, known in parts)
        full = self._used + blocks > self.limits.kv_blocks
        own = cost.token * tokens + cost.pair * pairs
        each = cost.overhead + cost.sequence * n + cost.kv_token * self._resident
        left = 0.0 if self.ends == inf else self.ends - now
        return left + self.slow * (own + steps * each) + (10.0 if full else 0.0)

    def _start(self, now: float) -> None:
        """Compose the next step and take the KV blocks it needs."""
        place = self._step % self.limits.block_size
        preempted = self.tally.preemptions
        if self._residues[place] <= self.limits.kv_blocks - self._used:
            self._used += self._residues[place]
        else:
            self._make_room(place)
        n, resident = len(self._decoding), self._resident
        self._step += 1
        self._resident += n
        self._joining = []
        sequences, pairs, prefill = n, 0.0, 0
        if self._partial is not None or self._waiting:
            budget = self.limits.step_tokens - n
            for job, tokens in self._prefill(budget, preempted):
                if job.computed and job.known - job.computed == 1:
                    sequences += 1
                    resident += job.computed
                else:
                    pairs += tokens * (job.computed + tokens / 2)
                job.computed += tokens
                prefill += tokens
        self._tokens = n + prefill
        if not self._tokens:
            self.ends = inf
            return
        cost = self.cost
        seconds = (
            cost.overhead
            + max(cost.weights, cost.token * self._tokens)
            + cost.sequence * sequences
            + cost.kv_token * resident
            + cost.pair * pairs
        )
        self.ends = now + seconds * self.slow

    def _prefill(self, budget: int, preempted: int) -> list[tuple[Job, int]]:
        """Return who computes how much of its prompt in this step; takes the blocks."""
        chunks: list[tuple[Job, int]] = []
        limits, job = self.limits, self._partial
        if job is not None:
            tokens = min(job.known - job.computed, budget)
            needed = limits.blocks(job.computed + tokens) - limits.blocks(job.computed)
            if needed > limits.kv_blocks - self._used:
                self._preempt(job)
            else:
                self._take(job, tokens, chunks)
                budget -= tokens
        # Whoever was just preempted heads the queue: admitting it at once would thrash.
        while budget > 0 and self._waiting and self.tally.preemptions == preempted:
            job = self._waiting[0]
            running = len(self._decoding) + len(self._joining)
            free = limits.kv_blocks - self._used
            if running >= limits.sequences or limits.blocks(job.known) > free:
                break
            self._waiting.popleft()
            self._look_up(job)
            tokens = min(job.known - job.computed, budget)
            self._take(job, tokens, chunks)
            budget -= tokens
        return chunks

    def _take(self, job: Job, tokens: int, chunks: list[tuple[Job, int]]) -> None:
        blocks = self.limits.blocks
        self._used += blocks(job.computed + tokens) - blocks(job.computed)
        self._joining.append(job)
        self._partial = None if job.computed + tokens == job.known else job
        chunks.append((job, tokens))

    def _cached(self, prefix: Sequence[int], known: int) -> int:
        """Return how many of the ``known`` tokens of a prompt are in the prefix cache."""
        if not self._prefixes:
            return 0
        hits = sum(1 for _ in takewhile(self._cache.__contains__, prefix))
        return max(0, min(hits * PREFIX_BLOCK, known - 1))

    def _look_up(self, job: Job) -> None:
        """Start a request behind the prefix that is cached, and cache all of its prompt."""
        if not self._prefixes or not job.prefix:
            return
        job.computed = self._cached(job.prefix, job.known)
        self.cached_tokens += job.computed
        self._used += self.limits.blocks(job.computed)
        for each in job.prefix:
            self._cache[each] = None
            self._cache.move_to_end(each)
        while len(self._cache) > self._prefixes:
            self._cache.popitem(last=False)

    def _make_room(self, place: int) -> None:
        """Give each decoding request its block, oldest first; preempt the newest for it."""
        for job in list(self._decoding):
            if job not in self._decoding:
                return
            needed = self._residue(job) == place
            while needed and self._used >= self.limits.kv_blocks:
                victim = self._partial or next(reversed(self._decoding))
                self._preempt(victim)
                if victim is job:
                    return
            self._used += needed

    def _preempt(self, job: Job) -> None:
        if job is self._partial:
            self._partial = None
            self._release(job)
        else:
            self._leave(job)
        job.computed = 0
        self._waiting.appendleft(job)
        self.tally.preemptions += 1

    def _residue(self, job: Job) -> int:
        return (job.joined - job.computed) % self.limits.block_size

    def _finish(self, at: float) -> None:
        """Give a token to each request of the step whose KV is complete."""
        tally = self.tally
        tally.step_tokens.observe(self._tokens)
        tally.generation_tokens += len(self._decoding)
        for job in self._due.pop(self._step, ()):
            if job in self._decoding and job.joined + job.output - job.generated == self._step:
                self._leave(job)
                self._end(job, at)
        for job in self._joining:
            if job.computed == job.known:
                self._sample(job, at)

    def _sample(self, job: Job, at: float) -> None:
        """Give a request the token that follows its prefill; it decodes from here on."""
        tally = self.tally
        job.generated += 1
        tally.generation_tokens += 1
        if job.generated == 1:
            tally.prompt_tokens += job.prompt
            tally.ttft.observe(at - job.arrived)
            self.outbox.append((at, job.handle, False))
        if job.generated == job.output:
            self._release(job)
            self._end(job, at)
            return
        job.joined = self._step
        self._decoding[job] = None
        self._resident += job.computed
        self._residues[self._residue(job)] += 1
        self._due.setdefault(self._step + job.output - job.generated, []).append(job)

    def _end(self, job: Job, at: float) -> None:
        self.tally.finished += 1
        self.outbox.append((at, job.handle, True))

    def _leave(self, job: Job) -> None:
        """Take a request out of the decoding ones, with the tokens it has by now."""
        del self._decoding[job]
        self._residues[self._residue(job)] -= 1
        made = self._step - job.joined
        job.generated += made
        job.computed += made
        job.joined = -1
        self._resident -= job.computed
        self._release(job)

    def _release(self, job: Job) -> None:
        self._used -= self.limits.blocks(job.computed)
