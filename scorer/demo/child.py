"""``python -m scorer.demo.child run …``: the daemon, which ends when the demo does.

The demo holds the other end of its standard input. That end is closed however the demo
ends, a SIGKILL included, and then nobody is left who would stop the daemon.
"""

import os
import runpy
import signal
import threading
import time

STANDARD_INPUT = 0
PATIENCE = 1.0
"""Seconds that the daemon gets to stop cleanly."""


def follow() -> None:
    """End this process when standard input ends."""
    while os.read(STANDARD_INPUT, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=follow, name="follow", daemon=True).start()
    runpy.run_module("scorer", run_name="__main__", alter_sys=True)
