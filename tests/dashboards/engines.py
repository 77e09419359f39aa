"""Engines as queues: requests wait for a slot, take their time, and show on a vLLM page.

Coarse, so that hours of a fleet take seconds; every number on the page follows from the
requests that were sent, and from the mishaps of a script.
"""

import heapq
from bisect import insort
from dataclasses import dataclass, field

SLOTS = 16
KV_TOKENS = 40_000
PREFILL = 8_000.0
"""Prompt tokens a second."""
DECODE = 0.035
"""Seconds for a token of output."""
BUSY = 4.0
"""Seconds of waiting from which on an engine refuses more."""

PAGE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="{model}"}} {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="{model}"}} {waiting}
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0",model_name="{model}"}} {kv_cache}
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{{engine="0",model_name="{model}"}} {preemptions}
# TYPE vllm:generation_tokens counter
vllm:generation_tokens_total{{engine="0",model_name="{model}"}} {tokens}
# TYPE vllm:request_success counter
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="{model}"}} {finished}
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="{model}"}} {count}
vllm:time_to_first_token_seconds_sum{{engine="0",model_name="{model}"}} {sum}
vllm:time_to_first_token_seconds_count{{engine="0",model_name="{model}"}} {count}
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{block_size="16",engine="0",num_gpu_blocks="2500"}} 1
# TYPE process_start_time_seconds gauge
process_start_time_seconds {started}
"""


@dataclass(frozen=True, slots=True)
class Mishap:
    """What goes wrong between two times: ``kind`` is down, failing, frozen, blind or slow."""

    kind: str
    since: float
    until: float
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Served:
    """How one request goes: times in seconds, and the status, 0 for no answer."""

    first: float
    done: float
    status: int = 200


@dataclass
class QueueEngine:
    """One engine; time is an argument, in seconds, and never goes back."""

    model: str
    mishaps: tuple[Mishap, ...] = ()
    free: list[float] = field(default_factory=lambda: [0.0] * SLOTS)
    work: list[tuple[float, float, float, float, int, int]] = field(default_factory=list)
    tokens: float = 0.0
    finished: int = 0
    count: int = 0
    sum: float = 0.0
    preemptions: int = 0
    started: float = 1000.0
    shown: str = ""

    def suffers(self, kind: str, now: float) -> float:
        """Return the factor of a mishap that goes on, 0 when there is none."""
        for each in self.mishaps:
            if each.kind == kind and each.since <= now < each.until:
                return each.factor
        return 0.0

    def submit(self, now: float, prompt: int, output: int) -> Served:
        """Take a request and return how it goes."""
        if self.suffers("down", now):
            return Served(now, now + 0.001, 0)
        if self.suffers("failing", now):
            return Served(now, now + 0.02, 500)
        if self.free[0] - now > BUSY:
            return Served(now, now + 0.005, 503)
        slow = self.suffers("slow", now) or 1.0
        start = max(now, heapq.heappop(self.free))
        first = start + slow * (prompt / PREFILL + 0.02)
        done = first + slow * DECODE * output
        heapq.heappush(self.free, done)
        insort(self.work, (done, start, first, first - now, prompt, output))
        return Served(first, done)

    def page(self, now: float) -> bytes | None:
        """Return the metrics page, None while nobody listens."""
        if self.suffers("down", now):
            self._restart(now)
            return None
        if not (self.suffers("frozen", now) and self.shown):
            self.shown = self._page(now)
        text = self.shown
        if self.suffers("blind", now):
            text = text.replace("vllm:num_requests_waiting", "vllm:num_requests_queued")
        return text.encode()

    def _page(self, now: float) -> str:
        while self.work and self.work[0][0] <= now:
            *_, ttft, _, output = self.work.pop(0)
            self.finished += 1
            self.tokens += output
            self.count += 1
            self.sum += ttft
        running = [each for each in self.work if each[1] <= now]
        held = sum(prompt + output for *_, prompt, output in running) / KV_TOKENS
        self.preemptions += int(max(0.0, held - 1.0) * 10)
        return PAGE.format(
            model=self.model, running=len(running), waiting=len(self.work) - len(running),
            kv_cache=min(1.0, held), preemptions=self.preemptions, finished=self.finished,
            tokens=self.tokens + sum(made(each, now) for each in running), count=self.count,
            sum=self.sum, started=self.started,
        )  # fmt: skip

    def _restart(self, now: float) -> None:
        self.free = [now] * SLOTS
        self.work = []
        self.tokens = self.sum = 0.0
        self.finished = self.count = self.preemptions = 0
        self.started = 1000.0 + now
        self.shown = ""


def made(work: tuple[float, float, float, float, int, int], now: float) -> float:
    """Return the tokens that a running request has by now."""
    done, _, first, _, _, output = work
    return output * max(0.0, (now - first) / (done - first))
