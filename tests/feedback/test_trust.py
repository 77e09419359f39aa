"""Who may give feedback."""

import pytest
from structlog.testing import capture_logs

from scorer.feedback.trust import NO_TOKEN, STRANGER, Trust, is_near


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    "peer",
    ["127.0.0.1", "127.8.9.1", "10.1.2.3", "172.31.0.1", "192.168.1.1", "169.254.1.1", "::1",
     "fd00::2", "fe80::1%eth0", "::ffff:10.0.0.1"],
)  # fmt: skip
def test_near_addresses(peer):
    """Loopback, private and link-local, in both families."""
    assert is_near(peer)


@pytest.mark.parametrize(
    "peer", ["8.8.8.8", "172.32.0.1", "100.64.0.1", "2001:db8::1", "::ffff:8.8.8.8", "", "x"]
)
def test_far_addresses(peer):
    """Everything else, and what is no address."""
    assert not is_near(peer)


def test_without_token_nearness_decides():
    """A local socket has no address and is near."""
    trust = Trust("", Clock())
    assert trust.refusal("10.0.0.1", "") is None
    assert trust.refusal(None, "") is None
    assert trust.refusal("8.8.8.8", "anything") is STRANGER


def test_with_token_only_the_token_decides(tmp_path):
    """Wherever the sender is."""
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    trust = Trust(str(path), Clock())
    assert trust.refusal("8.8.8.8", "s3cret") is None
    assert trust.refusal("127.0.0.1", "") is NO_TOKEN
    assert trust.refusal("127.0.0.1", "s3cret2") is NO_TOKEN
    assert trust.refusal("127.0.0.1", "ünknown") is NO_TOKEN


def test_changed_token_is_read_again(tmp_path):
    """Within a second, by a replaced file as by a rewritten one."""
    path, clock = tmp_path / "token", Clock()
    path.write_text("old")
    trust = Trust(str(path), clock)
    assert trust.refusal(None, "old") is None
    (tmp_path / "next").write_text("new!")
    (tmp_path / "next").replace(path)
    assert trust.refusal(None, "new!") is NO_TOKEN
    clock.now = 1.0
    assert trust.refusal(None, "new!") is None
    assert trust.refusal(None, "old") is NO_TOKEN


@pytest.mark.parametrize("content", [None, b"", b" \n"])
def test_without_a_token_to_compare_nobody_is_trusted(tmp_path, content):
    """A file that is missing or empty; said once, not for every request."""
    path, clock = tmp_path / "token", Clock()
    if content is not None:
        path.write_bytes(content)
    trust = Trust(str(path), clock)
    with capture_logs() as logs:
        for clock.now in range(5):
            assert trust.refusal("127.0.0.1", "") is NO_TOKEN
    assert [line["event"] for line in logs] == ["No feedback token: all feedback is refused"]
