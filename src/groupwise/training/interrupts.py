"""Ctrl-C and SIGTERM: finish the step in hand, save, and stop. A second Ctrl-C stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupts:
    """What the outside asked for since training began."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    @contextmanager
    def listening(self, say: Callable[[str], None]) -> Iterator[None]:
        """Catch the signals inside; in other threads than the main one Python delivers none, so nothing is caught."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, _: object) -> None:
            if self.signal is not None and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.signal = signal.Signals(number)
            say(f"{self.signal.name}: finishing this step, then saving (Ctrl-C again stops at once)")

        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
