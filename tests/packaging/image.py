"""The Dockerfile, carried out without a container: each stage is a folder that stands for its root.

All stages have the same path while they are built, as they have in an image: what one copies
from another works only where it lies where it was made. A step that is not known fails.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

OURS = ("PYTHON", "COVERAGE", "COV_", "VIRTUAL_ENV", "SCORER_")
"""Beginnings of variables that the tests run with and an image has not."""
OUTER_PATHS = re.compile(r"(?<![\w.])(/(?:opt|src|etc)\b)")
"""Paths within an image, in the text of a command."""


class Image:
    """Builds in ``folder``; ``root`` is that of the stage under way, then of the image."""

    def __init__(self, folder: Path, context: Path) -> None:
        self.root = folder / "root"
        self.config: dict[str, str] = {}
        self._stages = folder / "stages"
        self._context = context
        self._ignored = (context / ".dockerignore").read_text().splitlines()
        self._name = ""
        self._workdir = self.root
        self._base = folder / "base"
        self._base.mkdir()
        (self._base / "python").symlink_to(Path(sys.base_exec_prefix) / "bin" / "python3")

    def build(self, steps: Iterable[tuple[str, str]]) -> "Image":
        """Carry out steps, each a word and what follows it."""
        for word, rest in steps:
            match word:
                case "FROM":
                    self._begin(rest)
                case "WORKDIR":
                    self._workdir = self.inside(rest)
                    self._workdir.mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(shlex.split(rest))
                case "RUN":
                    self.run(["sh", "-c", OUTER_PATHS.sub(rf"{self.root}\1", rest)])
                case "USER" | "EXPOSE" | "ENTRYPOINT" | "CMD":
                    self.config[word] = rest
                case _:
                    raise AssertionError(f"unknown step {word}")
        return self

    def inside(self, path: str) -> Path:
        """Return where a path of the image is."""
        return self.root / path.removeprefix("/")

    def run(self, command: list[str]) -> str:
        """Return what a command in the image prints; it has to succeed."""
        done = subprocess.run(
            command, cwd=self._workdir, env=self.environment(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        """Return the variables of the image: those of this machine, but not of its tests."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        # Nobody may write the files of an image, so no byte code is left beside them.
        quick = {"PYTHONDONTWRITEBYTECODE": "1", "PIP_NO_COMPILE": "1"}
        return kept | quick | {"PATH": f"{self._base}:/usr/bin:/bin"}

    def _begin(self, rest: str) -> None:
        if self.root.exists():
            self._stages.mkdir(exist_ok=True)
            self.root.rename(self._stages / self._name)
        _, _, self._name = rest.partition(" AS ")
        self.config = {}
        self.root.mkdir()
        self._workdir = self.root

    def _copy(self, words: list[str]) -> None:
        *names, target = words
        if names[0].startswith("--from="):
            source = self._stages / names.pop(0).removeprefix("--from=")
            for name in names:
                destination = self.inside(target)
                shutil.copytree(source / name.removeprefix("/"), destination, symlinks=True)
            return
        for name in names:
            source = self._context / name
            destination = self._workdir / target
            if source.is_dir():
                shutil.copytree(source, destination, ignore=self._unwanted)
            else:
                assert not self.ignores(name), f"{name} is ignored"
                shutil.copy(source, destination)

    def _unwanted(self, folder: str, names: list[str]) -> list[str]:
        inside = Path(folder).relative_to(self._context)
        return [name for name in names if self.ignores((inside / name).as_posix())]

    def ignores(self, path: str) -> bool:
        """Return whether a path of the context is left out: by the last line that it matches."""
        parts = path.split("/")
        heads = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        verdict = False
        for line in self._ignored:
            pattern = line.removeprefix("!")
            anywhere = pattern.startswith("**/")
            candidates = parts if anywhere else heads
            if any(fnmatch(each, pattern.removeprefix("**/")) for each in candidates):
                verdict = not line.startswith("!")
        return verdict
