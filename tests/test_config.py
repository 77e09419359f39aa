"""The configuration file: what it means, and what each mistake is told."""

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from scorer.cli import main
from scorer.config import Config, UnixSocketConfig, load_config, parse_config
from scorer.config.errors import ConfigError
from scorer.core.curves import Shape

BAD = sorted(Path(__file__).parent.glob("data/config/bad-*.yml"))
DOCUMENT = Path(__file__).parents[1] / "docs" / "configuration.md"
ONE_POOL = "pools: [{name: chat, static_configs: [{targets: ['10.0.0.1:8000']}]}]"


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as error:
        parse_config(text)
    return error.value.problems


def pool(line: str) -> Config:
    """Return a configuration with one pool that has one more line."""
    targets = "static_configs: [{targets: ['10.0.0.1:8000']}]"
    return parse_config(f"pools:\n  - name: chat\n    {targets}\n    {line}\n")


@pytest.mark.parametrize("path", BAD, ids=[path.stem for path in BAD])
def test_bad_file_is_told_exactly_what_is_wrong(path: Path) -> None:
    """Each file says in its first lines which problems it must be refused with."""
    wanted = [
        line.removeprefix("#! ") for line in path.read_text().splitlines() if line.startswith("#! ")
    ]
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert list(error.value.problems) == wanted


def test_smallest_file_has_the_documented_defaults() -> None:
    """One pool with one target is enough."""
    config = parse_config(ONE_POOL)
    assert config.web.listen_address == "0.0.0.0:9808"
    assert config.interval(config.pools[0]) == 1.0
    assert config.timeout(config.pools[0]) == 0.8


def test_documented_file_is_the_defaults() -> None:
    """The file in docs/configuration.md can be used, and has every default as it is."""
    [text] = re.findall(
        r"^```yaml\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    [pool] = (document := yaml.safe_load(text))["pools"]
    # The first three have none. The others follow the engine and `global` where they are left out.
    own = ["name", "models", "static_configs", "metrics_port", "scrape_interval", "scrape_timeout"]
    least = {"pools": [{key: pool[key] for key in own}], "prometheus": document["prometheus"]}
    assert parse_config(text).model_dump() == parse_config(yaml.safe_dump(least)).model_dump()


def test_pool_may_scrape_at_its_own_pace() -> None:
    """A pool's interval and deadline win over the global ones."""
    config = pool("scrape_interval: 5s\n    scrape_timeout: 4s")
    assert (config.interval(config.pools[0]), config.timeout(config.pools[0])) == (5.0, 4.0)


def test_signals_become_score_parameters() -> None:
    """Weights, ceilings, slope, knee and curve reach the formula."""
    signals = (
        "signals: {ttft: {weight: 0.5, ceiling: 500ms, curve: linear}, "
        "errors: {weight: 0.3, slope: 10}, queue: {weight: 0.2, ceiling: 8, kv_knee: 0.7}}"
    )
    params = pool(signals).pools[0].score_params()
    assert (params.ttft_weight, params.errors_weight, params.queue_weight) == (0.5, 0.3, 0.2)
    assert (params.ttft.ceiling, params.ttft.shape) == (0.5, Shape.LINEAR)
    assert (params.errors.ceiling, params.queue.ceiling, params.kv_cache.knee) == (0.1, 8.0, 0.7)


def test_model_served_by_two_pools_is_warned_about() -> None:
    """The pool that comes second is told that the first gets its requests."""
    config = parse_config(
        "pools:\n"
        "- {name: a, models: ['llama-*'], static_configs: [{targets: ['a:1']}]}\n"
        "- {name: b, models: [llama-8b], static_configs: [{targets: ['b:1']}]}\n"
    )
    assert config.warnings() == [
        "pools[1].models: llama-8b is served by pool a too, which comes first and gets its requests"
    ]


def test_pool_without_targets_is_warned_about() -> None:
    """An empty list of targets is allowed and probably not meant."""
    config = parse_config("pools: [{name: a, static_configs: [{targets: []}]}]")
    assert config.warnings() == ["pools[0].static_configs: names no target"]


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("state.json", None),
        ("none/state.json", "{folder}/none is no directory"),
        ("scorer.yml/state.json", "{folder}/scorer.yml is no directory"),
        (".", "{folder} is not a regular file"),
    ],
)
def test_state_file_is_beside_the_configuration(
    tmp_path: Path, name: str, warning: str | None
) -> None:
    """And whether it could be written there is said, as a warning: it costs no target anything."""
    path = tmp_path / "scorer.yml"
    path.write_text(f"global: {{state_file: {name}}}\n{ONE_POOL}")
    config = load_config(path)
    assert Path(config.global_.state_file) == tmp_path / name
    said = f"global.state_file: cannot be written: {warning}"
    assert config.warnings() == ([said.format(folder=tmp_path)] if warning else [])


def test_state_file_in_a_folder_of_others_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is there may still be closed to the user that asks."""
    monkeypatch.setattr("os.access", lambda *_: False)
    config = parse_config(f"global: {{state_file: {tmp_path}/state.json}}\n{ONE_POOL}")
    said = f"global.state_file: cannot be written: {tmp_path} is not writable by this user"
    assert config.warnings() == [said]


def test_no_state_file_is_kept_unless_asked_for() -> None:
    """Neither by default nor for an empty name."""
    assert parse_config(ONE_POOL).global_.state_file == ""
    assert parse_config(f"global: {{state_file: ''}}\n{ONE_POOL}").warnings() == []


def test_unreadable_file_says_why(tmp_path: Path) -> None:
    """A missing file and a folder are told apart."""
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        load_config(tmp_path / "none.yml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)


def test_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are no configuration."""
    path = tmp_path / "binary.yml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load_config(path)


def test_default_is_not_blamed_on_the_file() -> None:
    """A timeout that nobody wrote is called the default."""
    assert problems("global: {scrape_interval: 500ms}\n" + ONE_POOL) == (
        "global.scrape_timeout: must be less than scrape_interval (500ms), got the default 800ms",
    )


def test_long_values_are_cut_in_messages() -> None:
    """An error quotes at most 60 characters of a value."""
    [problem] = problems(ONE_POOL.replace("10.0.0.1:8000", "x" * 500))
    assert problem.endswith("x…")
    assert len(problem) < 160


@pytest.mark.parametrize("address", ["0.0.0.0:9808", "[::1]:0", ":9808", "localhost:80"])
def test_listen_addresses(address: str) -> None:
    """Host and port, the host may be empty, IPv6 in brackets."""
    assert parse_config(f"web: {{listen_address: '{address}'}}\n{ONE_POOL}").web.listen_address == (
        address
    )


def unix_socket(**keys: object) -> UnixSocketConfig:
    """Return what a file makes of the keys of ``web.unix_socket``."""
    section = json.dumps(keys, ensure_ascii=False)
    return parse_config(f"web: {{unix_socket: {section}}}\n{ONE_POOL}").web.unix_socket


@pytest.mark.parametrize(
    ("keys", "path", "mode"),
    [
        ({}, "", 0o660),
        ({"path": "", "mode": "600"}, "", 0o600),
        ({"path": "/run/scorer/scorer.sock"}, "/run/scorer/scorer.sock", 0o660),
        ({"path": "/run/a b.sock", "mode": "0666"}, "/run/a b.sock", 0o666),
        ({"path": "/" + "é" * 53}, "/" + "é" * 53, 0o660),
    ],
)
def test_unix_socket(keys: dict[str, str], path: str, mode: int) -> None:
    """None unless there is a path; owner and group, unless it says otherwise."""
    found = unix_socket(**keys)
    assert (found.path, found.mode) == (path, mode)


ABSOLUTE = "must be the absolute path of a socket, as /run/scorer/scorer.sock"
OCTAL = 'must be octal, from 000 to 777, in quotes, such as "0660"'


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"path": "scorer.sock"}, f"path: {ABSOLUTE}, got scorer.sock"),
        ({"path": "unix:/run/s"}, f"path: {ABSOLUTE}, got unix:/run/s"),
        ({"path": "@scorer"}, f"path: {ABSOLUTE}, got @scorer"),
        ({"path": "/run/scorer/"}, f"path: {ABSOLUTE}, got /run/scorer/"),
        ({"path": 7}, "path: must be a string, got 7"),
        ({"path": "/" + "é" * 54}, f"path: must have at most 107 bytes, got /{'é' * 54}"),
        ({"mode": 660}, f"mode: {OCTAL}, got 660"),
        ({"mode": "0880"}, f"mode: {OCTAL}, got 0880"),
        ({"mode": "0o660"}, f"mode: {OCTAL}, got 0o660"),
        ({"mode": "4660"}, f"mode: {OCTAL}, got 4660"),
        ({"mode": "٠٦٦٠"}, f"mode: {OCTAL}, got ٠٦٦٠"),
    ],
)
def test_unix_socket_is_refused(keys: dict[str, object], problem: str) -> None:
    """With field, rule and value."""
    with pytest.raises(ConfigError) as refused:
        unix_socket(**keys)
    assert refused.value.problems == (f"web.unix_socket.{problem}",)


def check(folder: Path, token_file: str) -> Result:
    """Return the result of ``scorer check-config`` on a file with an admin token file."""
    path = folder / "scorer.yml"
    path.write_text(f"web: {{admin_token_file: {token_file}}}\n{ONE_POOL}")
    return CliRunner().invoke(main, ["check-config", str(path)])


def test_admin_token_file_is_beside_the_configuration(tmp_path: Path) -> None:
    """None by default; a relative path is relative to the file that names it."""
    assert parse_config(ONE_POOL).web.admin_token_file == ""
    text = f"web: {{admin_token_file: secrets/token}}\n{ONE_POOL}"
    assert parse_config(text, tmp_path).web.admin_token_file == str(tmp_path / "secrets/token")


def test_check_reads_the_admin_token_file_and_does_not_show_it(tmp_path: Path) -> None:
    """A file that is missing would refuse every order, so it is said beforehand."""
    missing = check(tmp_path, "token")
    rule = "web.admin_token_file: cannot be read: No such file or directory"
    assert (missing.exit_code, rule in missing.output) == (2, True)
    (tmp_path / "token").write_text("s3cret")
    found = check(tmp_path, "token")
    assert (found.exit_code, "s3cret" in found.output) == (0, False)
