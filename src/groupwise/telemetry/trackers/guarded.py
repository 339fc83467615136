"""Trackers that can never stop a run, nor slow it: each has a thread of its own, and a queue that drops when full.

The first error of a tracker, whatever it is, gives one warning, and it is not called again. A tracker that hangs is
left behind when the run ends.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import Empty, Full, Queue
from typing import Any

from groupwise.telemetry.trackers.contract import Start, Tracker, TrackerSettings

WAITING = 1000
"""Rows that may wait for a tracker; a row is a few kilobytes."""

Row = tuple[int, dict[str, float]]


class Guarded:
    """One tracker in its thread."""

    def __init__(self, name: str, open_tracker: Callable[[], Tracker], waiting: int = WAITING) -> None:
        self.name, self.open_tracker = name, open_tracker
        self.failed = False
        self.dropped = 0
        """Rows that it was too slow for."""
        self.notes: Queue[str] = Queue()
        """What a person should hear, in order."""
        self._rows: Queue[Row | None] = Queue(maxsize=waiting)
        self._thread: threading.Thread | None = None

    def log(self, step: int, values: dict[str, float]) -> None:
        """Hand over a row; never waits."""
        if self.failed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"groupwise-{self.name}", daemon=True)
            self._thread.start()
        try:
            self._rows.put_nowait((step, values))
        except Full:
            self.dropped += 1

    def close(self, seconds: float) -> None:
        """Let it finish, but wait no longer than this."""
        if self._thread is None:
            return
        end = time.monotonic() + seconds
        while not self.failed and time.monotonic() < end:
            try:
                self._rows.put(None, timeout=0.05)
                break
            except Full:
                continue
        self._thread.join(max(0.0, end - time.monotonic()))
        if self._thread.is_alive():
            self.notes.put(f"the tracker {self.name} has not finished in {seconds:g} s and is left behind")
        if self.dropped:
            self.notes.put(f"the tracker {self.name} was too slow: it lacks {self.dropped} rows of metrics")

    def _work(self) -> None:
        try:
            tracker = self.open_tracker()
            while (row := self._rows.get()) is not None:
                tracker.log(*row)
            tracker.close()
        except BaseException as error:  # a library may raise anything, SystemExit too; none of it is ours
            self.failed = True
            what = f"{type(error).__name__}: {error}".partition("\n")[0]
            self.notes.put(f"the tracker {self.name} failed and is not used any more ({what}); the run goes on")


class Trackers:
    """All trackers of a run."""

    def __init__(self, settings: Sequence[TrackerSettings], start: Start, say: Callable[[str], None]) -> None:
        """`say` is called by whoever calls these methods, never by a tracker's thread."""
        self.say = say
        self.guarded = [Guarded(one.name, lambda one=one: one.open(start)) for one in settings]  # type: ignore[misc]

    def log(self, row: Mapping[str, Any]) -> None:
        """Hand a row of metrics to each, and say what is to be said of them."""
        if self.guarded:
            values = scalars(row)
            for tracker in self.guarded:
                tracker.log(row["step"], values)
            self._say_notes()

    def close(self, seconds: float = 30.0) -> None:
        """Let them finish, each for as long as this at most."""
        for tracker in self.guarded:
            tracker.close(seconds)
        self._say_notes()

    def _say_notes(self) -> None:
        for tracker in self.guarded:
            while True:
                try:
                    self.say(tracker.notes.get_nowait())
                except Empty:
                    break


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a row of metrics, `seconds/rollout` for one in a table; without `step`."""
    return {name: value for name, value in _numbers(row) if name != "step"}


def _numbers(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{above}{key}/")
        elif isinstance(value, int | float) and math.isfinite(value):
            yield f"{above}{key}", float(value)
