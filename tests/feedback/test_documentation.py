"""docs/feedback.md says what the code does."""

import json
import re
from pathlib import Path

import pytest

from scorer.config import parse_config
from scorer.core.outcome import OutcomeClass
from scorer.feedback import item as item_module
from scorer.feedback.item import read_item
from scorer.feedback.lines import records
from scorer.feedback.usual import usual_record

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "feedback.md").read_text("utf-8")


def blocks(language):
    """Return the code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def first_cells(heading):
    """Return the code words in the first cells of the table under a heading."""
    section = re.split(r"^#+ ", TEXT.split(f"# {heading}\n")[1], flags=re.MULTILINE)[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [word for cell in cells for word in re.findall(r"`(\w+)`", cell)]


@pytest.mark.parametrize("text", blocks("json"))
def test_example_is_an_item(text):
    """Every example is accepted."""
    assert read_item(json.loads(text)).attempts


def test_every_field_is_documented():
    """The table has the fields that the code reads, and no others."""
    source = Path(item_module.__file__).read_text("utf-8")
    read = set(re.findall(r'raw(?:\.get\(|, |\[)"(\w+)"', source)) | {"headers"}
    assert set(first_cells("Fields")) == read


def test_every_class_is_documented():
    """In the order of the code's own list."""
    assert first_cells("Classes") == [str(each) for each in OutcomeClass]


def test_configuration_is_valid():
    """The section can be pasted into a file."""
    [section] = blocks("yaml")
    pools = "pools: [{name: chat, static_configs: [{targets: ['a:1']}]}]"
    assert len(parse_config(section + pools).feedback.own_rules()) == 1


def nginx_record(text, **values):
    """Return the record of what nginx logs in the format that ``text`` has."""
    [form] = re.findall(r"log_format scorer escape=json\s+(.*?);", text, re.DOTALL)
    values = {"scorer_pick_id": "p1", "upstream_http_retry_after": "", **values}
    line = "".join(re.findall(r"'(.*?)'", form))
    [record] = records(re.sub(r"\$(\w+)", lambda match: values[match[1]], line).encode())
    return record


def test_nginx_format_gives_an_item():
    """With what nginx writes for a request that was tried twice."""
    record = nginx_record(
        TEXT, upstream_addr="a:1, b:2", upstream_status="502, 200", status="200",
        upstream_response_time="0.000, 1.512",
    )  # fmt: skip
    attempts = read_item(record, logged=True).attempts
    assert [tuple(each) for each in attempts] == [("a:1", 502, 0.0), ("b:2", 200, 1.512)]


@pytest.mark.parametrize("path", ["docs/feedback.md", "examples/nginx/auth_request.conf"])
def test_nginx_format_is_read_in_the_short_way(path):
    """What nginx writes for a request that ended well is usual."""
    record = nginx_record(
        (ROOT / path).read_text("utf-8"), upstream_addr="a:1", upstream_status="200",
        status="200", upstream_response_time="1.512",
    )  # fmt: skip
    assert usual_record(record)[:3] == ("p1", 200, "a:1")


def test_haproxy_format_gives_an_item():
    """With what HAProxy writes for a request whose client left."""
    [block] = blocks("haproxy")
    form = re.search(r"log-format '(.*)'", block)[1]
    values = {
        "%[var(txn.pick_id)]": "p1", "%[var(txn.retry_after)]": "-", "%si": "10.0.0.1",
        "%sp": "8000", "%ST": "-1", "%tsc": "CH--", "%Ta": "60012",
    }  # fmt: skip
    for name, value in values.items():
        form = form.replace(name, value)
    [record] = records(form.encode())
    item = read_item(record, logged=True)
    assert tuple(item.attempts[0]) == ("10.0.0.1:8000", 0, 60.012)
    assert (item.termination, item.headers) == ("CH--", {})
