"""What survives of a target: it comes back as it was, or not at all."""

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scorer.core.cooldown import CooldownReason
from scorer.core.health import BELIEVED_FOR, TargetHealth
from scorer.core.judge import judge_pool
from scorer.core.learn import Circumstances, learn
from scorer.core.memory import VERSION, recall, remember
from scorer.core.outcome import Outcome, OutcomeClass
from scorer.core.outstanding import NOTHING, Outstanding
from scorer.core.overrides import Override
from scorer.core.vocabulary import Reason, ScrapeFailure, State
from tests.core.builders import REFUSED, failed, page, scrape, target

START = 5000.0
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def judged(*targets: TargetHealth, now: float) -> list[float | None]:
    """Return the scores of a pool's targets, judged at ``now``."""
    return [each.score for each in judge_pool(targets, now, lambda _: NOTHING)]


def eligible(health: TargetHealth, now: float) -> bool:
    """Return whether picks may return a target, judged at ``now``."""
    return judge_pool([health], now, lambda _: NOTHING)[0].eligible


def restarted(
    health: TargetHealth, now: float, *, elapsed: float = 0.0, late: bool = False
) -> TargetHealth:
    """Return what a daemon knows of a target that starts ``elapsed`` seconds later.

    The new process' clock stands elsewhere: at ``now`` plus ``elapsed``, to keep sums easy.
    """
    data = json.loads(json.dumps(remember(health, now), allow_nan=False))
    fresh = target(late=late, at=now + elapsed)
    assert recall(data, fresh, elapsed)
    return fresh


def fault(at: float) -> Outcome:
    return Outcome(OutcomeClass.ENGINE_FAULT, "test", at)


def full(at: float) -> Outcome:
    return Outcome(OutcomeClass.ENGINE_SATURATED, "test", at, retry_after=20.0)


def busy(**changes: Any) -> TargetHealth:
    """Return a target judged at START, with traffic; ``changes`` are of its last page."""
    health = target(at=START - 10.0)
    health.apply(scrape(page(), START - 2.0))
    judged(health, now=START - 2.0)
    health.apply(scrape(page(**{"ttft": (10.0, 12.0), "tokens": 50.0, **changes}), START))
    judged(health, now=START)
    return health


def refused(times: int) -> TargetHealth:
    health = busy()
    for _ in range(times):
        health.apply(scrape(REFUSED, START))
    judged(health, now=START)
    return health


EVENTS: dict[str, Callable[[TargetHealth, float, float], None]] = {
    "page": lambda health, at, x: health.apply(
        scrape(
            page(
                waiting=x, running=x, kv_cache=x / 40.0, tokens=at, start_time=1000.0,
                ttft=(at, at * x / 10.0), failures=at * x / 50.0, successes=at,
            ),
            at,
        )
    ),
    "idle": lambda health, at, _: health.apply(scrape(page(tokens=at), at)),
    "asleep": lambda health, at, _: health.apply(scrape(page(asleep=True), at)),
    "restart": lambda health, at, _: health.apply(scrape(page(start_time=1000.0 + at), at)),
    "timeout": lambda health, at, _: health.apply(scrape(failed(), at)),
    "refused": lambda health, at, _: health.apply(scrape(REFUSED, at)),
    "fault": lambda health, at, _: learn(health, fault(at), Circumstances()),
    "full": lambda health, at, x: learn(
        health, full(at)._replace(retry_after=x or None), Circumstances()
    ),
    "success": lambda health, at, x: learn(
        health, Outcome(OutcomeClass.SUCCESS, "test", at, ttft=x / 10.0), Circumstances()
    ),
    "loading": lambda health, at, _: learn(
        health, Outcome(OutcomeClass.LOADING, "test", at), Circumstances()
    ),
}  # fmt: skip
HISTORY = st.lists(
    st.tuples(st.sampled_from(sorted(EVENTS)), st.integers(0, 40), st.sampled_from([0.25, 0.5])),
    max_size=40,
)


def lived(history: list[tuple[str, int, float]]) -> tuple[TargetHealth, float]:
    """Return a target after a history, judged after each event, and the time by then."""
    health, now = target(at=START), START
    for name, x, pause in [("page", 1, 0.5), ("page", 2, 0.5), *history]:
        now += pause
        EVENTS[name](health, now, float(x))
        judged(health, now=now)
    return health, now


@given(HISTORY)
def test_recalled_target_has_the_score_and_the_state_it_had(history):
    """At the same moment, whatever it went through."""
    health, now = lived(history)
    again = restarted(health, now)
    assert judged(again, now=now) == pytest.approx(judged(health, now=now))
    assert (again.state, again.reason) == (health.state, health.reason)


@given(HISTORY)
def test_first_page_shows_no_restart_of_the_daemon(history):
    """A target that was recalled scores after its next page as if nothing had been."""
    health, now = lived(history)
    again = restarted(health, now)
    for each in (health, again):
        judged(each, now=now)
        EVENTS["page"](each, now + 0.5, 3.0)
    assert judged(again, now=now + 0.5) == pytest.approx(judged(health, now=now + 0.5))
    assert (again.state, again.reason) == (health.state, health.reason)
    assert again.cooldown.cause(now + 0.5) == health.cooldown.cause(now + 0.5)


@given(JSON)
@example({"version": VERSION})
@example(10**400)
def test_any_json_at_all_is_refused_without_a_trace(data):
    """Nothing raises, and the target is as any that is just known."""
    fresh = target(at=START)
    assert not recall(data, fresh, 1.0)
    assert fresh == target(at=START)


def paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value within JSON data."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    found = []
    for key, value in items:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += paths(value, (*path, key))
    return found


def rich() -> TargetHealth:
    """Return a target of which there is everything to remember."""
    health = busy(waiting=3.0, failures=1.0, successes=5.0)
    learn(health, fault(START), Circumstances())
    learn(
        health, Outcome(OutcomeClass.SUCCESS, "test", START, ttft=1.0, waiting=2.0), Circumstances()
    )
    learn(health, full(START), Circumstances())
    health.cooldown.impose(START, 100.0, "new disk")
    health.drain = Override(START - 1.0, START + 500.0, "new rack")
    health.start_ramp(START, Reason.RESTARTED)
    return health


RICH = json.dumps(remember(rich(), START))
WRONG = [math.nan, math.inf, -math.inf, -1.0, 1e308, 10**400, "x" * 5000, [], {}, True, [[]]]


@given(st.sampled_from(paths(json.loads(RICH))), st.sampled_from(WRONG) | JSON)
def test_one_wrong_value_is_refused_or_means_something(path, value):
    """Nothing raises, nothing is half applied, and what is applied can be judged."""
    data = json.loads(RICH)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    fresh = target(at=START)
    if recall(data, fresh, 1.0):
        (score,) = judged(fresh, now=START)
        assert score is None or 0.0 <= score <= 100.0
        fresh.apply(scrape(page(tokens=60.0), START + 1.0))
        judged(fresh, now=START + 1.0)
        learn(fresh, full(START + 1.0), Circumstances())
    else:
        assert fresh == target(at=START)


@pytest.mark.parametrize("path", paths(json.loads(RICH)), ids=str)
def test_nothing_may_be_missing(path):
    """Each field and part that is written is needed, unless it is one of several."""
    data = json.loads(RICH)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    one_of_several = isinstance(inner, list) or bool(MAPPINGS & set(path[-2:-1]))
    assert recall(data, target(at=START), 1.0) <= one_of_several


@pytest.mark.parametrize("value", WRONG[:6], ids=str)
def test_score_that_is_no_score_is_refused(value):
    """A number that no judgement gives is no memory."""
    data = json.loads(RICH)
    data["seen"]["score"] = value if value >= 0 or value != value else -0.5  # noqa: PLR0124
    assert not recall(data, target(at=START), 1.0)


def test_another_version_is_refused():
    """What a later program wrote may mean something else."""
    data = json.loads(RICH)
    data["version"] = VERSION + 1
    assert not recall(data, target(at=START), 1.0)


def test_cooldown_beyond_the_longest_is_refused():
    """A file cannot keep a target out for longer than any rule could."""
    data = json.loads(RICH)
    data["cooldown"]["until"] = -3600.0
    assert not recall(data, target(at=START), 1.0)


def test_known_target_does_not_warm_up():
    """It is believed until its first page, and takes the score of that page at once."""
    again = restarted(busy(), START, elapsed=4.0, late=True)
    before = judged(again, now=START + 4.0)
    assert again.state is State.HEALTHY
    again.apply(scrape(page(ttft=(20.0, 24.0), tokens=90.0), START + 4.5))
    assert judged(again, now=START + 4.5) == pytest.approx(before, abs=2.0)
    assert again.state is State.HEALTHY
    assert again.restarts == 0


@pytest.mark.parametrize(
    "changes", [{"start_time": 2000.0}, {"start_time": None, "tokens": 5.0}], ids=["time", "counts"]
)
def test_engine_restarted_meanwhile_is_seen_as_restarted(changes):
    """By its start time, or by its counters: it warms up, and its TTFT is forgotten."""
    again = restarted(busy(), START, elapsed=4.0)
    again.apply(scrape(page(**{"tokens": 1.0, **changes}), START + 4.5))
    assert judged(again, now=START + 4.5) == [0.0]
    assert (again.state, again.reason) == (State.WARMUP, Reason.RESTARTED)
    assert again.restarts == 1
    assert again.ttft.current(START + 4.5).value is None


def test_one_failed_scrape_takes_a_recalled_target_out():
    """It may have died meanwhile: until a scrape succeeds it is not picked for old times' sake."""
    again = restarted(busy(), START, elapsed=4.0)
    assert eligible(again, START + 4.0)
    again.apply(scrape(failed(), START + 4.5))
    assert not eligible(again, START + 4.5)
    again.apply(scrape(page(tokens=60.0), START + 5.5))
    assert eligible(again, START + 5.5)


def test_engine_that_died_meanwhile_is_unreachable_after_two_refusals():
    """As soon as one that dies while the daemon runs."""
    again = restarted(busy(), START, elapsed=4.0)
    for at in (START + 4.5, START + 5.5):
        again.apply(scrape(REFUSED, at))
    assert judged(again, now=START + 5.5) == [0.0]
    assert (again.state, again.reason) == (State.UNREACHABLE, Reason.CONNECTION_REFUSED)


def test_unreachable_target_stays_so_and_warms_up_when_it_is_back():
    """The failures of before count on; what comes back comes back slowly."""
    again = restarted(refused(2), START, elapsed=4.0)
    assert judged(again, now=START + 4.0) == [0.0]
    assert again.state is State.UNREACHABLE
    again.apply(scrape(page(tokens=60.0), START + 4.5))
    judged(again, now=START + 4.5)
    assert (again.state, again.reason) == (State.WARMUP, Reason.RECOVERED)


def test_one_refusal_before_and_one_after_are_two():
    """A refusal without a success since is not forgotten."""
    again = restarted(refused(1), START, elapsed=1.0)
    again.apply(scrape(REFUSED, START + 1.5))
    assert again.unreachable is Reason.CONNECTION_REFUSED


def test_cooldown_has_its_remaining_time():
    """What was decided lasts as long as was decided, in whose clock whatever."""
    health = busy()
    learn(health, full(START), Circumstances())
    again = restarted(health, START, elapsed=5.0)
    assert again.cooldown.until == pytest.approx(START + 20.0)
    assert again.cooldown.cause(START + 19.9) is CooldownReason.ENGINE_SATURATED
    assert not again.cooldown.active(START + 20.1)
    assert again.cooldown.seconds(START + 25.0) == {
        CooldownReason.ENGINE_SATURATED: pytest.approx(15.0)
    }


def test_operators_drain_outlasts_the_minute():
    """It survives however long ago it was, until it ends."""
    health = busy()
    health.drain = Override(START, START + 7200.0, "new rack")
    again = restarted(health, START, elapsed=3600.0)
    assert again.drain == Override(START, pytest.approx(START + 7200.0), "new rack")
    assert again.score is None
    assert restarted(health, START, elapsed=7201.0).drained(START + 7201.0) is None


def test_drain_without_an_end_has_none_afterwards():
    """It lasts until it is taken back, however long the daemon was down."""
    health = busy()
    health.drain = Override(START, math.inf)
    assert restarted(health, START, elapsed=1e7).drain == Override(START, math.inf)


def test_what_was_seen_is_believed_for_a_minute():
    """After that the target is one that is known from the start."""
    again = restarted(busy(), START, elapsed=BELIEVED_FOR + 1.0)
    again.cooldown.counted_from = None
    assert again == target(at=START + BELIEVED_FOR + 1.0)


def test_recalled_score_that_no_scrape_bears_out_ends():
    """A minute after it was judged nobody believes it any more."""
    again = restarted(busy(), START, elapsed=30.0)
    assert judged(again, now=START + BELIEVED_FOR - 1.0) != [None]
    assert judged(again, now=START + BELIEVED_FOR + 1.0) == [None]
    assert not eligible(again, START + BELIEVED_FOR + 1.0)


def test_clock_set_back_leaves_only_what_was_decided():
    """Nobody knows how old the score is; the drain has its whole time left."""
    health = busy()
    health.drain = Override(START, START + 100.0)
    fresh = target(at=START)
    assert recall(remember(health, START), fresh, -500.0)
    assert fresh.score is None
    assert fresh.drain == Override(START, START + 100.0)


def test_failing_target_keeps_its_cap():
    """Being failing is not over by a restart of ours; only probes go there."""
    health = busy()
    for _ in range(10):
        learn(health, fault(START), Circumstances(allowed=False))
    judged(health, now=START)
    again = restarted(health, START, elapsed=1.0)
    assert judged(again, now=START + 1.0) == judged(health, now=START)
    assert again.reason is Reason.FAILING
    assert not eligible(again, START + 1.0)


def still(seconds: int) -> TargetHealth:
    """Return a target whose counters stood still for so long while it had work."""
    health = busy(running=2.0)
    for second in range(1, seconds + 1):
        again = page(running=2.0, ttft=(10.0, 12.0), tokens=50.0)
        health.apply(scrape(again, START + second))
    return health


def test_frozen_target_stays_frozen():
    """It stood still before and nothing tells that it moves."""
    health = still(12)
    judged(health, now=START + 12.0)
    assert health.reason is Reason.FROZEN
    again = restarted(health, START + 12.0, elapsed=1.0)
    again.apply(scrape(page(running=2.0, ttft=(10.0, 12.0), tokens=50.0), START + 13.5))
    judged(again, now=START + 13.5)
    assert again.reason is Reason.FROZEN


def test_long_prefill_under_way_is_not_taken_for_frozen():
    """Who sent what is forgotten, so an engine in a long step is watched anew."""
    health = still(12)
    judge_pool([health], START + 12.0, lambda _: Outstanding(largest_prefill=60.0))
    assert health.reason is not Reason.FROZEN
    again = target(at=START + 13.0)
    assert recall(remember(health, START + 12.0, allowance=60.0), again, 1.0)
    again.apply(scrape(page(running=2.0, ttft=(10.0, 12.0), tokens=50.0), START + 13.5))
    judged(again, now=START + 13.5)
    assert again.reason is not Reason.FROZEN


def test_own_counters_start_over():
    """A counter a little lower than it was would read as a reset and double the count."""
    health = refused(2)
    learn(health, full(START), Circumstances())
    again = restarted(health, START)
    assert (again.scrapes, again.restarts, again.failures) == (0, 0, {})
    assert again.transition_counts == {}
    assert again.cooldown.entered == {}


MAPPINGS = {"ewmas", "windows", "held", "missed"}
"""Fields whose parts are several, by name."""
STARTS_OVER = {
    "id", "params", "known_at", "late", "vouched", "leaving", "patience",  # given anew
    "last_scrape", "last_good_at", "good_scrapes", "picks_seen", "parts",  # ours
    "scrapes", "failures", "restarts", "transition_counts",  # counters
    "transitions", "last_errors",  # history for people
}  # fmt: skip


def test_every_field_is_remembered_or_starts_over_on_purpose():
    """Whoever adds a field to a target's memory decides which, here and in memory.py."""
    data = json.loads(RICH)
    remembered = data.keys() | data["seen"].keys()
    fields = {each.name.strip("_") for each in dataclasses.fields(TargetHealth)}
    assert fields - remembered == STARTS_OVER - remembered


def test_target_without_a_score_is_remembered_for_what_was_decided():
    """There is nothing else to say of it."""
    fresh = target(at=START)
    fresh.drain = Override(START, START + 60.0)
    data = remember(fresh, START)
    assert data["seen"] is None
    assert data["drain"] is not None


def test_page_of_too_many_series_is_not_kept():
    """The memory of a target is bounded; without the page its score is not kept either."""
    health = busy()
    series = {("tokens", (("engine", str(number)),)): 1.0 for number in range(5000)}
    health._progress_delta.advance(series)
    assert remember(health, START)["seen"] is None


def test_failures_by_timeout_are_not_counted_twice():
    """Three in a row are three, two before the restart and one after it."""
    health = busy()
    for _ in range(2):
        health.apply(scrape(failed(ScrapeFailure.TIMEOUT), START))
    judged(health, now=START)
    again = restarted(health, START, elapsed=1.0)
    assert again.unreachable is None
    again.apply(scrape(failed(), START + 1.5))
    assert again.unreachable is Reason.SCRAPES_FAILED
