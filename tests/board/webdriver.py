"""webdriver.py - a browser, driven by the WebDriver protocol over plain HTTP.

Debian's chromium and chromedriver, Python's standard library and nothing else.
`find_browser()` tells whether they are here. Waits end by what is seen in the
page, never by a fixed time.
"""
import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

PATIENCE_S = float(os.environ.get("FIRN_PATIENCE_S", "120"))


def find_browser():
    """Paths of chromedriver and of the browser; None where one is missing."""
    driver = shutil.which("chromedriver")
    browser = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    return (driver, browser) if driver and browser else None


def wait_for(what, look, patience_s=PATIENCE_S):
    """The first true value of look(); fails with what it waited for."""
    until_s = time.monotonic() + patience_s
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() > until_s:
            raise AssertionError(f"waited {patience_s} s in vain: {what}")
        time.sleep(0.05)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Browser:
    """One window. `width` and `height` are those of the page, in pixels."""

    def __init__(self, width=1400, height=900, is_dark=False):
        driver, browser = find_browser()
        self.folder = tempfile.mkdtemp(prefix="firn-board-")
        port = free_port()
        self.process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "HOME": self.folder, "TMPDIR": self.folder})
        self.base = f"http://127.0.0.1:{port}"
        self.session = None
        wait_for("chromedriver listens", self._is_up)
        arguments = ["--headless=new", "--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                     "--disable-background-networking", "--force-color-profile=srgb", f"--user-data-dir={self.folder}/profile", f"--window-size={width},{height}"]
        if is_dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        caps = {"browserName": "chrome", "goog:chromeOptions": {"binary": browser, "args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = self._call("POST", "/session", {"capabilities": {"alwaysMatch": caps}})["sessionId"]
        self.resize(width, height)

    def _is_up(self):
        try:
            return self._call("GET", "/status").get("ready", False)
        except OSError:
            return False

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].splitlines()[0]) from None

    def call(self, method, path, body=None):
        return self._call(method, f"/session/{self.session}{path}", body)

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def js(self, script, *args):
        """The value of a script that returns one."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def text(self, selector="main"):
        return self.js("const e = document.querySelector(arguments[0]); return e ? e.innerText : ''", selector)

    def see(self, text, selector="main"):
        return wait_for(f"{selector} shows '{text}'", lambda: text in self.text(selector))

    def count(self, selector):
        return self.js("return document.querySelectorAll(arguments[0]).length", selector)

    def wait(self, selector):
        return wait_for(f"there is {selector}", lambda: self.count(selector))

    def click(self, selector):
        self.wait(selector)
        self.js("document.querySelector(arguments[0]).click()", selector)

    def type(self, selector, text):
        self.wait(selector)
        element = self.call("POST", "/element", {"using": "css selector", "value": selector})
        self.call("POST", f"/element/{next(iter(element.values()))}/value", {"text": text})

    def press(self, *keys):
        steps = [step for key in keys for step in ({"type": "keyDown", "value": key}, {"type": "keyUp", "value": key})]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": steps}]})

    def resize(self, width, height):
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride",
                                                "params": {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}})

    def busy_s(self):
        """Processor seconds that the page's main thread has used, for scripts, styles, layout and the rest."""
        self.call("POST", "/goog/cdp/execute", {"cmd": "Performance.enable", "params": {"timeDomain": "threadTicks"}})
        answer = self.call("POST", "/goog/cdp/execute", {"cmd": "Performance.getMetrics", "params": {}})
        return {m["name"]: m["value"] for m in answer["metrics"]}["TaskDuration"]

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/screenshot")))

    def console(self):
        """Errors of scripts, and what the policy of the page refused, so far."""
        return [line["message"] for line in self.call("POST", "/se/log", {"type": "browser"}) if line["level"] == "SEVERE"]

    def close(self):
        try:
            if self.session:
                self._call("DELETE", f"/session/{self.session}")
        except (OSError, RuntimeError):
            pass
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
