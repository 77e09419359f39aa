"""Envoy with endpoints, health and weights from the daemon, and no pick."""

import pytest

from tests.integrations.chance import order
from tests.integrations.engines import SATURATED, Behaviour, chat
from tests.integrations.envoy_stack import Stack, quiet, until
from tests.integrations.load import Load, request

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    stack = Stack(tmp_path_factory.mktemp("eds"), "eds.yaml")
    yield stack
    stack.stop()


@pytest.fixture
def stack(running):
    """Return the stack, with all engines in good health, and Envoy knowing it."""
    running.settle()
    until(lambda: weights(running) == {each.target: "100" for each in running.engines}, 20)
    return running


def weights(stack):
    """Return the weight of each endpoint as Envoy has it."""
    return {name: each["weight"] for name, each in stack.envoy.endpoints().items()}


def send(stack, count):
    """Send short requests one after the other; all succeed."""
    assert [request(stack.envoy.address, chat())[0] for _ in range(count)] == [200] * count


def test_weight_follows_the_score(stack):
    """A target in cooldown has half its weight, and gets about a fifth of three."""
    cooled = stack.engines[2]
    order(stack.daemon, "cooldown", cooled.target, duration="1m")
    until(lambda: weights(stack)[cooled.target] == "50")
    stack.reset()
    send(stack, 200)
    assert 15 < len(cooled.seen) < 65
    assert sum(stack.served().values()) == 200


def test_drained_target_gets_nothing(stack):
    """As soon as Envoy has asked; the others share."""
    drained = stack.engines[0]
    order(stack.daemon, "drain", drained.target, duration="1m")
    try:
        until(lambda: stack.envoy.endpoints()[drained.target]["health_flags"] != "healthy")
        stack.reset()
        send(stack, 40)
        assert not drained.seen
        assert all(each.seen for each in stack.engines[1:])
    finally:
        order(stack.daemon, "undrain", drained.target)


def test_refusal_is_retried_elsewhere(stack):
    """Without anybody to ask, Envoy at least does not try the same target again."""
    stack.engines[0].does = Behaviour(refusal=SATURATED)
    send(stack, 60)
    assert stack.engines[0].seen


def test_targets_come_and_go_under_load(stack):
    """No request fails, and one that left gets nothing more."""
    with Load(stack.envoy.address) as load:
        stack.list_targets([*stack.engines[1:], stack.spare])
        until(lambda: stack.spare.seen)
        gone = stack.engines[0]
        until(lambda: gone.target not in stack.envoy.endpoints())
        until(lambda: quiet(gone))
    assert load.failed() == []


def test_daemon_killed_leaves_the_endpoints(stack):
    """Envoy keeps what it had, and a restarted daemon takes none of it away."""
    with Load(stack.envoy.address) as load:
        stack.kill_daemon()
        known = stack.envoy.endpoints()
        assert set(known) == {each.target for each in stack.engines}
        failures = "cluster.chat.update_failure"
        count = stack.envoy.stat(failures)
        until(lambda: stack.envoy.stat(failures) > count)
        assert stack.envoy.endpoints() == known
        stack.start_daemon()
        count = stack.envoy.stat("cluster.chat.update_attempt")
        until(lambda: stack.envoy.stat("cluster.chat.update_attempt") > count + 2)
    assert load.failed() == []
    assert set(stack.envoy.endpoints()) == set(known)
    assert stack.envoy.stat("cluster.chat.update_rejected") == 0


def test_unchanged_endpoints_are_not_sent_again(stack):
    """304, which Envoy takes for what it is: neither an update nor a failure."""
    names = [f"cluster.chat.update_{what}" for what in ("success", "failure", "attempt")]
    before = [stack.envoy.stat(name) for name in names]
    until(lambda: stack.envoy.stat(names[2]) > before[2] + 2)
    assert [stack.envoy.stat(name) for name in names[:2]] == before[:2]
