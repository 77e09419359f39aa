"""Commands of ``scorer`` without processes of their own, whose start costs most by far."""

import contextlib
import subprocess
from pathlib import Path

from click.testing import CliRunner

from scorer.cli import main


def invoked(
    *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Return what a command does in this process, in ``folder`` if it is given."""
    with contextlib.chdir(folder or Path()):
        done = CliRunner().invoke(main, arguments, prog_name="scorer", env=environment)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)
