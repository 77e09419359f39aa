"""Names are resolved without waiting longer than a fetch may take."""

import socket
import threading
import time
from collections.abc import Callable

import pytest

from scorer.sources.names import AT_ONCE, FRESH, STALE, Names

PATIENCE = 20.0
"""Seconds within which a thread has done its work, on any machine."""


class Resolver:
    """A resolver that answers, fails or hangs, as it is told."""

    def __init__(self) -> None:
        self.answer: list[str] | OSError = ["10.0.0.1"]
        self.asked: list[str] = []
        self.hangs = threading.Event()
        self.hangs.set()
        self.now = 1000.0

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        assert self.hangs.wait(20)
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer


@pytest.fixture
def resolver():
    """Return a resolver; whoever waits for it is let go at the end."""
    made = Resolver()
    yield made
    made.hangs.set()


def names_of(resolver: Resolver) -> Names:
    return Names(resolver, lambda: resolver.now)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("host", ["10.0.0.7", "::1", "[::1]", "fe80::1%lo"])
def test_an_address_is_not_looked_up(resolver, host):
    """It costs no thread and no question."""
    assert names_of(resolver).addresses(host, PATIENCE) == [host.strip("[]")]
    assert resolver.asked == []


def test_an_answer_is_fresh_for_a_while(resolver):
    """Within ten seconds the resolver is asked once, after that again."""
    names = names_of(resolver)
    for _ in range(3):
        assert names.addresses("engine", PATIENCE) == ["10.0.0.1"]
    assert resolver.asked == ["engine"]
    resolver.now += FRESH + 0.1
    resolver.answer = ["10.0.0.2"]
    assert names.addresses("engine", PATIENCE) == ["10.0.0.2"]


def test_silence_of_the_resolver_ends_at_the_deadline(resolver):
    """A name that was never resolved fails when the time is up, and says what failed."""
    resolver.hangs.clear()
    with pytest.raises(socket.gaierror, match="does not answer in time"):
        names_of(resolver).addresses("engine", 0.05)


def test_silence_of_the_resolver_leaves_the_last_answer(resolver):
    """It is good for ten minutes, and no longer."""
    names = names_of(resolver)
    names.addresses("engine", PATIENCE)
    resolver.hangs.clear()
    resolver.now += STALE - 1.0
    assert names.addresses("engine", 0.05) == ["10.0.0.1"]
    resolver.now += 2.0
    with pytest.raises(socket.gaierror):
        names.addresses("engine", 0.05)


def test_a_resolver_that_cannot_tell_leaves_the_last_answer(resolver):
    """A temporary failure is no news of the name."""
    names = names_of(resolver)
    names.addresses("engine", PATIENCE)
    resolver.now += FRESH + 0.1
    resolver.answer = socket.gaierror(socket.EAI_AGAIN, "try again")
    assert names.addresses("engine", PATIENCE) == ["10.0.0.1"]


def test_a_name_that_is_gone_is_gone_at_once(resolver):
    """No such name: the last answer is not used, whether now or later."""
    names = names_of(resolver)
    names.addresses("engine", PATIENCE)
    resolver.now += FRESH + 0.1
    resolver.answer = socket.gaierror(socket.EAI_NONAME, "no such name")
    for _ in range(2):
        with pytest.raises(socket.gaierror, match="no such name"):
            names.addresses("engine", PATIENCE)


def test_look_ups_that_hang_are_one_per_name_and_bounded(resolver):
    """Three hundred names, asked for twice, take at most so many threads, and no slot is lost."""
    names = names_of(resolver)
    resolver.hangs.clear()
    before = threading.active_count()
    for _ in range(2):
        for number in range(AT_ONCE + 50):
            with pytest.raises(socket.gaierror):
                names.addresses(f"engine-{number}", 0.001)
    assert threading.active_count() <= before + AT_ONCE
    until(lambda: len(resolver.asked) == AT_ONCE)
    assert len(set(resolver.asked)) == AT_ONCE
    resolver.hangs.set()
    until(lambda: threading.active_count() <= before)
    assert names.addresses(f"engine-{AT_ONCE + 49}", PATIENCE) == ["10.0.0.1"]


def test_a_strange_name_is_no_host_name():
    """One that cannot be written in DNS fails as one that does not exist."""
    with pytest.raises(socket.gaierror):
        Names().addresses("a" * 70 + ".test", PATIENCE)
