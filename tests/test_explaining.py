"""``scorer explain``: its text, and what it says when there is nothing to explain."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner

from scorer.cli import main
from scorer.core.outcome import OutcomeClass
from scorer.core.overrides import Override
from scorer.explaining import as_text
from scorer.http.app import create_flask
from scorer.http.pick import PickEndpoint
from tests.core.builders import REFUSED, page
from tests.http.builders import NOW, pool, ports, unscored
from tests.http.harness import drive, http_scope
from tests.http.judged import busy, judged, scraped, tell

GOLDEN = """\
10.0.0.7:8000 of pool chat: score 71.2, healthy
  state since  2030-03-17 17:46:37 UTC
  engine       vllm
  weight       0.71, eligible
  last scrape  good, 2.0 s ago

where the points went
            value  age    source    curve                    weight  points lost
  TTFT      1.0 s  1.5 s  feedback  quadratic, 0 s to 2.0 s    0.35          8.8
  errors    5.0%   1.0 s  feedback  linear, 0% to 20%          0.40         10.0
  queue     12     2.0 s  engine    linear, 0 to 30            0.25         10.0
  KV cache  63%    2.0 s  engine    linear, 80% to 100%        0.25            0
  score = 100 - 28.8                                                        71.2

what would raise the score
  +10.0  errors from 5.0% to 0%: 30 s without a failure
  +10.0  queue from 12 to 0
  +8.8   TTFT from 1.0 s to 0 s

state changes
  2030-03-17 17:46:37 UTC  warmup to healthy

last picks it was part of
  2030-03-17 17:46:40 UTC  picked  none other nearly as cheap, 9 000 tokens  cost 1.9 s

last errors
  2030-03-17 17:46:39 UTC  engine fault  feedback  http_500
  2030-03-17 17:46:39 UTC  engine fault  feedback  http_500
  2030-03-17 17:46:39 UTC  engine fault  feedback  http_500
  2030-03-17 17:46:39 UTC  engine fault  feedback  http_500
  2030-03-17 17:46:39 UTC  engine fault  feedback  http_500"""


def text(view, *others, picks=()):
    """Return the text of a target, after picks with these queries."""
    given = ports(pool(view, *others))
    for query in picks:
        drive(PickEndpoint(given), http_scope("/pick", query))
    client = create_flask(given).test_client()
    return as_text(client.get(f"/api/v1/targets/{view.target}").get_json()["data"])


def account(told):
    """Return the lines of the account, with one blank between words."""
    lines = told.split("where the points went\n")[1].split("\n\n")[0].splitlines()
    return [" ".join(line.split()) for line in lines]


def test_golden():
    """A target with something wrong in every respect, whole."""
    assert text(judged(busy()), picks=[b"prompt_tokens=9000"]) == GOLDEN


def test_cap_stands_in_the_account():
    """A condition is a line with its meaning and its limit, and the points line up."""
    health = scraped()
    tell(health, OutcomeClass.ENGINE_FAULT, NOW, 6)
    told = text(judged(health))
    cap = "cap most requests fail, only probes go there: at most 20 40.0"
    assert cap in account(told)
    assert "score = 100 - 80.0 20.0" in account(told)
    lines = told.split("where the points went\n")[1].split("\n\n")[0].splitlines()
    assert len({len(line) for line in lines}) == 1


def test_saturation_and_cooldown():
    """The penalty has its line, and the cooldown says when it ends."""
    health = scraped()
    tell(health, OutcomeClass.ENGINE_SATURATED, NOW, retry_after=8.0)
    told = text(judged(health))
    assert "saturation said lately that it is full 40.0" in account(told)
    assert "+40.0  cooldown ends in 8.0 s" in told


def test_warmup_says_where_it_goes():
    """What the score rises to, and in how long."""
    health = scraped("10.0.0.7:8000", page(), page(), page(start_time=5000.0))
    told = text(judged(health))
    assert "score 0.0, warmup (engine restarted, ramping up)" in told
    assert "rising to    100.0" in told
    assert "+100.0  warm-up: 15 points a second, full in 6.7 s" in told


def test_unreachable_target():
    """Old values are shown as such, the gain is not known, the last error is told."""
    told = text(judged(scraped("10.0.0.7:8000", page(), page(), REFUSED, REFUSED)))
    assert "last scrape  no connection, 0.0 s ago: connection refused" in told
    assert "not known  connection refused, until it accepts connections again:" in told
    assert "scrape failed x 2  scrape  no connection: connection refused" in told


def test_draining_target():
    """It keeps its score and is not eligible."""
    health = scraped()
    health.drain = Override(NOW - 10.0, NOW + 5.0)
    told = text(judged(health))
    assert "score 100.0, draining (by an operator)" in told
    assert "not eligible" in told
    assert "+0  draining by an operator ends in 5.0 s; it costs no points" in told


def test_unscored_target():
    """Before the first judgement there is neither a score nor a number."""
    told = text(unscored())
    assert "no score yet" in told
    assert "TTFT n/a: no good scrape yet - - quadratic, 0 s to 2.0 s 0.00 0" in account(told)
    assert "score = 100 - 0.0 not known" in account(told)
    assert "not known  two good scrapes: only then can it be judged" in told
    assert "state changes\n  none" in told


def run(*arguments, **environment):
    """Return the result of ``scorer explain``."""
    return CliRunner().invoke(main, ["explain", *arguments], env=environment)


class Canned(BaseHTTPRequestHandler):
    """Gives one answer to everything."""

    answer = (200, b"")
    asked: str = ""

    def do_GET(self):
        type(self).asked = self.path
        status, body = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """Return a function that starts a server with one answer and returns its URL."""
    started = []

    def start(status, body):
        Canned.answer = (status, body if isinstance(body, bytes) else json.dumps(body).encode())
        started.append(HTTPServer(("127.0.0.1", 0), Canned))
        threading.Thread(target=started[-1].serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{started[-1].server_port}"

    yield start
    for each in started:
        each.shutdown()
        each.server_close()


def test_json_is_the_data_of_the_api(server):
    """``-o json`` prints what the API says, whatever that is."""
    url = server(200, {"status": "success", "data": {"target": "a:1"}})
    result = run("[::1]:8000", "--pool", "chat", "--url", url, "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"target": "a:1"})
    assert Canned.asked == "/api/v1/targets/%5B::1%5D:8000?pool=chat"


def test_url_comes_from_the_environment(server):
    """``SCORER_URL`` spares the option; proxies of the environment are not asked."""
    url = server(200, {"status": "success", "data": 1})
    result = run("a:1", "-o", "json", SCORER_URL=url, http_proxy="http://127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (0, "1\n")


def test_refusal_of_the_api_is_one_line(server):
    """What the API says is passed on."""
    url = server(404, {"status": "error", "error": 'target: no such target, got "x"'})
    result = run("x", "--url", url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == 'scorer: target: no such target, got "x"\n'


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"status":"success"}'])
def test_somebody_else_answers(server, body):
    """Another program on that port is called what it is."""
    url = server(200, body)
    result = run("x", "--url", url)
    assert result.exit_code == 1
    assert result.stderr == f"scorer: {url} answered 200, and not as scorer does\n"


def test_nobody_answers():
    """No daemon there: one line, exit code 1."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    result = run("x", "--url", f"http://127.0.0.1:{port}")
    assert result.exit_code == 1
    assert result.stderr == (
        f"scorer: connection refused by 127.0.0.1:{port}: nothing listens there\n"
    )


def test_url_without_a_scheme():
    """A URL that is none is named."""
    result = run("x", "--url", "127.0.0.1:9808")
    assert result.exit_code == 1
    assert "127.0.0.1:9808" in result.stderr
    assert result.stderr.count("\n") == 1
