"""What the classifier makes of an answer together with what else is known of the request."""

import pytest

from scorer.core.classify import Classifier, Context
from scorer.core.outcome import OutcomeClass
from scorer.core.rules import Fact, Rule, codes

CLASSIFY = Classifier()


def judged(status, body="", headers=None, **context):
    """Return the class of an answer in a context."""
    return CLASSIFY(status, headers or {}, body, Context(**context)).outcome


@pytest.mark.parametrize("termination", ["CD", "CH--", "cD--", "CR", "CC--", "CQ", "DC", "DR"])
@pytest.mark.parametrize("status", [0, 200, 503])
def test_client_that_left_is_nobodys_fault(termination, status):
    """HAProxy's C* and c*, and Envoy's downstream flags."""
    assert judged(status, termination=termination) is OutcomeClass.CLIENT_ABORT


@pytest.mark.parametrize("termination", ["CD", "CD--", "DC"])
def test_client_that_left_after_the_first_token_was_served(termination):
    """A success with a first token is one although the client left."""
    known = {"termination": termination, "facts": Fact.FIRST_TOKEN}
    assert judged(200, **known) is OutcomeClass.SUCCESS


@pytest.mark.parametrize(
    "termination",
    ["SH--", "SD", "sD--", "sH", "SC", "sC--", "PH--", "DH--", "UF", "UF,URX", "UC", "UT"],
)
def test_upstream_that_broke_off_is_a_fault(termination):
    """Refused, reset, timed out and truncated, whatever the status says."""
    assert judged(200, termination=termination) is OutcomeClass.ENGINE_FAULT


@pytest.mark.parametrize("termination", ["sQ--", "PR", "RC--", "UH", "UO", "NR", "OM", "LR--"])
def test_gateway_that_asked_nobody_is_its_own_fault(termination):
    """Queue timeouts, denials, overflows and missing routes of the gateway."""
    assert judged(503, termination=termination) is OutcomeClass.GATEWAY_FAULT


def test_envoys_rate_limit_is_the_clients():
    """The flag RL."""
    assert judged(429, termination="RL") is OutcomeClass.CLIENT_RATE_LIMIT


@pytest.mark.parametrize("termination", ["----", "--", "-", "", "URX", "nonsense"])
def test_other_flags_leave_the_decision_to_the_answer(termination):
    """A normal end, a flag that says nothing of the cause, and what is no flag."""
    assert judged(200, termination=termination) is OutcomeClass.SUCCESS


def test_haproxy_without_a_server_is_the_gateways_fault():
    """SC-- with no server is an empty backend, with one a refused connection."""
    known = {"termination": "SC--", "facts": Fact.NO_UPSTREAM}
    assert judged(503, **known) is OutcomeClass.GATEWAY_FAULT


@pytest.mark.parametrize(
    ("waited", "outcome"),
    [
        (0.1, OutcomeClass.CLIENT_ABORT),
        (60.0, OutcomeClass.ENGINE_FAULT),
        (None, OutcomeClass.CLIENT_ABORT),
    ],
)
def test_408_is_the_engines_fault_after_a_long_wait_only(waited, outcome):
    """The caller's own impatience cools nobody."""
    assert judged(408, waited=waited, patience=2.0) is outcome


def test_408_that_says_timed_out_after_a_short_wait_is_the_clients():
    """The wait decides before the words do."""
    assert judged(408, "Request timed out.", waited=0.1) is OutcomeClass.CLIENT_ABORT


def test_499_is_an_abort():
    """As nginx logs it, with and without a duration."""
    assert judged(499, waited=50.0) is OutcomeClass.CLIENT_ABORT
    assert judged(499) is OutcomeClass.CLIENT_ABORT


def test_503_counts_half_when_an_upstream_gave_it():
    """A bare 503 of an engine is half a failure."""
    verdict = CLASSIFY(503, {}, "", Context(Fact.UPSTREAM))
    assert (verdict.outcome, verdict.weight) == (OutcomeClass.ENGINE_FAULT, 0.5)


def test_503_without_upstream_is_the_gateways():
    """Nobody was asked, so nobody failed."""
    assert judged(503, facts=Fact.NO_UPSTREAM) is OutcomeClass.GATEWAY_FAULT


def test_503_of_which_nothing_is_known_counts_half():
    """Neither body nor header: the way a dead engine answers."""
    verdict = CLASSIFY(503, {}, "")
    assert (verdict.outcome, verdict.weight) == (OutcomeClass.ENGINE_FAULT, 0.5)


def test_no_answer_at_all_is_a_fault():
    """Status 0, unless nobody was asked."""
    assert judged(0) is OutcomeClass.ENGINE_FAULT
    assert judged(0, facts=Fact.NO_UPSTREAM) is OutcomeClass.GATEWAY_FAULT


def test_stream_error_is_a_fault_under_200():
    """The gateway saw an error event and kept none of it."""
    assert judged(200, facts=Fact.STREAM_ERROR | Fact.FIRST_TOKEN) is OutcomeClass.ENGINE_FAULT


def test_stream_without_token_is_a_fault():
    """A 200 that ends without having said anything."""
    assert judged(200, facts=Fact.NO_TOKEN) is OutcomeClass.ENGINE_FAULT


def test_400_without_anything_is_not_held_against_the_engine_unseen():
    """Only an answer that is known to be empty is Triton's readiness."""
    assert judged(400) is OutcomeClass.CLIENT_ERROR
    assert judged(400, facts=Fact.ANSWERED) is OutcomeClass.LOADING


@pytest.mark.parametrize("status", [100, 101, 200, 206, 304, 307, 402, 418, 451, 505, 599])
def test_every_status_has_a_class(status):
    """No status is left to the last resort."""
    assert CLASSIFY(status, {}, "").reason != "no_rule"


def test_own_rules_come_first():
    """An operator's rule wins over the built-in ones, and its name is the reason."""
    own = Rule("mine", OutcomeClass.ENGINE_SATURATED, codes(503))
    verdict = Classifier([own])(503, {}, "no healthy upstream")
    assert (verdict.outcome, verdict.reason) == (OutcomeClass.ENGINE_SATURATED, "mine")


def test_verdict_on_a_plain_answer_is_remembered_apart_for_each_context():
    """A remembered verdict is never that of another context."""
    classify = Classifier()
    for _ in range(2):
        assert classify(408, {}, "", Context(waited=9.0)).outcome is OutcomeClass.ENGINE_FAULT
        assert classify(408, {}, "", Context(waited=0.1)).outcome is OutcomeClass.CLIENT_ABORT
        assert classify(408, {}, "", Context(Fact.NO_UPSTREAM, waited=9.0)).reason == "slow_client"
