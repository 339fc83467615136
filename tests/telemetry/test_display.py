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


def test_on_a_terminal_a_bar_shows_step_reward_speed_and_time_left() -> None:
    text = shown(True, row(1), row(2, status="skipped: the loss is nan"))
    for expected in ("2/9", "reward 0.25", "100 tokens/s", "left", "step 2: skipped: the loss is nan"):
        assert expected in text, expected


def test_evaluations_are_said_with_their_interval() -> None:
    result = {"reward": 0.5, "reward_interval": [0.25, 0.75], "prompts": 4}
    assert "evaluation at step 3: reward 0.500 [0.250, 0.750] on 4 test prompts" in shown(
        False, {"step": 3, "eval": result}
    )
    nothing = {"reward": None, "reward_interval": None, "prompts": 1}
    assert "evaluation at step 0: reward - on 1 test prompts" in shown(False, {"step": 0, "eval": nothing})
