"""What runs the daemon elsewhere: a systemd unit, a container, Kubernetes, Prometheus' jobs."""

import configparser
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from kubernetes.client import models

from scorer import __version__
from scorer.arguments import variable
from scorer.cli import main
from scorer.config import load_config, parse_config
from tests.system.conftest import DaemonProcess, FakeEngine, pool_of

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "packaging" / "scorer.service"
DEFAULT = ROOT / "packaging" / "scorer.default"
MANIFESTS = [
    document
    for path in sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
JOBS = ROOT / "deploy" / "prometheus" / "scorer.yml"
PORT = 9808


def parsed(*arguments: str) -> dict[str, Any]:
    """Return what `scorer` makes of arguments that start the daemon, without starting it."""
    name, *rest = arguments
    command = main.commands[name]
    return command.make_context(name, rest).params


def unit() -> configparser.SectionProxy:
    reader = configparser.RawConfigParser(strict=False)
    reader.optionxform = str  # type: ignore[assignment,method-assign]
    reader.read(UNIT)
    return reader["Service"]


def defaults() -> dict[str, str]:
    """Return the variables of the file for /etc/default, those in comments too."""
    lines = [line.removeprefix("#") for line in DEFAULT.read_text().splitlines()]
    pairs = [line.partition("=") for line in lines if re.match(r"[A-Z_]+=", line)]
    return {name: shlex.split(value)[0] for name, _, value in pairs}


def of_kind(kind: str) -> dict[str, Any]:
    return next(each for each in MANIFESTS if each["kind"] == kind)


# The unit


@pytest.mark.system
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Every key and value is one that it knows, but for where the program was installed."""
    command = Path(sys.executable).with_name("scorer")
    text = UNIT.read_text().replace("/opt/scorer/bin/scorer", str(command))
    (tmp_path / UNIT.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / UNIT.name)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, ours) == (0, []), done.stderr


@pytest.mark.system
def test_systemd_would_have_complained(tmp_path: Path) -> None:
    """A key that it does not know is a line about our unit: the test above can fail."""
    (tmp_path / UNIT.name).write_text(UNIT.read_text().replace("NoNewPriv", "NoNewPrev"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / UNIT.name)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "NoNewPrevileges" in done.stderr


def test_the_unit_starts_what_there_is() -> None:
    """Its command line, with what its environment file brings, is one of ours."""
    command = unit()["ExecStart"].replace("$ARGS", defaults()["ARGS"])
    program, *arguments = shlex.split(command)
    assert program == "/opt/scorer/bin/scorer"
    assert parsed(*arguments)["path"] == Path("/etc/scorer/scorer.yml")


def test_variables_of_the_environment_file_are_flags() -> None:
    """Those that are commented out too."""
    flags = {flag for each in main.commands["run"].params for flag in each.opts}
    given = set(defaults()) - {"ARGS"}
    assert given
    assert given <= {variable(flag) for flag in flags}


# The container


def dockerfile() -> list[tuple[str, str]]:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    return [
        (word, rest)
        for word, _, rest in (line.partition(" ") for line in lines)
        if word and word != "#"
    ]


def test_the_image_has_every_package() -> None:
    """What is copied exists, is not ignored, and holds all that pyproject.toml names."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied: set[str] = set()
    for word, rest in dockerfile():
        if word == "COPY" and not rest.startswith("--from"):
            copied |= set(rest.split()[:-1])
    assert all((ROOT / name).exists() for name in copied)
    assert ignored[0] == "*"
    assert {f"!{name}" for name in copied} <= set(ignored)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["setuptools"]["packages"]
    assert {name.partition(".")[0] for name in packages} <= copied
    assert set(project["project"]["license-files"]) <= copied


def test_the_image_runs_the_daemon_as_nobody() -> None:
    """Without a shell, on the port that is exposed, with the file that the documents name."""
    said = dict(dockerfile())
    (program,) = json.loads(said["ENTRYPOINT"])
    assert (
        Path(program).name
        in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    )
    assert parsed(*json.loads(said["CMD"]))["path"] == Path("/etc/scorer/scorer.yml")
    assert said["USER"] == "65534:65534"
    assert int(said["EXPOSE"]) == PORT
    stages = [rest for word, rest in dockerfile() if word == "FROM"]
    assert stages[0].partition(" ")[0] == stages[1]


# Kubernetes


def check_model(value: Any, kind: str, path: str) -> None:
    """Fail for a key that Kubernetes' own models do not have."""
    if match := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        assert isinstance(value, list), path
        for index, each in enumerate(value):
            check_model(each, match[1], f"{path}[{index}]")
        return
    model = getattr(models, kind, None)
    if model is None:
        return
    fields = {model.attribute_map[name]: type_ for name, type_ in model.openapi_types.items()}
    assert isinstance(value, dict), path
    for key, each in value.items():
        assert key in fields, f"{path}.{key}"
        check_model(each, fields[key], f"{path}.{key}")
    model(**{name: value.get(key) for name, key in model.attribute_map.items()})


KINDS = {
    "ConfigMap": "V1ConfigMap", "ServiceAccount": "V1ServiceAccount", "Role": "V1Role",
    "RoleBinding": "V1RoleBinding", "Deployment": "V1Deployment", "Service": "V1Service",
}  # fmt: skip


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_manifest_has_known_keys_only(manifest: dict[str, Any]) -> None:
    """Each field is one of the Kubernetes API, with what it requires."""
    check_model(manifest, KINDS[manifest["kind"]], manifest["kind"])
    assert manifest["metadata"]["name"] == "scorer"


def test_manifests_are_all_there() -> None:
    """One of each kind, and none that the test above knows nothing of."""
    assert sorted(each["kind"] for each in MANIFESTS) == sorted(KINDS)


def test_an_unknown_key_would_have_been_seen() -> None:
    """The check of keys can fail, deep down too."""
    broken = yaml.safe_load(yaml.safe_dump(of_kind("Deployment")))
    broken["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    with pytest.raises(AssertionError, match=r"containers\[0\].livenessprobe"):
        check_model(broken, "V1Deployment", "Deployment")


def test_the_pod_is_wired() -> None:
    """Arguments, ports, labels, volumes and names fit each other."""
    spec = of_kind("Deployment")["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    flags = parsed(*container["args"])
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert flags["auto"]
    assert str(flags["path"].parent) == mounts["config"]
    assert flags["path"].name in of_kind("ConfigMap")["data"]
    assert {each["name"] for each in pod["volumes"]} == set(mounts)
    assert container["ports"] == [{"name": "http", "containerPort": PORT}]
    assert container["image"] == f"scorer:{__version__}"
    (port,) = of_kind("Service")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (PORT, "http")
    labels = spec["template"]["metadata"]["labels"]
    assert labels == spec["selector"]["matchLabels"] == of_kind("Service")["spec"]["selector"]
    assert pod["serviceAccountName"] == of_kind("ServiceAccount")["metadata"]["name"]
    assert pod["enableServiceLinks"] is False


def test_the_configuration_in_the_map_is_one() -> None:
    """It listens where the pod says, writes where it may, and asks for what the role gives."""
    config = parse_config(of_kind("ConfigMap")["data"]["scorer.yml"], "/etc/scorer")
    assert config.web.listen_address == f"0.0.0.0:{PORT}"
    assert config.global_.state_file == "/var/lib/scorer/state.json"
    assert config.pools[0].kubernetes_sd_configs
    (rule,) = of_kind("Role")["rules"]
    assert rule == {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": ["get", "list", "watch"],
    }


# Prometheus and the daemon itself


@pytest.mark.system
def test_probes_and_jobs_meet_the_daemon(tmp_path: Path) -> None:
    """Paths of the probes are answered, and promtool finds the engines by the shipped job."""
    engine = FakeEngine()
    daemon = DaemonProcess(tmp_path, pool_of(engine)).ready()
    try:
        (container,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
        for probe in ("livenessProbe", "readinessProbe"):
            assert daemon.get(container[probe]["httpGet"]["path"]).status_code == 200
        jobs = tmp_path / "prometheus.yml"
        jobs.write_text(JOBS.read_text().replace(f"http://127.0.0.1:{PORT}", daemon.url))
        for command in (["config"], ["service-discovery", "--timeout=5s"]):
            more = ["scorer-chat"] if command[0] == "service-discovery" else []
            done = subprocess.run(
                ["promtool", "check", *command, str(jobs), *more],
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout)[0]["labels"]
        assert found["__address__"] == engine.target
        assert (found["pool"], found["target"]) == ("chat", engine.target)
    finally:
        daemon.process.kill()
        daemon.process.wait(5)
        engine.close()


def test_every_flag_is_a_variable() -> None:
    """Each option of each command, under the name that its flag gives."""
    for name, command in main.commands.items():
        for each in command.params:
            if isinstance(each, click.Option):
                long = next(flag for flag in each.opts if flag.startswith("--"))
                assert each.envvar == variable(long), f"{name} {long}"


def test_no_variable_is_one_that_kubernetes_sets() -> None:
    """For a service called scorer it sets SCORER_PORT, SCORER_SERVICE_HOST and more."""
    flags = {flag for command in main.commands.values() for each in command.params
             for flag in each.opts if isinstance(each, click.Option)}  # fmt: skip
    taken = re.compile(r"SCORER_(PORT|SERVICE)(_|$)")
    assert not [flag for flag in flags if taken.match(variable(flag))]
    assert taken.match(variable("--port"))


def test_documented_configuration_of_the_service_loads(tmp_path: Path) -> None:
    """The first configuration in docs/operation.md is complete."""
    text = (ROOT / "docs" / "operation.md").read_text()
    found = re.findall(r"```yaml\n# (\S+)\n(.*?)```", text, re.DOTALL)
    blocks = {Path(name).name: block for name, block in found}
    (tmp_path / "scorer.yml").write_text(blocks["scorer.yml"])
    assert load_config(tmp_path / "scorer.yml").pools[0].name == "chat"
