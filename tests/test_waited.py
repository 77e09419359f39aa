"""The measure of waits by which other tests judge deadlines."""

import subprocess
import sys
import time

from tests.waited import Waited, waited_to_end

NAP = 0.3
WORKS = f"import time\nwhile time.process_time() < {2 * NAP}: pass"
SLEEPS = f"import time\ntime.sleep({2 * NAP})"


def test_sleep_is_counted_and_work_is_not() -> None:
    """Neither is what a busy machine adds to both."""
    waited = Waited()
    time.sleep(NAP)
    assert waited.seconds > 0.9 * NAP
    until = time.thread_time() + NAP
    while time.thread_time() < until:
        pass
    assert waited.seconds < 1.5 * NAP


def test_process_that_sleeps_waits_and_one_that_works_does_not() -> None:
    """Up to its end, which ends the wait."""
    ends = {}
    for program in (SLEEPS, WORKS):
        with subprocess.Popen([sys.executable, "-S", "-c", program]) as process:
            ends[program] = waited_to_end(process)
    assert ends[SLEEPS] > 1.5 * NAP
    assert ends[WORKS] < NAP
