"""When ``feedback.lua`` sends what it has to tell: in batches, and nothing stays behind."""

import pytest

from scorer.feedback.usual import usual_end
from tests.integrations.envoy_worker import Worker
from tests.integrations.test_nginx_tokens import TOKENLESS, WITH_TOKEN

ROLE, TOKEN = TOKENLESS[0], WITH_TOKEN[0]
FLUSH_MS, FLUSH_SIZE = 20, 32


@pytest.fixture
def worker():
    return Worker()


def answered(worker, token=TOKEN):
    """Return a request whose first token came 7 ms after it was sent."""
    request = worker.request()
    worker.wait(7)
    request.answer()
    request.chunk(token)
    return request


def busy(worker):
    """Return a request that is under way where a batch has just been sent."""
    answered(worker).end()
    assert worker.sent()
    return worker.request()


def names(call):
    """Return whose reports a body has, and of what event."""
    return [(each["pick_id"], each.get("event", "done")) for each in call]


def test_lone_request_is_told_at_its_end(worker):
    """By one report, which the daemon reads the short way."""
    answered(worker).end()
    assert worker.sent()
    request = answered(worker)
    worker.wait(5)
    request.end()
    (report,) = worker.sent()
    assert report == {
        "status": 200,
        "pick_id": request.pick_id,
        "target": "10.0.0.1:8000",
        "stream": True,
        "ttft_seconds": 0.007,
        "duration_seconds": 0.012,
    }
    assert usual_end(report)


def test_reports_wait_for_what_is_under_way(worker):
    """Then they go together, in their order."""
    other = busy(worker)
    first, second = answered(worker), answered(worker)
    first.end()
    second.end()
    assert worker.sent() == []
    other.answer()
    other.chunk(TOKEN)
    other.end()
    (batch,) = worker.sent()
    assert names(batch) == [(each.pick_id, "done") for each in (first, second, other)]


def test_reports_go_with_the_first_event_after_a_while(worker):
    """Any piece of another's stream will do, and a stream's own too."""
    other = busy(worker)
    request = answered(worker)
    request.end()
    other.answer()
    worker.wait(FLUSH_MS)
    other.chunk(ROLE)
    assert [call["pick_id"] for call in worker.sent()] == [request.pick_id]


def test_reports_go_with_the_next_request(worker):
    """Which comes before those that are under way are heard of."""
    other = busy(worker)
    request = answered(worker)
    request.end()
    worker.wait(FLUSH_MS)
    worker.request()
    assert [call["pick_id"] for call in worker.sent()] == [request.pick_id] != [other.pick_id]


def test_full_batch_does_not_wait(worker):
    """As many as the daemon takes at once."""
    other = busy(worker)
    requests = [worker.request() for _ in range(FLUSH_SIZE)]
    for request in requests:
        assert worker.sent() == []
        request.answer()
        request.end()
    (batch,) = worker.sent()
    assert names(batch) == [(each.pick_id, "done") for each in requests]
    assert other.pick_id not in dict(names(batch))


def test_first_token_does_not_wait_for_the_end(worker):
    """It is told while the answer goes on, and once more with its end, which counts it once."""
    other = busy(worker)
    request = answered(worker)
    assert worker.sent() == []
    worker.wait(FLUSH_MS)
    request.chunk(TOKEN)
    other.answer()
    (first,) = worker.sent()
    assert (first["event"], first["ttft_seconds"]) == ("first_token", 0.007)
    worker.wait(FLUSH_MS)
    request.end()
    (last,) = worker.sent()
    assert last["ttft_seconds"] == 0.007
    assert usual_end(last)


def test_token_within_a_tick_of_the_clock_is_one(worker):
    """A time of zero would say that no token came."""
    request = worker.request()
    request.answer()
    request.chunk(TOKEN)
    request.end()
    assert all(report["ttft_seconds"] > 0 for report in worker.sent())


@pytest.mark.parametrize("answers", [False, True], ids=["before its answer", "in its answer"])
def test_dropped_request_holds_nothing_back(worker, answers):
    """Envoy says nothing of those that clients left, but lets go of them."""
    other = busy(worker)
    if answers:
        other.answer()
        other.chunk(ROLE)
    del other
    worker.collect()
    request = answered(worker)
    request.end()
    assert [call["pick_id"] for call in worker.sent()] == [request.pick_id]


def test_request_without_a_pick_is_told_by_its_target(worker):
    """The daemon was late, and Envoy chose by itself."""
    request = worker.request("")
    request.answer()
    request.end()
    (report,) = worker.sent()
    assert report["target"] == "10.0.0.1:8000"
    assert "pick_id" not in report


def test_attempt_without_an_answer_is_told_by_the_next(worker):
    """At once, since that may end like it."""
    answered(worker).end()
    assert worker.sent()
    first = worker.request()
    second = worker.request(first.pick_id, attempt=2)
    (report,) = worker.sent()
    assert report == {"status": 0, "pick_id": second.pick_id, "target": "10.0.0.1:8000"}


def test_answer_to_head_is_no_stream_without_a_token(worker):
    """It has the head of a stream, and no body by rule."""
    request = worker.request(method="HEAD")
    request.answer()
    request.end()
    (report,) = worker.sent()
    assert (report["stream"], "ttft_seconds" in report) == (False, False)


@pytest.mark.parametrize("frame", TOKENLESS)
def test_frames_without_a_token_are_skipped(worker, frame):
    """Whole, and byte by byte."""
    whole, cut = worker.request(), worker.request()
    for request, pieces in ((whole, [frame]), (cut, frame)):
        request.answer()
        for piece in pieces:
            request.chunk(piece)
        request.end()
    reports = [each for call in worker.sent() for each in (call if type(call) is list else [call])]
    assert [each["ttft_seconds"] for each in reports] == [None, None]


@pytest.mark.parametrize("frame", WITH_TOKEN)
@pytest.mark.parametrize("place", [1, 10, -3])
def test_token_is_seen_wherever_its_frame_is_cut(worker, frame, place):
    """After frames without one."""
    request = worker.request()
    request.answer()
    for piece in ("".join(TOKENLESS), frame[:place], frame[place:]):
        worker.wait(1)
        request.chunk(piece)
    request.end()
    assert worker.sent()[-1]["ttft_seconds"] == 0.003
