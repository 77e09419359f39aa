"""The feedback section: its defaults, and what an operator's rules match."""

import pytest

from scorer.config import parse_config
from scorer.core.classify import Classifier
from scorer.core.outcome import OutcomeClass

POOLS = "pools: [{name: chat, static_configs: [{targets: ['10.0.0.1:8000']}]}]"


def section(text):
    """Return the feedback section of a configuration, whose file is in /etc/scorer."""
    return parse_config(f"feedback: {text}\n{POOLS}", "/etc/scorer").feedback


def judged(rule, status, headers=None, body=""):
    """Return whether an operator's ``rule`` decides about an answer."""
    own = section(f"{{rules: [{{match: {rule}, class: loading}}]}}").own_rules()
    return Classifier(own)(status, headers or {}, body).reason == "feedback.rules[0]"


def test_defaults():
    """No UDP, no token, no rules."""
    config = parse_config(POOLS).feedback
    assert (config.udp.listen, config.token_file, config.own_rules()) == ("", "", ())


def test_empty_values_are_the_defaults():
    """As the documentation shows them."""
    config = section("{udp: {listen: ''}, token_file: '', rules: []}")
    assert (config.udp.listen, config.token_file) == ("", "")


def test_token_file_is_beside_the_configuration():
    """A relative path is relative to its folder."""
    assert section("{token_file: token}").token_file == "/etc/scorer/token"
    assert section("{token_file: /run/token}").token_file == "/run/token"


@pytest.mark.parametrize(
    ("rule", "status", "matches"),
    [
        ("{status: 503}", 503, True),
        ("{status: 503}", 500, False),
        ("{status: 5xx}", 599, True),
        ("{status: [429, 5xx, 0]}", 0, True),
        ("{status: [429, 5xx, 0]}", 404, False),
    ],
)
def test_statuses(rule, status, matches):
    """A number, a class, or a list of both."""
    assert judged(rule, status) == matches


@pytest.mark.parametrize(
    ("rule", "headers", "matches"),
    [
        ("{header: X-Edge-Shed}", {"x-edge-shed": "1"}, True),
        ("{header: X-Edge-Shed}", {"x-edge": "x-edge-shed"}, False),
        ("{header: 'X-Edge: Shed (all)'}", {"X-Edge": "the shed (ALL) of it"}, True),
        ("{header: 'X-Edge: shed'}", {"x-edge": "open"}, False),
        ("{header: 'X-Edge: shed'}", {"y-x-edge": "shed"}, False),
    ],
)
def test_headers(rule, headers, matches):
    """Present, or with a text in its value; case does not matter."""
    assert judged(rule, 503, headers) == matches


@pytest.mark.parametrize(
    ("body", "matches"),
    [
        ('{"code": "EDGE-17"}', True),
        ("Edge-17", True),
        (r'{"m": "{\"code\": \"edge-17\"}"}', True),
        ("edge 17", False),
        ("", False),
    ],
)
def test_bodies(body, matches):
    """Anywhere in the decoded text, whatever its case and nesting."""
    assert judged("{body_regex: 'edge-[0-9]+'}", 503, body=body) == matches


def test_body_may_be_matched_as_it_came():
    """With its quotes and braces."""
    assert judged("""{body_regex: '"code": ?"edge'}""", 503, body='{"code": "edge"}')


def test_all_conditions_must_hold():
    """Status, header and body."""
    rule = "{status: 200, header: x-edge, body_regex: shed}"
    assert judged(rule, 200, {"x-edge": "1"}, "shed")
    assert not judged(rule, 200, {"x-edge": "1"}, "open")
    assert not judged(rule, 200, {}, "shed")
    assert not judged(rule, 201, {"x-edge": "1"}, "shed")


def test_first_rule_wins():
    """They are tried in the order of the file."""
    text = "{match: {status: 503}, class: loading}, {match: {status: 5xx}, class: success}"
    classify = Classifier(section(f"{{rules: [{text}]}}").own_rules())
    assert classify(503, {}, "").outcome is OutcomeClass.LOADING
    assert classify(500, {}, "").outcome is OutcomeClass.SUCCESS


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("{udp: {listen: '0.0.0.0:9809'}}", True),
        ("{udp: {listen: '[fd00::1]:9809'}}", True),
        ("{udp: {listen: '0.0.0.0:9809'}, token_file: token}", False),
        ("{udp: {listen: '127.0.0.1:9809'}}", False),
        ("{udp: {listen: ':9809'}}", False),
        ("{}", False),
    ],
)
def test_open_udp_listener_is_warned_about(text, warned):
    """A source address is easily forged, so only a token helps beyond loopback."""
    config = parse_config(f"feedback: {text}\n{POOLS}")
    assert any("feedback.udp.listen" in line for line in config.warnings()) == warned
