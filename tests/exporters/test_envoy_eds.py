"""What Envoy is told of a pool's targets, and which requests are refused."""

import dataclasses
import json

import pytest
from structlog.testing import capture_logs

from exporters.envoy_eds import TYPE_URL, Discovery
from scorer.core.vocabulary import State
from scorer.http.app import create_flask
from scorer.output_stats import Output, OutputStats
from tests.http.builders import pool, ports, snapshot, target, unreachable, unscored

URL = "/v3/discovery:endpoints"


def discovery(*pools, ready=None, enabled=True):
    """Return the exporter of ``pools``."""
    return Discovery(lambda: snapshot(*pools), lambda: ready, lambda: enabled)


def ask(eds, **fields):
    """Return the answer to a request for pool ``chat``; ``fields`` are added or replaced."""
    return eds(json.dumps({"resource_names": ["chat"], **fields}).encode())


def endpoints(eds, name="chat"):
    """Return the endpoints of a pool by ``address port``."""
    (told,) = json.loads(ask(eds, resource_names=[name]).body)["resources"]
    assert (told["@type"], told["cluster_name"]) == (TYPE_URL, name)
    (group,) = told["endpoints"]
    found = {}
    for each in group["lb_endpoints"]:
        where = each["endpoint"]["address"]["socket_address"]
        found[where["address"], where["port_value"]] = (
            each["health_status"], each["load_balancing_weight"],
        )  # fmt: skip
    return found


def test_targets_are_endpoints():
    """With the weight in percent, and the health of their state; never a weight of 0."""
    cooling = target("10.0.0.2:8000", weight=0.3, state=State.COOLDOWN)
    leaving = target("10.0.0.3:8000", weight=0.0, state=State.DRAINING, eligible=False)
    frozen = target("10.0.0.4:8000", weight=0.0, state=State.DEGRADED, eligible=False,
                    probe_only=True)  # fmt: skip
    eds = discovery(pool(target(), cooling, leaving, frozen, unreachable(), unscored()))
    assert endpoints(eds) == {
        ("10.0.0.7", 8000): ("HEALTHY", 88),
        ("10.0.0.2", 8000): ("HEALTHY", 30),
        ("10.0.0.3", 8000): ("DRAINING", 1),
        ("10.0.0.4", 8000): ("HEALTHY", 1),
        ("10.0.0.9", 8000): ("UNHEALTHY", 1),
        ("10.0.0.8", 8000): ("UNKNOWN", 100),
    }


def test_ipv6_address_has_no_brackets():
    """Envoy takes a bare address."""
    assert endpoints(discovery(pool(target("[fd00::7]:8000")))) == {
        ("fd00::7", 8000): ("HEALTHY", 88)
    }


def test_pool_without_targets_is_an_empty_list():
    """Nobody left is told as such, so that Envoy stops sending."""
    assert endpoints(discovery(pool())) == {}


def test_what_envoy_cannot_take_is_left_out_and_named_once():
    """Host names and targets with a path; the log names them once for each change."""
    views = target(), target("gpu-1:8000"), target("10.0.0.8:8000/replica-2")
    with capture_logs() as log:
        eds = discovery(pool(*views))
        assert [endpoints(eds), endpoints(eds)] == [{("10.0.0.7", 8000): ("HEALTHY", 88)}] * 2
    assert [each["targets"] for each in log] == ["gpu-1:8000, 10.0.0.8:8000/replica-2"]


def test_pool_of_host_names_is_refused():
    """Rather than told as empty, which would take Envoy's cluster away."""
    reply = ask(discovery(pool(target("gpu-1:8000"))))
    assert reply == (422, "pool chat: no target has an IP address and no path.")


def test_version_changes_with_the_content_alone():
    """So that an Envoy that has it gets 304, and replicas agree."""
    eds = discovery(pool(target(score=87.5)))
    answer = json.loads(ask(eds).body)
    assert answer["type_url"] == TYPE_URL
    assert answer["nonce"] == answer["version_info"] != ""
    assert ask(eds, version_info=answer["version_info"]) == (304, "")
    same = discovery(pool(dataclasses.replace(target(), score=87.4, weight=0.8749)))
    assert json.loads(ask(same).body)["version_info"] != answer["version_info"]  # 87, not 88
    again = discovery(pool(dataclasses.replace(target(), score=87.6, weight=0.876)))
    assert ask(again, version_info=answer["version_info"]).status == 304


def test_several_pools_in_one_answer():
    """In the order asked for; a name given twice is told once."""
    eds = discovery(pool(target()), pool(target(pool="code"), name="code"))
    told = json.loads(ask(eds, resource_names=["code", "chat", "code"]).body)["resources"]
    assert [each["cluster_name"] for each in told] == ["code", "chat"]


def test_request_of_protobuf_json_is_understood():
    """Names in either way, and null for what is not set."""
    body = {"resourceNames": ["chat"], "versionInfo": "", "typeUrl": TYPE_URL, "node": None}
    assert discovery(pool(target()))(json.dumps(body).encode()).status == 200


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body must be a DiscoveryRequest in JSON"),
        (b"\xff\xfe", "the body must be a DiscoveryRequest in JSON"),
        (b"[" * 100_000, "the body must be a DiscoveryRequest in JSON"),
        (b"[1]", 'the body: must be a DiscoveryRequest in JSON, got "[1]"'),
        (b"{}", "resource_names: must name at least one pool"),
        (b'{"resource_names":[]}', "resource_names: must name at least one pool"),
        (b'{"resource_names":"chat"}', 'resource_names: must be a list of strings, got "chat"'),
        (b'{"resource_names":[1]}', 'resource_names: must be a list of strings, got "[1]"'),
        (b'{"resource_names":["chat"],"resourceNames":["chat"]}',
         "resource_names: must be given once"),
        (b'{"resource_names":["chat"],"type_url":"x"}',
         f'type_url: must be {TYPE_URL}, got "x"'),
        (b'{"resource_names":["chat"],"version_info":7}',
         'version_info: must be a string, got "7"'),
        (b'{"resource_names":["chat"],"node":[]}', 'node: must be an object, got "[]"'),
    ],
    ids=["empty", "bytes", "deep", "list", "no names", "none", "text", "number", "twice", "type",
         "version", "node"],
)  # fmt: skip
def test_malformed_request_is_refused(body, message):
    """With field, rule and value."""
    assert discovery(pool(target()))(body) == (400, message)


def test_unknown_pool_is_not_found():
    """Envoy keeps what it had, and says so in its update failures."""
    reply = ask(discovery(pool(target())), resource_names=["chat", "chta"])
    assert reply == (404, 'resource_names: must name pools, got "chta"')


def test_not_ready_is_no_answer():
    """What is not found yet is not gone: a restarted daemon takes no endpoint away."""
    eds = discovery(pool(), ready="pool chat waits for the first answer of file_sd.")
    assert ask(eds) == (503, "pool chat waits for the first answer of file_sd.")


def test_off_unless_configured():
    """The answer names the key."""
    reply = ask(discovery(pool(target()), enabled=False))
    assert reply == (403, "exporters.envoy_eds.enabled is false in the configuration.")


def test_refusal_by_envoy_is_logged_once():
    """However often Envoy repeats it."""
    eds = discovery(pool(target()))
    with capture_logs() as log:
        for _ in range(3):
            assert ask(eds, error_detail={"code": 13, "message": "malformed"}).status == 200
    assert [each["error"] for each in log] == ["malformed"]


def post(body=b'{"resource_names":["chat"]}', outputs=None, **kwargs):
    """Return the answer of the HTTP interface to a POST."""
    eds = discovery(pool(target()))
    counted = outputs or OutputStats()
    client = create_flask(ports(pool(target()), envoy_eds=eds, outputs=counted)).test_client()
    return client.post(URL, data=body, **{"content_type": "application/json", **kwargs})


def test_answer_over_http():
    """JSON for an answer, nothing for 304, a sentence for a refusal."""
    answer = post()
    assert (answer.status_code, answer.content_type) == (200, "application/json")
    known = json.dumps({"resource_names": ["chat"], "version_info": answer.json["version_info"]})
    assert (post(known).status_code, post(known).data) == (304, b"")
    refused = post(b"{}")
    assert (refused.status_code, refused.mimetype) == (400, "text/plain")
    assert refused.data == b"resource_names: must name at least one pool\n"


def test_answers_are_counted():
    """One that nothing has changed is one; a refusal is none."""
    outputs = OutputStats()
    version = post(outputs=outputs).json["version_info"]
    known = json.dumps({"resource_names": ["chat"], "version_info": version}).encode()
    for body in (known, b"{}"):
        post(body, outputs)
    assert outputs.read()[Output.ENVOY_EDS] == 2


def test_other_content_and_methods_are_refused():
    """415 names the type that came, 405 the method that is allowed."""
    assert (
        post(content_type="text/plain").data
        == b"Content-Type: must be application/json, got text/plain\n"
    )
    got = create_flask(ports(pool(target()))).test_client().get(URL)
    assert got.status_code == 405
    assert "POST" in got.headers["Allow"]
