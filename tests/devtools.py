"""A browser for tests: Chromium without a window, over the DevTools protocol, with the standard library alone."""
from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from harness import fail, limit, wait_until
from harness.settings import needs

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-port=0",
)  # fmt: skip
KEYS = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40, "Tab": 9, " ": 32}


class WebSocket:
    """A client of RFC 6455, as far as a browser's DevTools need one: whole messages of text."""

    def __init__(self, port: int, path: str) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), limit(20))
        key = base64.b64encode(os.urandom(16)).decode()
        self.sock.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.data = b""
        while b"\r\n\r\n" not in self.data:
            self.more()
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n")[0]:
            fail(f"the browser says {head!r}")

    def more(self) -> None:
        got = self.sock.recv(1 << 16)
        if not got:
            fail("the browser has closed the connection")
        self.data += got

    def take(self, size: int) -> bytes:
        while len(self.data) < size:
            self.more()
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def send(self, text: str) -> None:
        body, mask = text.encode(), os.urandom(4)
        size = len(body)
        short = size if size < 126 else 126 if size < 1 << 16 else 127
        longer = b"" if short == size else struct.pack(">H" if short == 126 else ">Q", size)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(body))
        self.sock.sendall(bytes([0x81, 0x80 | short]) + longer + mask + masked)

    def receive(self) -> str:
        message = b""
        while True:
            first, second = self.take(2)
            size = second & 0x7F
            if size > 125:
                size = struct.unpack(">H", self.take(2))[0] if size == 126 else struct.unpack(">Q", self.take(8))[0]
            body = self.take(size)
            if first & 0x0F in (0, 1):
                message += body
                if first & 0x80:
                    return message.decode()
            elif first & 0x0F == 8:
                fail("the browser has closed the connection")


class Browser:
    """One window with one page in it."""

    def __init__(self) -> None:
        found = [name for name in NAMES if shutil.which(name)]
        if not found:
            needs(NAMES[0])
        self.folder = tempfile.mkdtemp(prefix="browser-")
        self.process = subprocess.Popen(
            [found[0], *OPTIONS, f"--user-data-dir={self.folder}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.folder},
        )  # fmt: skip
        try:
            self.attach()
        except BaseException:
            self.close()
            raise

    def attach(self) -> None:
        """Connects to the page that the browser begins with."""
        told = Path(self.folder, "DevToolsActivePort")
        wait_until(lambda: told.exists() and told.read_text().count("\n") > 0, "the browser has started", 30)
        port, path = told.read_text().split("\n")[:2]
        self.socket = WebSocket(int(port), path)
        self.number = 0
        self.session = ""
        self.said: List[str] = []  # on the console: errors, warnings, anything
        self.asked: List[str] = []  # addresses that were loaded
        self.loaded = False
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(limit(10))
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- the protocol ----

    def call(self, method: str, **params: Any) -> Dict[str, Any]:
        """Asks the browser to do something; returns its answer."""
        self.number += 1
        message: Dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            answer = self.listen()
            if answer.get("id") == self.number:
                if "error" in answer:
                    fail(f"{method}: {answer['error']}")
                return answer["result"]

    def listen(self) -> Dict[str, Any]:
        """Reads a message, and notes what it says has happened."""
        message: Dict[str, Any] = json.loads(self.socket.receive())
        event, params = message.get("method", ""), message.get("params", {})
        if event == "Page.loadEventFired":
            self.loaded = True
        elif event == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif event == "Runtime.exceptionThrown":
            self.said.append(json.dumps(params["exceptionDetails"])[:400])
        elif event == "Log.entryAdded":
            self.said.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif event == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        return message

    # ---- what a reader does ----

    def open(self, url: str) -> None:
        self.loaded = False
        new = "loaderId" in self.call("Page.navigate", url=url)  # no other place on the same page
        while new and not self.loaded:
            self.listen()

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        options = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        answer = self.call("Runtime.evaluate", expression=script, **options)
        if "exceptionDetails" in answer:
            fail(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Waits until an expression is true, and the page is there as a whole."""
        script = f"document.readyState === 'complete' && ({script})"
        end = time.monotonic() + limit(5)
        while not self.run(script):
            if time.monotonic() > end:
                fail(f"not true after {limit(5)} s: {script}")
            time.sleep(0.02)

    def press(self, key: str) -> None:
        code = KEYS.get(key, ord(key[0].upper()))
        text = {"text": "\r" if key == "Enter" else key} if key == "Enter" or len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        for letter in text:
            self.call("Input.dispatchKeyEvent", type="char", text=letter)

    def click(self, selector: str) -> None:
        """Clicks on the first element that is of this kind and can be seen."""
        found = json.dumps(selector)
        spot = self.run(
            f"(() => {{ const e = [...document.querySelectorAll({found})].find(e => e.getClientRects().length);"
            "if (!e) return null; e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()"
        )
        if not spot:
            fail(f"nothing to be seen is {selector}")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=spot[0], y=spot[1], button="left", clickCount=1)

    def look(self, width: int, height: int = 900, scheme: str = "light", media: str = "") -> None:
        """The window's size, the colours of the system, screen or paper."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def picture(self, path: Path, whole: bool = False, most: Optional[int] = None) -> None:
        """Writes a screenshot: of the window, or of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], most or 16000), "scale": 1}
        extra = {"captureBeyondViewport": True, "clip": clip} if whole else {}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **extra)["data"]))
