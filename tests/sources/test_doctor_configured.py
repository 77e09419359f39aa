"""The doctor with a configuration file: as the daemon would read, secrets unseen."""

import json

import pytest
from click.testing import CliRunner

from scorer.cli import main
from tests.sources.conftest import DATA, SECRET, http

PAGE = (DATA / "expositions" / "vllm" / "v1-latest.prom").read_bytes()
GATEWAY = (DATA / "expositions" / "gateways" / "nginx.prom").read_bytes()


def locked(conversation):
    """Answer with the page whoever shows the key, others with 401."""
    known = f"Authorization: Bearer {SECRET}".encode() in conversation.request
    conversation.sock.sendall(http(PAGE) if known else http(b"no", "401 Unauthorized"))


def pool(name: str, *targets: str, **keys: object) -> dict:
    """Return a pool of these targets."""
    return {"name": name, "static_configs": [{"targets": list(targets)}], **keys}


AUTHORIZATION = {"authorization": {"credentials_file": "token"}}


def test_pool_is_read_with_its_key_and_the_key_is_not_printed(serve, doctor):
    """What the daemon would send opens the page; no output has the secret in it."""
    server = serve(locked)
    target = f"127.0.0.1:{server.port}"
    for output in ("table", "json", "csv"):
        done = doctor({"pools": [pool("chat", target, **AUTHORIZATION)]}, "-o", output)
        assert done.exit_code == 0, done.output
        assert f"chat {target}" in done.output
        assert SECRET not in done.output


def test_pool_without_a_key_is_told_what_to_give(serve, doctor):
    """Status 401 is its own reason, with the keys that open."""
    done = doctor({"pools": [pool("chat", f"127.0.0.1:{serve(locked).port}")]})
    assert done.exit_code == 1
    assert "auth: status 401" in done.output
    assert "give the pool authorization or basic_auth" in done.output


def test_key_that_cannot_be_read_is_named_by_its_file(serve, doctor):
    """The file, not its content; nothing is sent without it."""
    server = serve(locked)
    authorization = {"credentials_file": "missing"}
    done = doctor(
        {"pools": [pool("chat", f"127.0.0.1:{server.port}", authorization=authorization)]}
    )
    assert done.exit_code == 1
    assert "auth: credentials_file" in done.output
    assert server.requests == []


def test_target_that_the_file_does_not_name_is_read_as_one_of_the_pool(serve, doctor):
    """Path, port of metrics, key, engine and mappings are the pool's."""
    server = serve(locked)
    settings = {"metrics_port": server.port, "metrics_path": "/page", **AUTHORIZATION}
    done = doctor({"pools": [pool("chat", "10.0.0.1:8000", **settings)]}, "127.0.0.1:8000")
    assert done.exit_code == 0, done.output
    assert server.requests[0].startswith(b"GET /page HTTP/1.1\r\n")


def test_mapping_of_the_users_own_is_used(serve, answer, doctor):
    """The doctor shows how the daemon will read an engine that only the file knows."""
    server = serve(answer(b"acme_busy 3\nacme_queue 2\n"))
    mapping = {
        "name": "acme",
        "detect": [{"family": "acme_busy"}],
        "signals": {
            "running": [{"family": "acme_busy", "aggregate": "sum"}],
            "waiting": [{"family": "acme_queue", "aggregate": "sum"}],
        },
    }
    document = {"mappings": [mapping], "pools": [pool("chat", f"127.0.0.1:{server.port}")]}
    found = json.loads(doctor(document, "-o", "json").output)
    assert (found["engine"], found["mapping"]) == ("other", "acme")
    assert (found["signals"]["running"], found["signals"]["waiting"]) == (3, 2)
    assert found["unavailable"]["kv_cache"] == "not_offered"


def test_timeouts_are_those_of_the_file(serve, doctor):
    """A target that is too slow for the daemon is too slow here."""
    server = serve(lambda conversation: conversation.hang())
    document = {
        "global": {"scrape_timeout": "200ms"},
        "pools": [pool("chat", f"127.0.0.1:{server.port}")],
    }
    assert "within 0.2s" in doctor(document).output
    assert "within 0.3s" in doctor(document, "--timeout", "300ms").output


def test_every_pool_and_gateway_is_looked_at(serve, answer, doctor):
    """Without a pool all of the file is, and the worst decides the exit code."""
    page, gateway = serve(answer(PAGE)), serve(answer(GATEWAY))
    target = f"127.0.0.1:{page.port}"
    document = {
        "pools": [pool("a", target), pool("b", target, engine="sglang")],
        "gateways": [{"name": "edge", "preset": "nginx", "metrics_url": gateway.url}],
    }
    done = doctor(document, "-o", "csv")
    rows = [line.split(",") for line in done.output.splitlines()[1:]]
    assert [row[0] for row in rows] == [
        f"a {target}",
        f"b {target}",
        "gateway edge",
        "gateway edge",
    ]
    assert rows[1][5] == "other_engine"
    assert done.exit_code == 3


def test_gateway_that_is_down_says_so(closed_port, doctor):
    """Its failure has a reason as a target's has."""
    url = f"http://127.0.0.1:{closed_port}/metrics"
    document = {
        "pools": [{"name": "a", "file_sd_configs": [{"files": ["*.json"]}]}],
        "gateways": [{"name": "edge", "preset": "nginx", "metrics_url": url}],
    }
    done = doctor(document)
    assert done.exit_code == 1
    assert "gateway edge: not readable\n  reason      connect: connection refused" in done.output


def test_target_that_relabelling_drops_is_none(doctor):
    """What the pool would not have is not scraped."""
    drop = {"source_labels": ["__address__"], "regex": "10.*", "action": "drop"}
    done = doctor({"pools": [pool("chat", "10.0.0.1:8000", relabel_configs=[drop])]})
    assert done.exit_code == 1
    assert "relabel_configs of the pool drop it" in done.output


@pytest.mark.parametrize(
    ("pools", "flags", "rule"),
    [
        (["a"], ["--pool", "x"], "--pool must be one of a, got x"),
        (["a", "b"], ["10.0.0.1:8000"], "targets need --pool beside them"),
    ],
)
def test_bad_usage_is_refused(doctor, pools, flags, rule):
    """Which pool is meant must be clear."""
    done = doctor({"pools": [pool(name, "10.0.0.1:8000") for name in pools]}, *flags)
    assert done.exit_code == 2
    assert rule in done.output


def test_file_that_names_nothing_is_refused(doctor):
    """Discovery is the daemon's: a target must be named."""
    done = doctor({"pools": [{"name": "a", "file_sd_configs": [{"files": ["*.json"]}]}]})
    assert done.exit_code == 2
    assert "names no target and no gateway itself" in done.output


@pytest.mark.parametrize(
    ("flags", "rule"),
    [([], "needs a URL, a file or a folder"), (["--pool", "a"], "--pool needs --config.file")],
)
def test_doctor_without_anything_is_refused(flags, rule):
    """One of a page and a configuration is needed."""
    done = CliRunner().invoke(main, ["doctor", *flags])
    assert done.exit_code == 2
    assert rule in done.output
