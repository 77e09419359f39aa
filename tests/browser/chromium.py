"""A headless Chromium, driven by its own protocol over a pipe: nothing to install besides it.

Messages are JSON that ends with a zero byte, https://chromedevtools.github.io/devtools-protocol/.
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--disable-extensions", "--remote-debugging-pipe", "about:blank",
)  # fmt: skip
CONSOLE = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
PATIENCE = 20.0
"""Seconds within which the browser answers."""


class Browser:
    """One tab. ``complaints`` are what the pages since :meth:`open` wrote to the console."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._rest = b""
        self._number = 0
        self._session = ""
        self._events: list[str] = []
        self.complaints: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **params):
        """Return the result of a command."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._writing, json.dumps(command).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    def open(self, url, width=1440, height=900, dark=False):
        """Show a page, and wait until it and all that it asks for is there."""
        self.complaints.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.ask("Page.navigate", url=url)
        self._loaded()

    def _loaded(self):
        while "Page.loadEventFired" not in self._events:
            self._message()
        self._events.clear()
        # What has the focus from the start has it with the first frame.
        frame = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.ask("Runtime.evaluate", expression=frame, awaitPromise=True)

    def run(self, expression):
        """Return the value of a JavaScript expression on the page."""
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, key, text=""):
        """Press a key, and wait for the page that it leads to when it is Enter."""
        self._events.clear()
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, text=text,
                 windowsVirtualKeyCode={"Tab": 9, "Enter": 13}.get(key, 0))  # fmt: skip
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)
        if key == "Enter":
            self._loaded()

    def type(self, text):
        """Type text where the focus is."""
        self.ask("Input.insertText", text=text)

    def save(self, path: Path):
        """Write what is seen as a PNG."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot")["data"]))

    def _message(self):
        began = time.monotonic()
        while b"\0" not in self._rest:
            left = PATIENCE - (time.monotonic() - began)
            ready, _, _ = select.select([self._reading], [], [], max(0.0, left))
            assert ready, "the browser does not answer"
            chunk = os.read(self._reading, 1 << 20)
            assert chunk, "the browser has gone"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method, params):
        self._events.append(method)
        failed = method == "Network.loadingFailed" and not params.get("canceled")
        if failed or method in CONSOLE:
            self.complaints.append(json.dumps(params))
        elif method == "Network.responseReceived" and params["response"]["status"] >= 400:
            self.complaints.append(params["response"]["url"])


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """Run a browser with a profile of its own; it is gone at the end, its children too."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    theirs_in, theirs_out = _moved(theirs_in), _moved(theirs_out)
    # Chromium reads commands from descriptor 3 and answers on 4.
    script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out} {theirs_in}<&- {theirs_out}>&-'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", "chromium", *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(theirs_in, theirs_out),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(ours_in, ours_out)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()
        os.close(ours_in)
        os.close(ours_out)


def _moved(descriptor: int) -> int:
    """Return the descriptor under a number that is out of the way of 3 and 4."""
    number = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return number
