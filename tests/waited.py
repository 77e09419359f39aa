"""How long a thread or a process waited, whatever else the machine had to do meanwhile."""

import subprocess
import time
from pathlib import Path


class Waited:
    """Counts the seconds in which somebody neither worked nor stood in line for a processor.

    That is what a deadline bounds. The time on the clock has more in it: work, which takes
    longer on a slow machine, and standing in line, which takes longer on a busy one. With
    ``process``, the id of another process, it counts those in which none of its threads did;
    without, those of the thread that makes this.
    """

    def __init__(self, process: int | None = None) -> None:
        self._process = process
        self._awake: dict[str, float] = {}
        self._look()
        self._before = dict(self._awake)
        self._began = self._ended = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds so far; of a process that has ended, those up to the last look at it."""
        if self._look():
            self._ended = time.monotonic()
        awake = sum(now - self._before.get(task, 0.0) for task, now in self._awake.items())
        return self._ended - self._began - awake

    def _look(self) -> bool:
        """Note how long each thread was awake so far; False when there is none any more."""
        if self._process is None:
            _, in_line = _schedule(Path("/proc/thread-self"))
            self._awake["self"] = time.thread_time() + in_line
            return True
        try:
            tasks = list(Path(f"/proc/{self._process}/task").iterdir())
        except OSError:
            tasks = []
        found = {task.name: sum(_schedule(task)) for task in tasks}
        self._awake |= {task: now for task, now in found.items() if now}
        return any(found.values())


def _schedule(task: Path) -> tuple[float, float]:
    """Return the seconds in which a thread worked and stood in line; zeros when it has ended."""
    try:
        worked, in_line, _ = map(int, (task / "schedstat").read_text().split())
    except (OSError, ValueError):
        return 0.0, 0.0
    return worked / 1e9, in_line / 1e9


def waited_to_end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> float:
    """Return how many seconds a process waits until its end, which must come within a minute."""
    waited, seconds, deadline = Waited(process.pid), 0.0, time.monotonic() + 60.0
    while process.poll() is None:
        seconds = waited.seconds
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return seconds
