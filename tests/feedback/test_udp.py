"""The UDP listener, without a network."""

import json
import socket

import pytest
from structlog.testing import capture_logs

from scorer.feedback.stats import Rejection
from scorer.feedback.udp import FeedbackProtocol, bind_udp
from tests.feedback.world import A, World

PEER = ("127.0.0.1", 50_000)


def received(world, *lines, peer=PEER):
    """Let one datagram of ``lines`` arrive."""
    data = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    protocol = FeedbackProtocol(world.feedback, lambda: world.now)
    protocol.datagram_received(data.encode(), peer)
    return world


def test_record_is_an_outcome():
    """As if it had been posted; its target is known to have been asked."""
    world = received(World(), {"target": A, "status": "503"})
    [(_, outcome)] = world.outcomes()
    assert (outcome.outcome, outcome.reason) == ("engine_fault", "upstream_503")


def test_bad_line_does_not_spoil_the_next():
    """It is counted."""
    world = received(World(), "nonsense", {"target": A, "status": 200})
    assert len(world.outcomes()) == 1
    assert world.stats.rejected()[Rejection.MALFORMED] == 1


def test_attempts_at_known_targets_count_beside_others():
    """A proxy logs its upstream as the last attempt when it found no server alive: nginx does."""
    world = received(World(), {"target": f"{A}, engines", "status": "502, 502"})
    assert [(target, each.outcome) for target, each in world.outcomes()] == [(A, "engine_fault")]
    assert world.stats.rejected()[Rejection.UNKNOWN_TARGET] == 1


def test_strangers_are_not_believed():
    """Without a token, only near addresses are."""
    world = received(World(), {"target": A, "status": 200}, peer=("8.8.8.8", 1))
    assert world.outcomes() == []
    assert world.stats.rejected()[Rejection.UNAUTHORIZED] == 1


@pytest.mark.parametrize(("token", "believed"), [("s3cret", 1), ("no", 0), (None, 0), (5, 0)])
def test_token_is_a_field_of_the_record(tmp_path, token, believed):
    """A log line has no headers."""
    (tmp_path / "token").write_text("s3cret")
    world = World("{token_file: token}", str(tmp_path))
    received(world, {"target": A, "status": 200, "token": token})
    assert len(world.outcomes()) == believed


def test_fault_of_our_own_is_logged_once():
    """Nothing raises into the event loop."""
    world = World()
    world.registry._pools = None
    protocol = FeedbackProtocol(world.feedback, lambda: world.now)
    with capture_logs() as logs:
        for _ in range(3):
            protocol.datagram_received(b'{"target":"a:1","status":200}', PEER)
    assert [line["event"] for line in logs] == ["Feedback failed"]


def test_network_errors_are_only_noted():
    """An ICMP error of an earlier datagram says nothing."""
    FeedbackProtocol(World().feedback, lambda: 0.0).error_received(OSError("refused"))


def test_socket_without_host_is_on_loopback():
    """UDP has no business on other interfaces unless it is told so."""
    with bind_udp(":0") as sock:
        assert sock.getsockname()[0] == "127.0.0.1"
        assert sock.type & socket.SOCK_DGRAM


def test_address_in_use_is_an_error():
    """Whoever starts the daemon is told."""
    with bind_udp("127.0.0.1:0") as sock, pytest.raises(OSError, match="in use"):
        bind_udp(f"127.0.0.1:{sock.getsockname()[1]}")
