"""SIGHUP while the daemon starts: remembered, and a reload once it runs.

Left alone, the signal ends the process until somebody handles it, and what starts a daemon
may well have it reload at once. Python itself takes some hundredths of a second before
anything here can run; within them nobody can help.
"""

import signal
from types import FrameType

_came: list[int] = []


def hold() -> None:
    """Remember the signal from here on, until another handler is set."""
    signal.signal(signal.SIGHUP, _note)


def came() -> bool:
    """Return whether the signal came while it was held."""
    return bool(_came)


def _note(number: int, _: FrameType | None) -> None:
    _came[:] = [number]
