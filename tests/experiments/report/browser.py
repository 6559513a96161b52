"""A headless Chromium for tests.

The browser is driven through chromedriver's WebDriver protocol with the standard library alone.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
ABSENT = "" if CHROMIUM and DRIVER else "needs Debian's chromium and chromium-driver, which are not installed"
FLAGS = (
    "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking disable-component-update "
    "disable-sync hide-scrollbars disable-dev-shm-usage"
).split()
PATIENCE = 600  # seconds to wait for the driver's answer; a driver that has not answered by then is dead or stuck
LOOKS = 6000  # how often `until` looks at a page that changes by itself


class Browser:
    """One window of the browser, as a context manager."""

    def __enter__(self) -> Browser:
        self._folder = tempfile.TemporaryDirectory()
        self._driver = subprocess.Popen(
            [str(DRIVER), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        flags = [f"--{flag}" for flag in FLAGS] + [f"--user-data-dir={self._folder.name}"]
        options = {"goog:chromeOptions": {"binary": CHROMIUM, "args": flags}, "goog:loggingPrefs": {"browser": "ALL"}}
        self._session = ""
        try:
            self._port = self._chosen_port()
            self._session = (
                "/session/" + self._call("POST", "/session", capabilities={"alwaysMatch": options})["sessionId"]
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._session:
                self._call("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.communicate()
            self._folder.cleanup()

    def open(self, page: Path) -> None:
        """Loads a page from disk and drops earlier output of the console."""
        self.console()
        # The blank page comes first, because an answer may still concern the earlier page.
        for address in ("about:blank", page.as_uri()):
            self._call("POST", f"{self._session}/url", url=address)
        self.until("return document.readyState + location", lambda state: state == f"complete{page.as_uri()}")

    def until(self, script: str, seen: Callable[[Any], bool]) -> None:
        """Runs a script again and again until its result is as expected.

        The limit is a number of looks and not a time, as a clock may jump.
        """
        for _ in range(LOOKS):
            if seen(value := self.run(script)):
                return
            time.sleep(0.02)
        raise AssertionError(f"in {LOOKS} looks {script!r} did not become right; the last one found {value!r}")

    def run(self, script: str, *arguments: Any) -> Any:
        """Returns the value that a script returns in the page."""
        return self._call("POST", f"{self._session}/execute/sync", script=script, args=list(arguments))

    def press(self, key: str) -> None:
        """Presses and releases a key."""
        strokes = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._call("POST", f"{self._session}/actions", actions=[{"type": "key", "id": "keys", "actions": strokes}])

    def console(self) -> list[str]:
        """Returns what the console has printed since the last call."""
        return [entry["message"] for entry in self._call("POST", f"{self._session}/se/log", type="browser")]

    def emulate(self, width: int, height: int, *, dark: bool = False, script: bool = True) -> None:
        """Sets the size of the screen, the colour scheme that the reader prefers, and whether scripts run."""
        phone = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._devtools("Emulation.setScriptExecutionDisabled", {"value": not script})

    def screenshot(self, path: Path) -> None:
        """Writes the window as a PNG file."""
        path.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))

    def _devtools(self, command: str, parameters: dict[str, Any]) -> None:
        self._call("POST", f"{self._session}/goog/cdp/execute", cmd=command, params=parameters)

    def _chosen_port(self) -> int:
        """Returns the port that chromedriver says it took."""
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            if match := re.search(r"started successfully on port (\d+)", line):
                return int(match[1])
        raise RuntimeError(f"chromedriver ended with status {self._driver.wait()}")

    def _call(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if method == "POST" else None
        address = f"http://127.0.0.1:{self._port}{path}"
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.read().decode()[:500]}") from error
