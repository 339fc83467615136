"""What the alarms say, as lines that fit a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from textwrap import wrap

from groupwise.alarms.catalogue import ALARMS
from groupwise.alarms.contract import WINDOW, Finding

HEADINGS = {"serious": "Serious", "warning": "Warnings"}


def lines_of(findings: Sequence[Finding], checked: Collection[str], steps: int, width: int = 80) -> Iterator[str]:
    """The findings by severity, or that there are none; then what was looked at. No line is longer than `width`."""
    if steps == 0:
        yield "No step is recorded yet."
        return
    for severity, heading in HEADINGS.items():
        of_it = [finding for finding in findings if finding.severity == severity]
        if of_it:
            yield from (heading, "")
        for finding in of_it:
            yield from _finding(finding, width)
    looked = [name for name in ALARMS if name in checked]
    if not findings:
        many = f"{len(looked)} alarm{'' if len(looked) == 1 else 's'}"
        yield from wrap(f"All is well: in {steps} steps none of {many} found anything.", width)
        yield ""
    if steps < 2 * WINDOW:
        yield from wrap(f"Most alarms compare {2 * WINDOW} steps or more: these are too few to say much.", width)
        yield ""
    yield from _entry("Looked at:", ", ".join(looked) or "nothing", width)
    missing = {name: alarm.needs for name, alarm in ALARMS.items() if name not in checked}
    if missing:
        told = "; ".join(f"{name} ({', '.join(needs)})" for name, needs in missing.items())
        yield from _entry("Not looked at, for lack of numbers:", told, width)


def _finding(finding: Finding, width: int) -> Iterator[str]:
    ends = "still so at the end" if finding.until is None else f"over after step {finding.until}"
    yield from wrap(
        f"{finding.alarm} in {finding.stage}, since step {finding.since} (said at step {finding.step}, {ends})", width
    )
    for name, text in (("seen", finding.seen), ("why", finding.why), ("try", finding.advice)):
        yield from _entry(f"  {name:5}", text, width)
    yield ""


def _entry(name: str, text: str, width: int) -> list[str]:
    """`name text`, later lines indented."""
    indent = " " * (8 if name.startswith(" ") else 2)
    return wrap(f"{name} {text}", width, subsequent_indent=indent, break_on_hyphens=False)
