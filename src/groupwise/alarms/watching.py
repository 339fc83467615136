"""Alarms followed through a run: each finding is said once, when it begins to hold, and again only if it returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from groupwise.alarms.catalogue import ALARMS
from groupwise.alarms.contract import Finding
from groupwise.alarms.history import History

QUIET = 10
"""Steps for which a finding must not hold to be over: around a threshold a number goes to and fro."""


class Watcher:
    """Reads a run's rows as they come. A new stage is a new history: another algorithm, another normal."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        """All so far, in the order in which they began; those that are over have `until`."""
        self.checked: set[str] = set()
        """Alarms that had the numbers they need."""
        self._history = History()
        self._open: dict[str, int] = {}
        """Alarm that holds, or did lately -> place of its finding."""
        self._last_held: dict[str, int] = {}

    def see(self, row: Mapping[str, Any]) -> list[Finding]:
        """Take in the next row, and return the findings that begin with it. Rows of evaluations tell nothing."""
        if "eval" in row:
            return []
        if row["stage"] != self._history.stage:
            for name in list(self._open):
                self._end(name)
            self._history = History()
        self._history.add(row)
        begun = []
        for name, alarm in ALARMS.items():
            if name not in self.checked and all(self._history.knows(need) for need in alarm.needs):
                self.checked.add(name)
            found = alarm.check(self._history)
            if found is not None:
                self._last_held[name] = row["step"]
                if name not in self._open:
                    self._open[name] = len(self.findings)
                    self.findings.append(found)
                    begun.append(found)
            elif name in self._open and row["step"] - self._last_held[name] >= QUIET:
                self._end(name)
        return begun

    def _end(self, name: str) -> None:
        place = self._open.pop(name)
        self.findings[place] = replace(self.findings[place], until=self._last_held[name])


def findings(rows: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """What the alarms say of a run, from the rows of its `metrics.jsonl` in order; what still holds has no `until`."""
    watcher = Watcher()
    for row in rows:
        watcher.see(row)
    return watcher.findings
