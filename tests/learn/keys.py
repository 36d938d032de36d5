"""Keys of a terminal, one by one, while something else goes on. Without a terminal there are none."""
from __future__ import annotations

import os
import queue
import signal
import sys
import termios
import threading
import time

LEAVE = "q\x03"  # \x03 is Ctrl-C, which is a key here: make, which waits for us, must not see it as a signal
CLEAR = "\033[H\033[2J\033[3J"


class Keys:
    """`with Keys() as keys:` keys.wait(1.0) is the next key, or "". q and Ctrl-C raise KeyboardInterrupt, at any time.

    live: there is a terminal.
    """

    def __init__(self) -> None:
        self.live = sys.stdin.isatty() and sys.stdout.isatty()
        self._pressed: "queue.Queue[str]" = queue.Queue()

    def __enter__(self) -> "Keys":
        if self.live:
            self._before = termios.tcgetattr(0)
            mode = termios.tcgetattr(0)
            mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
            termios.tcsetattr(0, termios.TCSADRAIN, mode)
            threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            termios.tcsetattr(0, termios.TCSADRAIN, self._before)

    def _read(self) -> None:
        for key in iter(lambda: os.read(0, 1).decode(errors="replace"), ""):
            if key in LEAVE:
                os.kill(os.getpid(), signal.SIGINT)
            else:
                self._pressed.put(key)

    def wait(self, seconds: float) -> str:
        """The next key, "" where none comes in that time."""
        if not self.live:
            time.sleep(seconds)
            return ""
        try:
            return self._pressed.get(timeout=seconds)
        except queue.Empty:
            return ""

    def clear(self) -> None:
        """The screen."""
        if self.live:
            print(CLEAR, end="")
