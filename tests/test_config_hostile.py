"""Configuration files that nobody means well: one clear line each, soon."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from scorer.config import document, load_config, parse_config
from scorer.config.document import MOST_VALUES
from scorer.config.errors import LONGEST_PROBLEM, MOST_PROBLEMS, ConfigError, shown
from scorer.config.relabel import RelabelConfig
from scorer.config.types import parse_listen_address

POOL = "pools: [{name: chat, static_configs: [{targets: ['10.0.0.1:8000']}]%s}]"
LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [*{before}, *{before}, *{before}, *{before}]\n"
    for before, name in zip("abcdefghijklmnop", "bcdefghijklmnopq", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 8)}]}}\n"
    for before, name in zip("abcdefghij", "bcdefghijk", strict=True)
)


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count the nodes that are made of texts: no text may have more than the bound."""
    compose, made = document._Loader.compose_node, Counter[int]()

    def counted(loader: document._Loader, *where: Any) -> yaml.Node | None:
        made[id(loader)] += 1
        return compose(loader, *where)

    monkeypatch.setattr(document._Loader, "compose_node", counted)
    yield
    assert max(made.values(), default=0) <= MOST_VALUES + 1


def problems(folder: Path, content: str | bytes) -> tuple[str, ...]:
    """Return what a file of this content is refused with; each is one line."""
    path = folder / "scorer.yml"
    path.write_bytes(
        content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    )
    with pytest.raises(ConfigError) as error:
        load_config(path)
    for problem in error.value.problems:
        assert problem.isprintable()
        assert len(problem) <= LONGEST_PROBLEM
    return error.value.problems


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (LAUGHS, f"holds more than {MOST_VALUES} values, with aliases written out"),
        (MERGES, f"holds more than {MOST_VALUES} values, with aliases written out"),
        ("[" * 10_000, "line 1, column 51: is nested more than 50 levels deep"),
        ("{a: " * 10_000, "is nested more than 50 levels deep"),
        ("- " * 10_000, "is nested more than 50 levels deep"),
        ("pools: &a [*a]", "line 1, column 12: is an alias of what it stands in"),
        ("pools: &a {x: [*a]}", "is an alias of what it stands in"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a' is given twice"),
        ("a: " + "9" * 10_000, "line 1, column 4: is a number of more than 40 characters"),
        ("a: 1" + ":59" * 1_000, "is a number of more than 40 characters"),
        ("a: 2024-13-45", "line 1, column 4: 2024-13-45 is no timestamp (month must be in 1..12)"),
        ('a: "\\ud800"', "is no str ('utf-8' codec can't encode character"),
        ("a: !!int ''", "is no int"),
        ("a: !!bool maybe", "maybe is no bool"),
        ("a: !!timestamp x", "x is no timestamp"),
        ("a: !!map [b]", "expected a mapping node"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: *b", "found undefined alias 'b'"),
        ("a: b\0c", "special characters are not allowed"),
        ("a: b\x1b[31mc", "special characters are not allowed"),
        ("[]", "must be a mapping, got []"),
        ("x" * 5_000, "must be a mapping, got xxx"),
    ],
    ids=lambda value: str(value)[:24].encode("unicode_escape").decode(),
)
def test_text_is_refused_with_one_line(tmp_path: Path, content: str, problem: str) -> None:
    """No traceback, no exhausted memory or stack, no more steps than the bound has values."""
    [found] = problems(tmp_path, content)
    assert problem in found


def test_values_without_aliases_are_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as are allowed are read, one more is not."""
    monkeypatch.setattr(document, "MOST_VALUES", 100)
    assert "got [" in problems(tmp_path, f"[{'a,' * 99}]")[0]
    assert "holds more than 100 values" in problems(tmp_path, f"[{'a,' * 100}]")[0]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("signals: {queue: {ceiling: .inf}}", "signals.queue.ceiling: must be a finite number"),
        ("signals: {queue: {ceiling: .nan}}", "signals.queue.ceiling: must be a finite number"),
        ("signals: {ttft: {weight: .nan}}", "signals.ttft.weight: must be a finite number"),
        ("warmup: {rise_limit: -.inf}", "warmup.rise_limit: must be a finite number"),
        ("warmup: {rise_limit: 1.0e+308}", "warmup.rise_limit: must be at most 1e+09, got 1e+308"),
        (
            "warmup: {rise_limit: 1e308}",
            "must be a number (YAML takes this for text: write 1.0e+308), got 1e308",
        ),
        ("warmup: {rise_limit: 25e-1}", "(YAML takes this for text: write 2.5e+00), got 25e-1"),
        ("warmup: {rise_limit: '15'}", "must be a number, without quotes, got 15"),
        ("warmup: {rise_limit: " + "9" * 40 + "}", "must be at most 1e+09, got 999"),
        ("cooldown: {long_prompt_tokens: " + "9" * 40 + "}", "must be at most 1e+09"),
        ("signals: {ttft: {ceiling: 1000000000d}}", "must be at most 366d, got 1000000000d"),
        ("signals: {ttft: {ceiling: 2h}}", "must be at least 1ms and at most 1h, got 2h"),
        ("signals: {ttft: {ceiling: ٣s}}", "must be a duration such as 500ms, 15s or 1m30s"),
        ("metrics_port: ٣", "metrics_port: must be a whole number"),
        ("metrics_port: 65536", "metrics_port: must be at most 65535"),
        ('metrics_path: "/a\\0b"', "metrics_path: must be a path"),
        ("http_sd_configs: [{url: 'http://[::1'}]", "url: must be an http or https URL"),
        ("http_sd_configs: [{url: 'http://a:٣/'}]", "url: must be an http or https URL"),
        ('http_sd_configs: [{url: "http://a/\\0"}]', "url: must be an http or https URL"),
        ('dns_sd_configs: [{names: ["a\\0b"]}]', "names[0]: must be a DNS name"),
        ("dns_sd_configs: [{names: [a], nameservers: ['1.1.1.1:٣']}]", "must be an IP address"),
        ('kubernetes_sd_configs: [{namespace: "a\\0", port: 1}]', "the name of a namespace, got"),
        ("kubernetes_sd_configs: [{namespace: '', port: 1}]", "the name of a namespace, got"),
        ("mappings: [{extends: [vllm_v1]}]", "extends must be one of"),
        ("file_sd_configs: [{files: ['a\\0.json']}]", None),
        ('file_sd_configs: [{files: ["a\\0.json"]}]', "must name a file"),
    ],
)
def test_value_is_refused_with_its_rule(tmp_path: Path, keys: str, problem: str | None) -> None:
    """Numbers, durations, ports and names that no program can use name field, rule and value."""
    if problem is None:  # in single quotes a backslash is one
        assert parse_config(POOL % f", {keys}")
        return
    found = problems(tmp_path, POOL % f", {keys}")
    assert any(problem in each for each in found), found


@pytest.mark.parametrize("capacity", ["nan", "inf", "0", "-1", "1e400", "1e300", "1e-300", "٣"])
def test_capacity_is_refused(tmp_path: Path, capacity: str) -> None:
    """A relative speed is a number that others can be compared with."""
    static = f"[{{targets: ['a:1'], labels: {{capacity: '{capacity}'}}}}]"
    [found] = problems(tmp_path, f"pools: [{{name: a, static_configs: {static}}}]")
    assert "labels: capacity must be a" in found


@pytest.mark.parametrize(
    "address",
    [
        "", ":", "a", "9808", "0.0.0.0:", "0.0.0.0:65536", "a:٣", "a:99999999999999999999", "a:-1",
        "a:+1", "a: 1", " a:1", "a\0b:1", "a\n:1", "a,b:1", "a b:1", "ü:1", "a..b:1",
        "x" * 64 + ":1",
        "::1:80", "[::1]", "[::1:80", "[]:80", "[a]:80", "[::1]x:80", "[1.2.3.4]:80", "http://a:1",
        "a:1/b",
    ],
)  # fmt: skip
def test_listen_address_is_refused(address: str) -> None:
    """What cannot be bound to is refused before anybody tries."""
    with pytest.raises(ValueError, match=r"must be host:port, as 0\.0\.0\.0:9808 or \[::\]:9808"):
        parse_listen_address(address)


def test_quoted_value_is_made_in_bounded_time() -> None:
    """A value that means 10^20 others by its aliases is quoted by its beginning."""
    value: Any = "x"
    for _ in range(20):
        value = [value] * 10
    assert len(shown(value)) <= 60
    assert len(shown({"k" * 10_000: value})) <= 60
    assert shown(10**40).startswith("1000")


def test_problems_are_bounded(tmp_path: Path) -> None:
    """A file in which everything is wrong says so of the first hundred values."""
    found = problems(tmp_path, yaml.safe_dump({"pools": [{"x\n" * 300: 1}] * 500}))
    assert len(found) == MOST_PROBLEMS + 1
    assert found[-1] == "and 900 more problems"


def test_label_that_is_none_is_told_at_once() -> None:
    """A long one that is none at its end costs about what a long one that is one costs."""
    for label in ("a" * 5_000, "$a" * 2_000, "${a}" * 2_000):
        with pytest.raises(ValueError, match="target_label must be a label name"):
            RelabelConfig(target_label=label + "-")
        assert cost(label + "-") < 50 * cost(label)


def cost(label: str) -> float:
    """Return the processor seconds that it takes to tell whether a label is one."""
    seconds = []
    for _ in range(3):
        began = time.thread_time()
        with suppress(ValueError):
            RelabelConfig(target_label=label)
        seconds.append(time.thread_time() - began)
    return min(seconds)


@pytest.mark.parametrize(
    "text", ["a", "_a1", "$1", "${1}", "a$1", "a_${name}_b", "$name", "a$b$c1"]
)
def test_label_that_is_made_is_one(text: str) -> None:
    """A label's name may be made of what was matched."""
    assert RelabelConfig(target_label=text).target_label == text
