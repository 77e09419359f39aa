"""A signal that the page had and has no more: held for a while, then a cap, never idleness."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.health import Reported, TargetHealth
from scorer.core.judge import Judgement, judge_pool
from scorer.core.lost import HELD_PAGES
from scorer.core.outstanding import NOTHING
from scorer.core.samples import Page, Reading, ScrapeFailed
from scorer.core.sourced import Source
from scorer.core.view import target_view
from scorer.core.vocabulary import Cause, Gap, Reason, SignalName, State
from tests.core.builders import REFUSED, TOKENS, failed, page, scrape, target

FULL = page(waiting=60.0, running=200.0, kv_cache=1.0)
GONE = page(waiting=None, running=None, kv_cache=None)
NO_ENGINE = Page(None)
LATE = 60
"""Pages after which every ramp and every hold is over."""


class Lives:
    """A target that is scraped once a second and judged after each scrape.

    While it is ``moving``, its progress counter does.
    """

    def __init__(self, *, moving: bool = True) -> None:
        self.health: TargetHealth = target()
        self.now = 0.0
        self._moving = moving

    def scraped(self, result: Page | ScrapeFailed, times: int = 1) -> Judgement:
        """Scrape that often; return the last judgement."""
        for _ in range(times):
            self.now += 1.0
            self.health.apply(scrape(self._moved(result), self.now))
            [judgement] = judge_pool([self.health], self.now, lambda _: NOTHING)
        return judgement

    def _moved(self, result: Page | ScrapeFailed) -> Page | ScrapeFailed:
        if isinstance(result, ScrapeFailed) or result.samples is None or not self._moving:
            return result
        return Page(dataclasses.replace(result.samples, progress={TOKENS: self.now}))

    def signal(self, name: SignalName):
        """Return a signal as it is published."""
        [judgement] = judge_pool([self.health], self.now, lambda _: NOTHING)
        return target_view(judgement, self.now).signals[name]


def missing(found: Page, gap: Gap, mapping: str = "vllm_v1") -> Page:
    """Return the page with queue and kv_cache missing for another reason."""
    assert found.samples is not None
    gone = Reading.missing(gap)
    changes = {"waiting": gone, "kv_cache": gone, "mapping": mapping}
    return Page(dataclasses.replace(found.samples, **changes))


@pytest.mark.parametrize(
    "blank",
    [GONE, missing(FULL, Gap.NOT_A_NUMBER), missing(FULL, Gap.NO_SAMPLES), NO_ENGINE],
    ids=["rows vanish", "values are NaN", "declared only", "no known family"],
)
def test_overloaded_target_that_loses_its_queue_does_not_look_idle(blank: Page) -> None:
    """Its last values stand in for five pages; then it scores 70 at most, and says why."""
    lives = Lives()
    overloaded = lives.scraped(FULL, 3)
    assert overloaded.score == 75.0
    assert lives.scraped(blank, HELD_PAGES).score == 75.0
    assert lives.health.reason is Reason.NONE
    lost = lives.scraped(blank, LATE)
    assert lost.score is not None
    assert lost.score <= 70.0
    assert lives.health.state is State.DEGRADED
    assert lives.health.reason in (Reason.SIGNAL_LOST, Reason.BLIND)
    assert lost.eligible


def test_lost_signal_is_explained() -> None:
    """Points, cap, reason and confidence say what happened; the signal is unavailable."""
    lives = Lives()
    lives.scraped(page(waiting=3.0), 3)
    judgement = lives.scraped(GONE, HELD_PAGES + 1)
    view = target_view(judgement, lives.now)
    assert (view.state, view.state_reason) == (State.DEGRADED, Reason.SIGNAL_LOST)
    assert view.score == 70.0 == 100.0 - sum(view.points_lost.values())
    assert view.points_lost[Cause.CAP] == 30.0
    assert [(cap.reason, cap.limit) for cap in view.caps] == [(Reason.SIGNAL_LOST, 70.0)]
    assert view.signals[SignalName.QUEUE].unavailable is Gap.FAMILY_ABSENT
    assert view.confidence == pytest.approx(0.75)


def test_held_value_shows_its_age() -> None:
    """While the last value stands in, it has the time at which it was read."""
    lives = Lives()
    lives.scraped(page(waiting=12.0), 3)
    lives.scraped(GONE, HELD_PAGES)
    queue = lives.signal(SignalName.QUEUE)
    assert (queue.value, queue.at, queue.source) == (12.0, 3.0, Source.ENGINE)
    lives.scraped(GONE)
    assert lives.signal(SignalName.QUEUE).value is None


def test_one_signal_of_two_is_enough() -> None:
    """The KV cache alone does not vouch for a queue that cannot be read."""
    lives = Lives()
    lives.scraped(page(waiting=60.0), 3)
    assert lives.scraped(page(waiting=None), LATE).score == 70.0
    assert lives.health.reason is Reason.SIGNAL_LOST


def test_ttft_that_vanishes_is_lost_unless_another_source_tells_it() -> None:
    """The gateway sees what users see; without it nobody does."""
    lives = Lives()
    lives.scraped(page(ttft=(0.0, 0.0)), 2)
    lives.scraped(page(ttft=(10.0, 1.0)))
    assert lives.scraped(page(ttft=None), LATE).score == 70.0
    lives.health.observe(Source.GATEWAY, 0.1, 5.0, lives.now, None)
    assert lives.scraped(page(ttft=None), 3).lost is False


def test_signal_that_comes_back_lifts_the_cap() -> None:
    """The score rises as after any improvement, and nothing of the loss stays."""
    lives = Lives()
    lives.scraped(page(), 3)
    lives.scraped(GONE, LATE)
    assert lives.scraped(page()).score == 85.0
    assert lives.scraped(page()).score == 100.0
    assert lives.health.state is State.HEALTHY


def test_signal_that_never_was_there_is_not_lost() -> None:
    """Its weight goes to the others, as ever."""
    lives = Lives()
    assert lives.scraped(page(waiting=None, kv_cache=None), LATE).score == 100.0
    assert lives.health.state is State.HEALTHY


def test_failed_scrapes_do_not_use_up_the_hold() -> None:
    """Only a page that lacks the signal says that it is gone."""
    lives = Lives()
    lives.scraped(page(waiting=3.0), 3)
    lives.scraped(failed(), 2)
    lives.scraped(GONE, HELD_PAGES)
    assert lives.signal(SignalName.QUEUE).value == 3.0


def test_restarted_engine_has_lost_nothing() -> None:
    """What an earlier process had does not bind the next, which may be another version."""
    lives = Lives()
    lives.scraped(FULL, 3)
    fresh = page(waiting=None, kv_cache=None, start_time=9000.0)
    assert lives.scraped(fresh, LATE).score == 100.0
    assert lives.health.state is State.HEALTHY


def test_engine_that_was_seen_dead_has_lost_nothing() -> None:
    """Nobody listened: who answers after that is another process, whatever its counters say."""
    lives = Lives()
    lives.scraped(page(start_time=None), 3)
    lives.scraped(REFUSED, 2)
    fresh = page(waiting=None, kv_cache=None, start_time=None)
    assert lives.scraped(fresh, LATE).score == 100.0


def test_mapping_that_does_not_offer_a_signal_has_not_lost_it() -> None:
    """An upgraded engine is read by another mapping; what that has no place for is no loss."""
    lives = Lives()
    lives.scraped(FULL, 3)
    upgraded = missing(page(), Gap.NOT_OFFERED, mapping="other")
    assert lives.scraped(upgraded, LATE).score == 100.0
    assert lives.health.state is State.HEALTHY


def test_mapping_that_offers_a_signal_and_lacks_it_has_lost_it() -> None:
    """Rows that vanish may make another mapping fit the rest of the page."""
    lives = Lives()
    lives.scraped(FULL, 3)
    lives.scraped(missing(page(), Gap.FAMILY_ABSENT, mapping="other"), LATE)
    assert lives.health.reason is Reason.SIGNAL_LOST


def test_answers_that_tell_the_queue_make_up_for_the_page() -> None:
    """What the engine says of itself with an answer is newer than its last good page."""
    lives = Lives()
    lives.scraped(page(waiting=3.0), 3)
    lives.scraped(GONE, LATE)
    lives.health.reported = Reported(waiting=9.0, kv_cache=0.2, at=lives.now)
    judgement = lives.scraped(GONE)
    assert not judgement.lost
    queue = lives.signal(SignalName.QUEUE)
    assert (queue.value, queue.source) == (9.0, Source.FEEDBACK)


def test_idle_target_that_loses_its_counts_is_lost_and_not_frozen() -> None:
    """Nobody can say that it has work, so that nothing moves means nothing."""
    lives = Lives(moving=False)
    lives.scraped(page(tokens=5.0), 3)
    lives.scraped(page(waiting=None, running=None, kv_cache=None, tokens=5.0), LATE)
    assert lives.health.reason is Reason.SIGNAL_LOST


def test_frozen_target_does_not_thaw_by_losing_its_counts() -> None:
    """A page that does not tell whether there is work is no sign of life."""
    lives = Lives(moving=False)
    assert lives.scraped(page(running=3.0, tokens=5.0), LATE).score == 20.0
    blank = page(waiting=None, running=None, kv_cache=None, tokens=5.0)
    assert lives.scraped(blank, LATE).score == 20.0
    assert lives.health.reason is Reason.FROZEN


def test_errors_still_count_while_a_signal_is_lost() -> None:
    """The cap is a limit, not a score."""
    lives = Lives()
    lives.scraped(page(), 3)
    lives.scraped(GONE, LATE)
    bad = page(waiting=None, running=None, kv_cache=None, failures=80.0, successes=20.0)
    assert lives.scraped(bad).score == pytest.approx(60.0)


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=40),
    st.floats(0, 200),
    st.floats(0, 1),
)
def test_losing_signals_never_beats_having_them(
    kept: list[tuple[bool, bool, bool]], waiting: float, kv_cache: float
) -> None:
    """Whatever comes and goes, the score is at most the one with all signals, or 70."""
    whole, patchy = Lives(), Lives()
    for lives in (whole, patchy):
        lives.scraped(page(waiting=waiting, kv_cache=kv_cache), 3)
    for queue, cache, ttft in kept:
        full = whole.scraped(page(waiting=waiting, kv_cache=kv_cache))
        other = patchy.scraped(
            page(
                waiting=waiting if queue else None,
                kv_cache=kv_cache if cache else None,
                ttft=(0.0, 0.0) if ttft else None,
            )
        )
        assert full.score is not None
        assert other.score is not None
        assert other.score <= max(full.score, 70.0) + 1e-6
