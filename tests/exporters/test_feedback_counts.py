"""Feedback on ``/metrics``: counts by target and class, and rejections by reason."""

from prometheus_client.parser import text_string_to_metric_families

from exporters.prometheus import Inputs, build_exposition
from scorer.core.outcome import OutcomeClass
from scorer.daemon_stats import DaemonStats
from scorer.feedback.stats import FeedbackStats, Rejection
from scorer.inflight import InFlight
from scorer.pick_stats import PickStats
from tests.http.builders import frozen_clocks, pool, snapshot, target


def samples(stats, name):
    """Return the values of a metric by its labels."""
    published = snapshot(pool(target("a:1")))
    inputs = Inputs(
        lambda: published, InFlight(), PickStats(), DaemonStats(), "1",
        clocks=frozen_clocks(), feedback=stats,
    )  # fmt: skip
    _, body = build_exposition(inputs)("", [name])
    families = text_string_to_metric_families(body.decode())
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


def test_every_class_is_counted_from_the_start():
    """So that the first outcome of a class is an increase."""
    found = samples(FeedbackStats(), "scorer_feedback_total")
    assert set(found.values()) == {0.0}
    assert len(found) == len(OutcomeClass)


def test_outcomes_are_counted_by_target():
    """With pool, target and class; those of targets that are gone are not shown."""
    stats = FeedbackStats()
    stats.count("chat", "a:1", OutcomeClass.ENGINE_FAULT)
    stats.count("chat", "gone:1", OutcomeClass.SUCCESS)
    found = samples(stats, "scorer_feedback_total")
    assert {labels: value for labels, value in found.items() if value} == {
        (("outcome", "engine_fault"), ("pool", "chat"), ("target", "a:1")): 1.0
    }


def test_rejections_are_counted_by_reason():
    """Every reason from the start."""
    stats = FeedbackStats()
    stats.reject(Rejection.ORPHAN)
    found = samples(stats, "scorer_feedback_rejected_total")
    assert found[("reason", "orphan"),] == 1.0
    assert len(found) == len(Rejection)
