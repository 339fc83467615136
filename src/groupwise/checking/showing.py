"""What `check-task` prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from groupwise.checking.signal import Signal
from groupwise.checking.task import StageReport
from groupwise.checking.verifiers import VerifierReport
from groupwise.telemetry.display import ConsoleDisplay

EXAMPLES = 5
"""Surprises shown of each reward, and ids of rows that share a fault."""


def show_reports(reports: Sequence[StageReport], display: ConsoleDisplay) -> None:
    """Tables for each stage, and the findings of all at the end."""
    for report in reports:
        display.say(f"\nstage {report.name}: task {report.task}, {report.rows} rows")
        for line in bad_lines(report.bad):
            display.say(f"  {line}")
        for verifier in report.verifiers:
            if verifier.rows:
                _show_verifier(verifier, display)
        if report.signal is not None:
            _show_signal(report.signal, display)
    display.say("")
    findings = [(report, finding) for report in reports for finding in report.findings]
    for report, finding in sorted(findings, key=lambda pair: not pair[1].serious):
        display.say(f"{'WRONG' if finding.serious else 'note'}: stage {report.name}: {finding.text}")
    if not any(report.serious for report in reports):
        display.say(
            "nothing was found that would teach the model something wrong" if reports else "no stage has rewards"
        )


def bad_lines(bad: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A line for each bad row; rows that are bad for one and the same reason share one, with the first of their ids."""
    by_reason: dict[str, list[str]] = {}
    for identity, why in bad:
        by_reason.setdefault(why, []).append(identity)
    for why, ids in by_reason.items():
        if len(ids) == 1:
            yield f"row {ids[0]}: {why}"
        else:
            yield f"{len(ids)} rows ({', '.join(ids[:EXAMPLES])}{', ...' if len(ids) > EXAMPLES else ''}): {why}"


def _show_verifier(verifier: VerifierReport, display: ConsoleDisplay) -> None:
    rows = [
        (
            f"gold, {name}" if kind == "gold" else name,
            *(str(count) if count else "-" for count in (tally.right, tally.wrong, tally.not_scored, tally.no_verdict)),
            "-" if tally.mean_value is None else f"{tally.mean_value:.2f}",
        )
        for (kind, name), tally in verifier.tallies.items()
    ]
    columns = ("answer", "right", "wrong", "not scored", "no verdict", "mean")
    display.table(f"{verifier.label} on {verifier.rows} rows: golds must be right, the rest must not", columns, rows)
    for one in verifier.surprises[:EXAMPLES]:
        verdict = "right" if one.score.correct else "not scored" if one.score.value is None else "not right"
        reason = f" ({one.score.reason})" if one.score.reason else ""
        shown = shortened(one.probe.text, 120)
        display.say(f"  row {one.probe.row['id']}, {one.probe.name}: {shown} is {verdict}{reason}")
    if len(verifier.surprises) > EXAMPLES:
        display.say(f"  ... and {len(verifier.surprises) - EXAMPLES} more")


def _show_signal(signal: Signal, display: ConsoleDisplay) -> None:
    rows = [
        ("pass rate", _share(signal.pass_rate)),
        ("groups with signal", _share(signal.with_signal)),
        ("mean reward", "-" if signal.mean_reward is None else f"{signal.mean_reward:.3f}"),
        ("cut off at the token limit", _share(signal.truncated)),
        ("not scored", _share(signal.not_scored)),
        *((f"  {shortened(reason, 90)}", str(count)) for reason, count in signal.reasons),
        ("seconds of scoring per completion", f"{signal.scoring_seconds:.4f}"),
    ]
    display.table(f"The model on {signal.prompts} prompts x {signal.group_size} completions", ("", ""), rows)
    sizes = [(str(size), _share(formula), _share(within)) for size, formula, within in signal.at_size]
    if sizes:
        columns = ("group size G", "1 - p^G - (1-p)^G", "from these groups")
        display.table("Share of groups with signal", columns, sizes)


def shortened(text: str, most: int) -> str:
    """The text on one line, as Python writes it, of at most about so many characters."""
    return repr(text if len(text) <= most else f"{text[: most - 3]}...")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
