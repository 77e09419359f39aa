"""The entry point: what cannot wait until everything is imported, which takes a second."""

import sys

from scorer import hangup


def main() -> None:
    """Run the command line; the daemon is not ended by a SIGHUP while it starts."""
    if sys.argv[1:2] == ["run"]:
        hangup.hold()
    from scorer.cli import main as run  # noqa: PLC0415 - see above

    run(prog_name="scorer")
