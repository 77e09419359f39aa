"""Targets in files: seen when they change, kept when they break."""

import json
import os
from pathlib import Path

import pytest

from scorer.config.discovery import FileSdConfig
from scorer.sources.discovery.answers import Failure
from scorer.sources.discovery.file_sd import FileSd


def sd(folder: Path, *patterns: str, **more: str) -> FileSd:
    config = {"files": list(patterns), **more}
    return FileSd(FileSdConfig.model_validate(config, context={"folder": folder}))


def write(path: Path, *targets: str) -> None:
    path.write_text(json.dumps([{"targets": list(targets)}]))


def names(found: FileSd) -> dict[str, list[str] | str]:
    """Return the addresses in each file, or why there are none."""
    return {
        Path(path).name: answer.reason
        if isinstance(answer, Failure)
        else [labels["__address__"] for labels in answer]
        for path, answer in found.ask().items()
    }


def test_files_are_found_beside_the_configuration(tmp_path: Path) -> None:
    """A relative pattern is relative to the configuration's folder."""
    (tmp_path / "targets").mkdir()
    write(tmp_path / "targets" / "a.json", "a:1")
    (tmp_path / "targets" / "b.yml").write_text("- {targets: ['b:1']}")
    (tmp_path / "targets" / "c.txt").write_text("nothing")
    assert names(sd(tmp_path, "targets/*.json", "targets/b.yml")) == {
        "a.json": ["a:1"], "b.yml": ["b:1"],
    }  # fmt: skip


def test_label_says_which_file(tmp_path: Path) -> None:
    """Rules may look at the path of the file."""
    write(tmp_path / "a.json", "a:1")
    [[labels]] = sd(tmp_path, "a.json").ask().values()
    assert not isinstance(labels, str)
    assert labels["__meta_filepath"] == str(tmp_path / "a.json")


def test_rewritten_and_replaced_files_are_read_again(tmp_path: Path) -> None:
    """A change in place and an atomic replacement are both seen at the next look."""
    found = sd(tmp_path, "a.json")
    write(tmp_path / "a.json", "a:1")
    assert names(found) == {"a.json": ["a:1"]}
    write(tmp_path / "a.json", "a:1", "b:1")
    assert names(found) == {"a.json": ["a:1", "b:1"]}
    write(tmp_path / "next", "c:1")
    (tmp_path / "next").replace(tmp_path / "a.json")
    assert names(found) == {"a.json": ["c:1"]}


def test_symbolic_link_that_moves_is_seen(tmp_path: Path) -> None:
    """Kubernetes swaps a link to a folder when a ConfigMap changes."""
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "a.json", f"{version}:1")
    (tmp_path / "data").symlink_to("v1")
    found = sd(tmp_path, "data/*.json")
    assert names(found) == {"a.json": ["v1:1"]}
    (tmp_path / "next").symlink_to("v2")
    (tmp_path / "next").replace(tmp_path / "data")
    assert names(found) == {"a.json": ["v2:1"]}


def test_unchanged_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look costs no read as long as nothing changes."""
    write(tmp_path / "a.json", "a:1")
    found = sd(tmp_path, "*.json")
    first = found.ask()
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it was read"))
    assert found.ask() == first


def test_file_is_read_again_after_the_refresh_interval(tmp_path: Path) -> None:
    """A change that the file system does not show is seen in the end."""
    now = [0.0]
    path = tmp_path / "a.json"
    write(path, "a:1")
    config = FileSdConfig.model_validate({"files": [str(path)], "refresh_interval": "1m"})
    found = FileSd(config, clock=lambda: now[0])
    assert names(found) == {"a.json": ["a:1"]}
    seen = path.stat()
    write(path, "b:1")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert names(found) == {"a.json": ["a:1"]}
    now[0] = 61.0
    assert names(found) == {"a.json": ["b:1"]}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", "", "is empty: no target is written []"),
        ("a.yml", " \n", "is empty: no target is written []"),
        ("a.json", '[{"targets": ["a:1"', "is not valid JSON"),
        ("a.yaml", "- targets: [a:1", "is not valid YAML in line"),
        ("a.json", "{}", "must be a list of target groups"),
    ],
)
def test_broken_file_is_a_failure(tmp_path: Path, name: str, content: str, reason: str) -> None:
    """A file that is cut or wrong says so; one caught while it is written is read again."""
    path = tmp_path / name
    path.write_text(content)
    found = sd(tmp_path, name)
    assert reason in names(found)[name]
    path.write_text("[]  ")
    assert names(found) == {name: []}


def test_missing_file_is_a_failure(tmp_path: Path) -> None:
    """A file that is named must be there: its absence is no list."""
    assert names(sd(tmp_path, "a.json"))["a.json"] == (
        f"{tmp_path}/a.json cannot be read: No such file or directory"
    )


def test_deleted_file_of_a_wildcard_is_gone(tmp_path: Path) -> None:
    """A file that a wildcard matched is no more, and so are its targets."""
    write(tmp_path / "a.json", "a:1")
    write(tmp_path / "b.json", "b:1")
    found = sd(tmp_path, "*.json")
    assert names(found) == {"a.json": ["a:1"], "b.json": ["b:1"]}
    (tmp_path / "a.json").unlink()
    assert names(found) == {"b.json": ["b:1"]}


def test_wildcard_without_a_match_is_no_target(tmp_path: Path) -> None:
    """A folder without files is an empty answer."""
    assert names(sd(tmp_path, "*.json")) == {}


def test_folder_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    """A volume that is not mounted does not empty a pool."""
    folder = tmp_path / "targets"
    folder.mkdir()
    write(folder / "a.json", "a:1")
    found = sd(tmp_path, "targets/*.json")
    assert names(found) == {"a.json": ["a:1"]}
    folder.rename(tmp_path / "elsewhere")
    gone = f"{folder} cannot be read: No such file or directory"
    assert names(found) == {"a.json": gone}
    assert names(sd(tmp_path, "targets/*.json")) == {"*.json": gone}
    (tmp_path / "elsewhere").rename(folder)
    assert names(found) == {"a.json": ["a:1"]}
