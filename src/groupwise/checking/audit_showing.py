"""What `audit` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from groupwise.checking.audit import StageAudit, remarks
from groupwise.checking.regrade import SecondOpinion
from groupwise.checking.showing import shortened
from groupwise.telemetry.display import ConsoleDisplay

EXAMPLES = 10
"""Disagreements shown."""
WIDE = 300
"""Characters of a completion that are shown."""
COLUMNS = 80
"""The longest line, but for completions, which are never broken."""


def show_audits(audits: Sequence[StageAudit], opinion: SecondOpinion | None, display: ConsoleDisplay) -> None:
    """Tables for each stage, what stands out, what to read, and the second grader."""
    for one in audits:
        _show_stage(one, display)
    if not audits:
        _say("no stage of this run scored completions", display)
    if opinion is not None:
        _show_opinion(opinion, display)


def _show_stage(one: StageAudit, display: ConsoleDisplay) -> None:
    display.say("")
    _say(f"stage {one.stage}: {one.steps} steps, {one.completions} completions", display)
    quarters = ", ".join(f"{share:.1%}" for share in one.unread_by_quarter)
    unread = f"not scored or no answer read {one.unread:.1%} (by quarter: {quarters})"
    _say(f"not scored {one.not_scored:.1%}; {unread}", display)
    for reason, count in one.reasons:
        _say(f"{count} x {reason}", display, "  ")
    if one.changes:
        rows = [
            (change.name, f"{change.first:.3f}", f"{change.last:.3f}", f"{change.difference:+.3f}", _mark(change.clear))
            for change in one.changes
        ]
        display.table("From the first to the last quarter of the steps", ("", "first", "last", "change", "clear"), rows)
    if len(one.parts) > 1:
        parts = [
            (
                part.name,
                f"{part.first:.3f}",
                f"{part.last:.3f}",
                _mark(part.clear),
                f"{part.weight:.3g}",
                _share(part.share_of_gain),
            )
            for part in one.parts
        ]
        columns = ("", "first", "last", "clear", "fitted weight", "share of the gain")
        display.table("Parts of the reward", columns, parts)
    for text in remarks(one):
        _say(text, display)
    if one.suspects:
        display.say("")
        _say(f"the {len(one.suspects)} completions to read first:", display)
    for number, suspect in enumerate(one.suspects, start=1):
        row = suspect.completion
        value = "not scored" if row.reward is None else f"reward {row.reward:g}"
        place = f"step {row.step}, {row.row['group_id']}, sample {row.row['sample']}"
        _say(f"{number}. {place}, {value}: {'; '.join(suspect.why)}", display)
        display.say(f"   {shortened(row.text, WIDE)}")


def _show_opinion(opinion: SecondOpinion, display: ConsoleDisplay) -> None:
    rows = [(*pair.split(" / "), str(count)) for pair, count in opinion.verdicts.items()]
    share = opinion.share
    told = "none has a verdict of both" if share is None else f"it disagrees on {share:.1%}"
    title = f"{opinion.grader} on {opinion.judged} recorded completions: {told}"
    display.table(title, ("recorded", opinion.grader, "completions"), rows)
    for reason, count in opinion.reasons:
        _say(f"{count} x not scored: {reason}", display, "  ")
    for one in opinion.disagreements[:EXAMPLES]:
        display.say(f"step {one.step}, {one.group_id}, sample {one.sample}: {shortened(one.completion, WIDE)}")
        recorded = f"recorded {one.recorded} ({one.recorded_reason})"
        _say(f"{recorded}; {opinion.grader} {one.second} ({one.second_reason})", display, "   ")
    if len(opinion.disagreements) > EXAMPLES:
        _say(f"... and {len(opinion.disagreements) - EXAMPLES} more, all in --json", display)


def _say(text: str, display: ConsoleDisplay, indent: str = "") -> None:
    """The text in lines that end at words, those after the first further in."""
    for line in textwrap.wrap(
        text, COLUMNS, initial_indent=indent, subsequent_indent=f"{indent}    ", break_on_hyphens=False
    ):
        display.say(line)


def _mark(clear: bool) -> str:
    return "yes" if clear else "no"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
