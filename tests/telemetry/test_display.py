"""What a person sees while a run goes on."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from groupwise.telemetry.display import ConsoleDisplay


def row(step: int, **changes: Any) -> dict[str, Any]:
    return {
        "step": step, "stage": "0-grpo", "status": "updated", "reward_mean": 0.25, "loss": 0.0, "tokens_sampled": 300,
        "tokens_trained": 280, "seconds": {"rollout": 1.0, "update": 2.0},
    } | changes  # fmt: skip


def shown(terminal: bool, *rows: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, highlight=False)
    with ConsoleDisplay(console) as display:
        for entry in rows:
            (display.evaluation if "eval" in entry else lambda one: display.step(one, 9))(entry)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_without_a_terminal_there_is_one_line_per_step() -> None:
    text = shown(False, row(1), row(2, status="no signal"), row(3, reward_mean=None, loss=1.5, tokens_sampled=0))
    lines = text.splitlines()
    assert len(lines) == 3
    assert "step 1/9" in lines[0] and "reward 0.25" in lines[0] and "100 tokens/s" in lines[0]
    assert "no signal" in lines[1]
    assert "loss 1.500" in lines[2] and "93 tokens/s" in lines[2]


def test_completions_that_could_not_be_scored_are_named_where_there_are_some() -> None:
    lines = shown(False, row(1, frac_not_scored=0.25), row(2, frac_not_scored=0.0), row(3)).splitlines()
    assert "25% not scored" in lines[0] and not any("not scored" in line for line in lines[1:])


FULL: dict[str, Any] = {
    "completion_length_mean": 1234.5, "entropy": 12.345, "grad_norm": 1234.5, "frac_degenerate_groups": 1.0,
    "frac_truncated": 1.0, "frac_not_scored": 1.0, "reward_mean": -12.345,
}  # fmt: skip


def table(*rows: dict[str, Any], width: int = 80, total: int = 90_000) -> list[str]:
    """The lines of the last table that a terminal shows."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False, color_system=None)
    with ConsoleDisplay(console) as display:
        for entry in rows:
            display.step(entry, total)
        assert display.live is not None
        plain = Console(file=io.StringIO(), width=width)
        plain.print(display.live.renderable)
        return plain.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_on_a_terminal_a_table_shows_the_last_steps() -> None:
    lines = table(*(row(step, **FULL) for step in range(89_001, 89_030)))
    assert "0-grpo   step 89029 of 90000   100 tokens/s   about " in lines[0] and lines[0].rstrip().endswith("left")
    assert lines[1].split() == [
        "step", "reward", "length", "entropy", "grad", "norm", "tied", "cut", "off", "not", "scored", "seconds",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[3:] if line.strip()] == [str(step) for step in range(89_018, 89_030)]
    assert lines[-1].split() == [
        "89029", "-12.345", "1234.5", "12.345", "1.2e+03", "100%", "100%", "100%", "3.0",
    ]  # fmt: skip


def test_the_table_fits_80_columns_with_everything_in_it() -> None:
    lines = table(*(row(step, **FULL) for step in range(89_001, 89_003)))
    assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)


def test_columns_that_say_nothing_are_left_out() -> None:
    lines = table(row(1, frac_truncated=0.0, frac_not_scored=0.0, entropy=None))
    assert lines[1].split() == ["step", "reward", "seconds"]
    supervised = table(row(1, reward_mean=None, loss=1.5, entropy=2.0))
    assert supervised[1].split() == ["step", "loss", "entropy", "seconds"]
    assert supervised[3].split() == ["1", "1.500", "2.000", "3.0"]


def test_a_terminal_keeps_what_was_said_and_the_last_table_of_each_stage() -> None:
    text = shown(True, row(1), row(2, status="skipped: the loss is nan"), row(3, stage="1-ppo"))
    for expected in ("2 of 9", "100 tokens/s", "step 2: skipped: the loss is nan", "1-ppo   step 3 of 9"):
        assert expected in text, expected
    assert text.rindex("0-grpo   step 2 of 9") < text.index("1-ppo")


def test_evaluations_are_said_with_their_interval() -> None:
    result = {"reward": 0.5, "reward_interval": [0.25, 0.75], "prompts": 4}
    assert "evaluation at step 3: reward 0.500 [0.250, 0.750] on 4 test prompts" in shown(
        False, {"step": 3, "eval": result}
    )
    nothing = {"reward": None, "reward_interval": None, "prompts": 1}
    assert "evaluation at step 0: reward - on 1 test prompts" in shown(False, {"step": 0, "eval": nothing})
