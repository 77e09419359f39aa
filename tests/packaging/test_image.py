"""The image: its steps are carried out, and what comes out of them runs."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import yaml
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from scorer import __version__
from tests.packaging.image import Image
from tests.packaging.test_packaging import ROOT, dockerfile
from tests.system.conftest import FakeEngine, free_port, pool_of

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Return the image, built once."""
    return Image(tmp_path_factory.mktemp("image"), ROOT).build(dockerfile())


def entrypoint(image: Image) -> str:
    """Return the program that the image starts."""
    (program,) = json.loads(image.config["ENTRYPOINT"])
    return str(image.inside(program))


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def configured(image: Image) -> Iterator[str]:
    """Put a configuration where the image looks for it; return the address it listens on."""
    (address, engine) = f"127.0.0.1:{free_port()}", FakeEngine()
    engine.serves()
    path = image.inside("/etc/scorer/scorer.yml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(pool_of(engine) | {"web": {"listen_address": address}}))
    yield address
    engine.close()


def test_image_has_the_program_and_nothing_else(image: Image) -> None:
    """No source, no configuration."""
    assert {path.name for path in image.root.iterdir()} - {"etc"} == {"opt"}
    assert {path.name for path in image.inside("/opt").iterdir()} == {"scorer"}


def test_program_is_what_was_built(image: Image) -> None:
    """This version, with its extra, and with none of what tests install."""
    assert f"version {__version__}" in image.run([entrypoint(image), "--version"])
    [packages] = image.inside("/opt/scorer/lib").glob("python3.*/site-packages")
    assert (packages / "kubernetes").is_dir()
    assert not (packages / "pytest").exists()


def test_command_checks_a_configuration(image: Image, configured: str) -> None:
    """As docs/operation.md shows it."""
    path = image.inside("/etc/scorer/scorer.yml")
    assert configured in path.read_text()
    assert "SUCCESS" in image.run([entrypoint(image), "check-config", str(path)])


def test_image_runs_the_daemon_and_writes_nothing(
    image: Image, configured: str, tmp_path: Path
) -> None:
    """The command of the image serves picks and pages, templates, styles and mappings with it."""
    command = [word.replace("=/", f"={image.root}/") for word in json.loads(image.config["CMD"])]
    before = files(image.root)
    patient = Retry(total=200, backoff_factor=0.1, backoff_max=0.3, status_forcelist=[503])
    with (tmp_path / "log").open("wb") as log, requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=patient))
        process = subprocess.Popen(
            [entrypoint(image), *command], env=image.environment(), cwd=image.root, stderr=log
        )
        try:
            for path in ("/-/ready", "/pick", "/", "/static/status.css", "/config", "/metrics"):
                assert session.get(f"http://{configured}{path}", timeout=10).status_code == 200
            [shown] = session.get(f"http://{configured}/api/v1/targets", timeout=10).json()["data"]
            assert shown["mapping"] == "vllm_v1"
            process.terminate()
            assert process.wait(15) == 0
        finally:
            process.kill()
            process.wait(5)
    assert files(image.root) == before


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (("COPY", "README.md ./"), "README.md is ignored"),
        (("COPY", "--from=build /opt/scorer /opt/scorer"), "No such file"),
        (("RUN", "/opt/scorer/bin/scorer --version"), "not found"),
        (("ADD", "x y"), "unknown step ADD"),
    ],
)
def test_step_that_cannot_be_carried_out_fails(
    tmp_path: Path, step: tuple[str, str], message: str
) -> None:
    """What is left out, copied from nowhere, not there or not known is not passed over."""
    with pytest.raises((AssertionError, OSError), match=message):
        Image(tmp_path, ROOT).build([("FROM", "python:3.13-slim"), step])
