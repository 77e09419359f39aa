"""``/-/reload``, ``/config`` and ``/api/v1/status/…``."""

import asyncio
import re
import threading

import pytest
import yaml
from markupsafe import escape

from scorer import __version__
from scorer.config import parse_config
from scorer.http.app import create_flask
from scorer.http.lifecycle import ReloadEndpoint
from scorer.http.status import without_secrets
from tests.http.builders import chat, ports
from tests.http.harness import http_scope, reply


def post(endpoint, method="POST"):
    async def exchange():
        sent = []

        async def send(message):
            sent.append(message)

        await endpoint(http_scope("/-/reload", method=method), send)
        return reply(sent)

    return asyncio.run(exchange())


@pytest.mark.parametrize(
    ("method", "reload", "status"),
    [
        ("POST", None, 403),
        ("PUT", None, 403),
        ("GET", None, 405),
        ("GET", lambda: True, 405),
        ("HEAD", lambda: True, 405),
        ("POST", lambda: True, 200),
        ("PUT", lambda: True, 200),
        ("POST", lambda: False, 500),
    ],
)
def test_reload_answers(method, reload, status):
    """403 where it is not enabled, 405 for what is neither POST nor PUT, 500 for a bad file."""
    answer = post(ReloadEndpoint(reload), method)
    assert answer.status == status
    if status == 405:
        assert answer.headers["allow"] == "POST, PUT"
    if status == 403:
        assert answer.body == b"Lifecycle API is not enabled.\n"


def test_a_crowd_shares_a_reload():
    """One runs, all who come meanwhile wait for the next: a file is read after each was asked."""
    begun, go, runs = threading.Event(), threading.Event(), []

    def reload():
        begun.set()
        assert go.wait(10)
        runs.append(1)
        return True

    async def crowd():
        endpoint = ReloadEndpoint(reload)
        sent = []

        async def send(message):
            sent.append(message)

        async def ask():
            await endpoint(http_scope("/-/reload", method="POST"), send)

        first = asyncio.ensure_future(ask())
        await asyncio.to_thread(begun.wait, 10)
        others = [asyncio.ensure_future(ask()) for _ in range(20)]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(first, *others)
        return [message["status"] for message in sent if "status" in message]

    assert asyncio.run(crowd()) == [200] * 21
    assert len(runs) == 2


CONFIG = """
pools:
  - name: chat
    http_sd_configs:
      - {url: "http://sd.test/list?token=abc&zone=a", authorization: {credentials_file: t}}
    static_configs: [{targets: ["10.0.0.1:8000"], labels: {api_key: abc, zone: a}}]
feedback: {token_file: secret.txt}
"""


def test_config_is_shown_without_secrets():
    """As its file has it; names of files are none, what a URL or a label tells may be."""
    app = create_flask(ports(chat(1), document=lambda: parse_config(CONFIG).document))
    data = app.test_client().get("/api/v1/status/config").get_json()["data"]
    assert "abc" not in data["yaml"]
    pool = yaml.safe_load(data["yaml"])["pools"][0]
    assert pool["http_sd_configs"][0]["url"] == "http://sd.test/list?token=<secret>&zone=a"
    assert pool["http_sd_configs"][0]["authorization"] == {"credentials_file": "t"}
    assert pool["static_configs"][0]["labels"] == {"api_key": "<secret>", "zone": "a"}
    assert yaml.safe_load(data["yaml"])["feedback"] == {"token_file": "secret.txt"}


def test_config_is_a_page_too():
    """The same text, as text whatever is in it; the status page leads there."""
    given = ports(chat(1), document=lambda: parse_config(CONFIG).document)
    client = create_flask(given).test_client()
    told = client.get("/api/v1/status/config").get_json()["data"]["yaml"]
    page = client.get("/config")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert re.search('<pre class="config" tabindex="0">(.*)</pre>', page.text, re.DOTALL)[1] == (
        str(escape(told))
    )
    assert 'href="config"' in client.get("/").text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("http://me:pw@h:1/x", "http://<secret>@h:1/x"),
        ({"password": "x", "n": 3}, {"password": "<secret>", "n": 3}),
        ({"Client-Secret": ["x", "y"]}, {"Client-Secret": ["<secret>", "<secret>"]}),
        ("http://h/?sig=1&key=2&api_key=3", "http://h/?sig=<secret>&key=<secret>&api_key=<secret>"),
        ({"long_prompt_tokens": 4096, "keyed": "k"}, {"long_prompt_tokens": 4096, "keyed": "k"}),
    ],
)
def test_what_counts_as_secret(value, shown):
    """Users of URLs, parameters and keys that are named like secrets."""
    assert without_secrets(value) == shown


def test_buildinfo_names_the_version():
    """The same as ``--version`` and ``scorer_build_info``."""
    client = create_flask(ports(chat(1))).test_client()
    data = client.get("/api/v1/status/buildinfo").get_json()["data"]
    assert data["version"] == __version__
    assert set(data) == {"version", "revision", "pythonVersion", "platform"}
