"""Who may give feedback, and who may give orders."""

import pytest
from structlog.testing import capture_logs

from scorer.feedback.trust import ORDERS, Distrust, Trust, bearer, is_loopback, is_near

NO_TOKEN = Distrust("the token of feedback.token_file is required", token_helps=True)
STRANGER = Distrust(
    "without feedback.token_file, feedback is taken from loopback and private addresses only",
    token_helps=False,
)


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
    assert trust.refusal("8.8.8.8", "anything") == STRANGER


def test_with_token_only_the_token_decides(tmp_path):
    """Wherever the sender is."""
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    trust = Trust(str(path), Clock())
    assert trust.refusal("8.8.8.8", "s3cret") is None
    assert trust.refusal("127.0.0.1", "") == NO_TOKEN
    assert trust.refusal("127.0.0.1", "s3cret2") == NO_TOKEN
    assert trust.refusal("127.0.0.1", "ünknown") == NO_TOKEN


def test_changed_token_is_read_again(tmp_path):
    """Within a second, by a replaced file as by a rewritten one."""
    path, clock = tmp_path / "token", Clock()
    path.write_text("old")
    trust = Trust(str(path), clock)
    assert trust.refusal(None, "old") is None
    (tmp_path / "next").write_text("new!")
    (tmp_path / "next").replace(path)
    assert trust.refusal(None, "new!") == NO_TOKEN
    clock.now = 1.0
    assert trust.refusal(None, "new!") is None
    assert trust.refusal(None, "old") == NO_TOKEN


@pytest.mark.parametrize("content", [None, b"", b" \n"])
def test_without_a_token_to_compare_nobody_is_trusted(tmp_path, content):
    """A file that is missing or empty; said once, not for every request."""
    path, clock = tmp_path / "token", Clock()
    if content is not None:
        path.write_bytes(content)
    trust = Trust(str(path), clock)
    with capture_logs() as logs:
        for clock.now in range(5):
            assert trust.refusal("127.0.0.1", "") == NO_TOKEN
    assert [(line["event"], line["key"]) for line in logs] == [
        ("No token: everybody is refused", "feedback.token_file")
    ]


@pytest.mark.parametrize(
    ("peer", "here"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True),
     ("10.0.0.1", False), ("fe80::1%eth0", False), ("::ffff:10.0.0.1", False), ("x", False)],
)  # fmt: skip
def test_loopback_addresses(peer, here):
    """Only this machine's own, in both families and one in the other."""
    assert is_loopback(peer) == here


def refused(peer="127.0.0.1", token="", headers=(), path=""):
    """Return why an order is refused, "" when it is not."""
    distrust = Trust(str(path), Clock(), ORDERS).refusal(peer, token, headers)
    return distrust.message if distrust else ""


def test_orders_are_taken_from_this_machine_only():
    """A private address is not near enough to take targets out."""
    assert refused(headers=["Host", "Content-Type"]) == ""
    assert refused("10.0.0.1") == (
        "without web.admin_token_file, an order is taken from loopback addresses only"
    )


@pytest.mark.parametrize(
    "header", ["Origin", "origin", "Forwarded", "X-Forwarded-For", "x-forwarded-anything"]
)
def test_order_that_was_passed_on_is_refused(header):
    """From loopback it may be a page in a browser, or a proxy's client."""
    assert refused(headers=["Host", header]) == (
        f"without web.admin_token_file, an order with the header {header} is refused"
    )


def test_token_outweighs_where_an_order_comes_from(tmp_path):
    """Whoever knows it may be far away and behind a proxy; nearness does not replace it."""
    path = tmp_path / "token"
    path.write_text("s3cret")
    assert refused("8.8.8.8", "s3cret", ["Origin"], path) == ""
    assert refused(path=path) == "the token of web.admin_token_file is required"


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Basic abc", ""), ("abc", ""), ("", "")],
)
def test_bearer_token(header, token):
    """The scheme's case does not matter; another scheme is no token."""
    assert bearer(header) == token
