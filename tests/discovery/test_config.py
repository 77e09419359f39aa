"""What the configuration of discovery means, and what ``check-config`` says of its files."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from scorer.cli import main
from scorer.config import parse_config
from scorer.config.discovery import KubernetesSdConfig, parse_nameserver
from scorer.config.pool import PoolConfig
from scorer.discovered import Mechanism

DOCUMENT = Path(__file__).parents[2] / "docs" / "discovery.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
STATIC = {"static_configs": [{"targets": ["10.0.0.1:8000"]}]}


def pool(**keys: Any) -> PoolConfig:
    return PoolConfig.model_validate({"name": "chat", **keys}, context={"folder": "/etc/scorer"})


def check(folder: Path, text: str) -> Result:
    """Return the result of ``scorer check-config`` on a file with one pool of these keys."""
    path = folder / "scorer.yml"
    path.write_text(f"pools: [{{name: chat, {text}}}]")
    return CliRunner().invoke(main, ["check-config", str(path)])


@pytest.mark.parametrize("example", EXAMPLES)
def test_documented_example_is_accepted(example: str) -> None:
    """What the documentation shows can be pasted."""
    keys = yaml.safe_load(example)
    pools = keys.get("pools") or [{"name": "chat", **STATIC, **keys}]
    assert parse_config(yaml.safe_dump({"pools": pools})).pools


def test_document_has_examples() -> None:
    """The examples are found: each mechanism, rules, authorization and TLS."""
    assert len(EXAMPLES) == 6


def test_defaults_are_those_of_prometheus() -> None:
    """Intervals and types need not be given."""
    found = pool(
        file_sd_configs=[{"files": ["a.json"]}],
        http_sd_configs=[{"url": "http://sd"}],
        dns_sd_configs=[{"names": ["a"]}],
    )
    assert found.file_sd_configs[0].refresh_interval == 300.0
    assert found.http_sd_configs[0].refresh_interval == 60.0
    [names] = found.dns_sd_configs
    assert (names.type, names.port, names.refresh_interval, names.nameservers) == (
        "SRV", None, 30.0, (),
    )  # fmt: skip


def test_mechanisms_count_in_a_fixed_order() -> None:
    """The order of the keys in the file does not matter."""
    found = pool(dns_sd_configs=[{"names": ["a"]}], **STATIC)
    assert [mechanism for mechanism, configs in found.mechanisms() if configs] == [
        Mechanism.STATIC, Mechanism.DNS,
    ]  # fmt: skip


def test_relative_paths_are_beside_the_configuration() -> None:
    """Files are looked for in the configuration's folder, wherever the daemon was started."""
    found = pool(
        authorization={"credentials_file": "token"},
        tls_config={"ca_file": "/abs/ca.pem"},
        file_sd_configs=[{"files": ["targets/*.json"]}],
    )
    assert found.authorization is not None
    assert found.authorization.credentials_file == "/etc/scorer/token"
    assert found.tls_config.ca_file == "/abs/ca.pem"
    assert found.file_sd_configs[0].files == ("/etc/scorer/targets/*.json",)


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("10.0.0.2", "10.0.0.2", 53),
        ("127.0.0.1:5353", "127.0.0.1", 5353),
        ("fd00::2", "fd00::2", 53),
        ("[fd00::2]", "fd00::2", 53),
        ("[fd00::2]:5353", "fd00::2", 5353),
    ],
)
def test_name_servers(text: str, address: str, port: int) -> None:
    """An address, and a port that may be left out."""
    assert parse_nameserver(text) == (address, port)


@pytest.mark.parametrize("text", ["", ":53", "ns:53", "10.0.0.2:0", "10.0.0.2:x", "[fd00::2"])
def test_bad_name_servers(text: str) -> None:
    """Names, missing addresses and impossible ports are refused."""
    with pytest.raises(ValueError, match="must be an IP address with an optional port"):
        parse_nameserver(text)


def test_missing_kubernetes_client_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the configuration is refused with the command that installs it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"pip install '\.\[kubernetes\]'"):
        KubernetesSdConfig.model_validate({"namespace": "llm", "port": 8000})


def test_check_names_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Each with its path in the configuration, and exit code 2."""
    (tmp_path / "token").write_text("s3cret")
    keys = (
        "authorization: {credentials_file: token}, tls_config: {ca_file: ca.pem}, "
        "http_sd_configs: [{url: 'http://sd', basic_auth: {username: u, password_file: pw}}]"
    )
    result = check(tmp_path, keys)
    missing = "cannot be read: No such file or directory, got"
    assert result.exit_code == 2
    assert {line.partition(".yml: ")[2] for line in result.output.splitlines()} == {
        f"pools[0].tls_config.ca_file: {missing} {tmp_path}/ca.pem",
        f"pools[0].http_sd_configs[0].basic_auth.password_file: {missing} {tmp_path}/pw",
    }


def test_check_warns_of_patterns_and_of_trust(tmp_path: Path) -> None:
    """What is allowed and probably not meant is a warning."""
    keys = "tls_config: {insecure_skip_verify: true}, file_sd_configs: [{files: ['x/*.json']}]"
    result = check(tmp_path, keys)
    assert result.exit_code == 0
    assert (
        f"pools[0].file_sd_configs[0].files[0]: matches no file, got {tmp_path}/x/*.json"
        in result.output
    )
    assert (
        "pools[0].tls_config.insecure_skip_verify: any server is trusted, "
        "its certificate is not looked at" in result.output
    )
    assert result.output.endswith("1 pool, 0 targets and those that discovery finds\n")


def test_problem_of_a_url_does_not_show_its_password() -> None:
    """A user and a password in a URL are refused without being quoted."""
    text = "pools: [{name: a, http_sd_configs: [{url: 'ftp://u:s3cret@sd'}]}]"
    with pytest.raises(Exception, match="must not contain a user") as error:
        parse_config(text)
    assert "s3cret" not in str(error.value)
