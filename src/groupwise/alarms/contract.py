"""What an alarm is: a frozen rule over the metrics of one stage, and what it says when it holds.

    @dataclass(frozen=True)
    class Cold(Alarm):
        name = "cold"
        severity = "warning"
        needs = ("temperature",)
        within = 8
        why = "frozen pipes burst"
        advice = "raise `heating.level`"
        limit: float = 0.0
        \"\"\"Water freezes here.\"\"\"

        def seen(self, history):
            mean = history["temperature"].mean(8)
            if mean is None or mean > self.limit:
                return None
            return Seen(f"{mean:.1f} degrees", history["temperature"].since(lambda value: value <= self.limit))

An alarm reads numbers of rows alone, so that it says the same live and on a folder. It looks at windows of steps, not
at single ones, for one step of a healthy run may show anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from groupwise.alarms.history import History

Severity = Literal["serious", "warning"]

WINDOW = 8
"""Steps over which a number is averaged, and of the start that it is compared with: few enough to speak in time."""
CLEAR = 4.0
"""Standard errors by which a change must exceed chance: a rule is tried at each of hundreds of steps."""


class Seen(NamedTuple):
    """The numbers that an alarm saw, as text, and the step at which they began to be so."""

    text: str
    since: int


@dataclass(frozen=True, slots=True)
class Finding:
    """What an alarm says."""

    alarm: str
    severity: Severity
    """`serious`: the run is being lost, or its numbers mislead; `warning`: it wastes time or will go wrong."""
    stage: str
    step: int
    """The step after which it was said."""
    since: int
    """The step at which it began, as far as the numbers show."""
    seen: str
    why: str
    """Why it matters."""
    advice: str
    """What to try, with names of settings between backquotes."""
    until: int | None = None
    """The last step at which it held, where it is over."""

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    def line(self) -> str:
        """The finding in one line."""
        return f"{self.severity}: {self.alarm} since step {self.since}: {self.seen}; try: {self.advice}"


@dataclass(frozen=True)
class Alarm(ABC):
    """One rule; its fields are thresholds and windows, each with its reason."""

    name: ClassVar[str]
    severity: ClassVar[Severity]
    needs: ClassVar[tuple[str, ...]]
    """The series of `History` that it reads; where one is missing it never holds."""
    within: ClassVar[int]
    """Steps after its fault begins by which it has spoken; docs/alarms.md says of each what that fault is."""
    why: ClassVar[str]
    advice: ClassVar[str]

    @abstractmethod
    def seen(self, history: History) -> Seen | None:
        """What is seen after the newest step; None where the rule does not hold."""

    def check(self, history: History) -> Finding | None:
        """The finding after the newest step of a stage."""
        seen = self.seen(history)
        if seen is None:
            return None
        return Finding(
            self.name, self.severity, history.stage, history.step, seen.since, seen.text, self.why, self.advice
        )
