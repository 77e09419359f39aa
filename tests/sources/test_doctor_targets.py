"""The doctor over the network: which URL it asks, and what it keeps to itself."""

from pathlib import Path

import pytest

from scorer.doctor import diagnose, run_doctor

PAGES = Path(__file__).parent.parent / "data" / "expositions"
READABLE = PAGES / "vllm" / "v1-latest.prom"


@pytest.mark.parametrize("form", ["http://{}", "http://{}/", "http://{}/metrics", "{}"])
def test_metrics_path_is_added(serve, answer, form):
    """A base URL and a bare address mean the page at /metrics."""
    server = serve(answer(READABLE.read_bytes()))
    got = diagnose(form.format(f"127.0.0.1:{server.port}"), 5.0)
    assert got.samples.running.value == 18
    assert server.requests[0].startswith(b"GET /metrics HTTP/1.1\r\n")


@pytest.mark.parametrize("form", ["http://{}/v1/metrics", "{}/v1/metrics"])
def test_given_path_is_kept(serve, answer, form):
    """A path that is given is the one that is asked for."""
    server = serve(answer(READABLE.read_bytes()))
    diagnose(form.format(f"127.0.0.1:{server.port}"), 5.0)
    assert server.requests[0].startswith(b"GET /v1/metrics HTTP/1.1\r\n")


def test_password_of_a_url_is_not_printed(closed_port, capsys):
    """User and password are for the target's eyes only."""
    run_doctor([f"http://user:secret@127.0.0.1:{closed_port}/metrics"], "table", 5.0)
    text = capsys.readouterr().out
    assert "secret" not in text
    assert f"http://127.0.0.1:{closed_port}/metrics: not readable" in text
    assert "connection refused" in text


def test_https_port_is_suggested_after_status_400(serve, answer):
    """A TLS port answers plain HTTP with status 400."""
    server = serve(answer(b"<html>", "400 Bad Request"))
    assert "is this an https port? Try https://" in diagnose(server.url, 5.0).hints
