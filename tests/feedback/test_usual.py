"""A usual report is read in a shorter way, and means what it would in the general one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.outcome import OutcomeClass
from scorer.feedback.usual import usual_end, usual_record
from tests.feedback.world import A, B, World

SECONDS = (
    None,
    0,
    0.0,
    -0.0,
    0.0004,
    0.3,
    2,
    7.5,
    86_400.0,
    1e9,
    -1.0,
    float("nan"),
    "0.3",
    "-",
    [],
)
FIELDS = {
    "pick_id": st.sampled_from(["p1", "p1", "p1", "p2", "gone", "", "-", None, 1]),
    "status": st.sampled_from(
        [200, 200, 200, 204, 302, 404, 429, 500, 0, 200.0, True, "200", None]
    ),
    "target": st.sampled_from([A, A, B, f" {A} ", "10.0.0.9:1", "", "-", None, 7]),
    "pool": st.sampled_from(["chat", "chat", "code", "none", "", None, []]),
    "ttft_seconds": st.sampled_from(SECONDS),
    "duration_seconds": st.sampled_from(SECONDS),
    "prompt_tokens": st.sampled_from([None, 0, 1, 5_000, 10**12, -1, 3.0, "12", True]),
    "stream": st.sampled_from([None, True, False, 1, 0, "true", "-", {}]),
    "event": st.sampled_from(["done", "first_token", None]),
    "headers": st.sampled_from([{}, None, {"retry-after": "3"}]),
}
ANY = st.fixed_dictionaries(
    {name: FIELDS[name] for name in ("pick_id", "status")},
    optional={name: values for name, values in FIELDS.items() if name not in ("pick_id", "status")},
)
LINE = {
    "pick_id": "p1", "target": A, "status": "200", "gateway_status": "200",
    "duration_seconds": "2.500", "headers": {"retry-after": ""},
}  # fmt: skip
LOGGED = {
    "pick_id": ["p2", "gone", "", "-", None, 1],
    "target": [B, f"{A}, {B}", f" {A} ", "engines", "", "-", None, 7],
    "status": ["204", "302", "503", "200, 200", "-", 200, None],
    "gateway_status": ["204", "499", "-", "", 200, None],
    "duration_seconds": ["0.001", "9999.999", "99999.999", "1", ".5", "-", "", "x", 0.5, None],
    "headers": [{"retry-after": "3"}, {}, None, "x"],
    "pool": ["chat", "code", "none", ""],
}
CHANGES = [(name, value) for name, values in LOGGED.items() for value in values]
ANY_LOGGED = st.lists(st.sampled_from(CHANGES), max_size=2).map(
    lambda changes: {**LINE, **dict(changes)}
)


def story(reports, extra, *, first_token, logged=False):
    """Return what came of ``reports``, each of them with the ``extra`` fields."""
    world = World("{rules: [{match: {status: [204]}, class: client_error}]}")
    world.pick("p1", A, tokens=500)
    world.pick("p2", B, "code", tokens=4_000)
    if first_token:
        world.inflight.first_token("p1", world.now + 1.0)
    came = []
    for number, raw in enumerate(reports):
        world.now += number
        came.append(world.take({**raw, **extra}, logged=logged))
    loads = [
        (load.rate, load.work, load.pending, load.in_flight, load.end, load.extra, load.held)
        for pool, name in (("chat", A), ("chat", B), ("code", B))
        for load in [world.inflight.load(pool, name)]
    ]
    counts = [world.stats.outcomes("chat", A), world.stats.outcomes("code", B)]
    left = [world.inflight.find(pick_id) for pick_id in ("p1", "p2")]
    told = [world.outcomes("chat"), world.outcomes("code")]
    return came, told, loads, counts, left, world.stats.rejected()


@given(reports=st.lists(ANY, min_size=1, max_size=3), first_token=st.booleans())
def test_both_ways_say_the_same(reports, first_token):
    """A field that nobody knows changes nothing, and no report with one is usual."""
    unknown = {"request_id": "x"}
    assert usual_end({**reports[0], **unknown}) is None
    usual = story(reports, {}, first_token=first_token)
    assert repr(usual) == repr(story(reports, unknown, first_token=first_token))


def test_usual_report_takes_the_short_way(monkeypatch):
    """What a gateway sends of a good stream is not read by the general way."""
    world = World()
    world.pick("p1", A)
    monkeypatch.setattr("scorer.feedback.read_item", None)
    taken = world.take(
        pick_id="p1", target=A, pool="chat", status=200, stream=True, ttft_seconds=0.3,
        duration_seconds=2.5, prompt_tokens=700,
    )  # fmt: skip
    [(target, outcome)] = world.outcomes()
    assert [each.outcome for each in taken.told] == [OutcomeClass.SUCCESS]
    assert (target, outcome.ttft, outcome.duration, outcome.prompt_tokens) == (A, 0.3, 2.5, 700)
    assert world.inflight.find("p1") is None


def told_alike(records, *, first_token):
    """Return whether both ways say the same of log lines."""
    unknown = {"request_id": "x"}
    assert usual_record({**records[0], **unknown}) is None
    usual = story(records, {}, first_token=first_token, logged=True)
    return repr(usual) == repr(story(records, unknown, first_token=first_token, logged=True))


@pytest.mark.parametrize("change", CHANGES, ids=repr)
def test_both_ways_say_the_same_of_a_log_line_with_one_change(change):
    """Of the usual line with one other value; what a log line says is text."""
    assert told_alike([{**LINE, **dict([change])}], first_token=False)


@given(records=st.lists(ANY_LOGGED, min_size=1, max_size=3), first_token=st.booleans())
def test_both_ways_say_the_same_of_log_lines(records, first_token):
    """Of several, with several changes."""
    assert told_alike(records, first_token=first_token)


def test_usual_log_line_takes_the_short_way(monkeypatch):
    """What nginx logs of a request that ended well is not read by the general way."""
    world = World()
    world.pick("p1", A)
    monkeypatch.setattr("scorer.feedback.read_item", None)
    taken = world.take(LINE, logged=True)
    [(target, outcome)] = world.outcomes()
    assert [each.outcome for each in taken.told] == [OutcomeClass.SUCCESS]
    assert (target, outcome.ttft, outcome.prompt_tokens) == (A, None, 500)
    assert world.inflight.find("p1") is None
