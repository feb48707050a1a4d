"""Headless Chromium over its DevTools pipe: this takes the browser but no package.

Messages are JSON, each ended by a zero byte. The browser reads them from descriptor 3
and writes to 4. CHROMIUM=/path names a browser that is not on the PATH.
"""

import base64
import fcntl
import json
import os
import shutil
import signal
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "there is no Chromium: install it, or name it in CHROMIUM=/path/of/chromium"
SECONDS = 60  # for one answer, on a busy machine


def executable():
    """The path of a browser; None if there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def spawned(command, to_process, from_process):
    """Start a process with these pipe ends as 3 and 4 and no output; return its id."""
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_process, from_process)]
    actions = [(os.POSIX_SPAWN_DUP2, end, i) for i, end in enumerate(ends, 3)]
    actions += [(os.POSIX_SPAWN_OPEN, i, os.devnull, os.O_WRONLY, 0) for i in (1, 2)]
    process = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    for end in (*ends, to_process, from_process):
        os.close(end)
    return process


class Browser:
    """A browser with one page."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._process = spawned(
            [executable(), "--headless", "--no-sandbox", "--disable-gpu"]
            + ["--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"]
            + ["--disable-background-networking", "--remote-debugging-pipe"]
            + [f"--user-data-dir={self._folder.name}", "about:blank"],
            to_browser,
            from_browser,
        )
        self._buffer, self._count, self._session = b"", 0, None
        self.errors, self.requests = [], []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self):
        os.close(self._write)
        os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)
        os.close(self._read)
        self._folder.cleanup()

    def send(self, method, **params):
        """Send a command and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            answer = self._message()
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self._note(answer)
        raise TimeoutError(method)

    def _message(self):
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 2**16)
            if not chunk:
                raise EOFError("the browser has ended")
            self._buffer += chunk
        first, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(first)

    def _note(self, event):
        """Note errors of the page, and all addresses that it requests."""
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                self.errors.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.errors.append(str(params["entry"]))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    def run(self, script):
        """The value of an expression, which is awaited if it is a promise."""
        found = self.send(
            "Runtime.evaluate",
            expression=script,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def visit(self, path, width=1280, height=900, dark=False):
        """Open a plan's page, which is a file, and wait until it is drawn."""
        ready = "document.body?.dataset.ready === 'yes'"
        self.open(path.as_uri(), ready, width, height, dark)

    def open(self, address, ready, width=1280, height=900, dark=False):
        """Go to an address and wait until the expression `ready` is true."""
        self.errors.clear()
        self.requests.clear()
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.send("Emulation.setDeviceMetricsOverride", mobile=False, **sizes)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=address)
        self.until(ready)

    def until(self, condition):
        """Wait until a condition of the page is true."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if self.run(condition):
                return
            time.sleep(0.02)
        raise TimeoutError(f"{condition} does not come true: {self.errors}")

    def picture(self, path):
        """Write a PNG of the page."""
        shot = self.send("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))
