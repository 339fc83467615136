"""What a person sees while a run goes on: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


class Display(Protocol):
    """What the trainer tells."""

    def say(self, line: str) -> None:
        """One thing worth knowing."""

    def step(self, row: Mapping[str, Any], total: int) -> None:
        """A row of metrics was written; `total` steps in the run."""

    def evaluation(self, row: Mapping[str, Any]) -> None:
        """An evaluation's row was written."""


class Silent:
    """Shows nothing."""

    def say(self, line: str) -> None: ...

    def step(self, row: Mapping[str, Any], total: int) -> None: ...

    def evaluation(self, row: Mapping[str, Any]) -> None: ...


class ConsoleDisplay:
    """A live bar with reward, speed and time left on a terminal; one line per step where output is not a terminal.

    Use it as a context manager: the bar is gone when it ends.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def banner(self, title: str, lines: Sequence[str]) -> None:
        """What is about to run."""
        self.console.print(Panel(Text("\n".join(lines)), title=title, title_align="left", expand=False))

    def say(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)

    def step(self, row: Mapping[str, Any], total: int) -> None:
        if not self.console.is_terminal:
            self.say(f"step {row['step']}/{total}  {_numbers(row)}")
            return
        if self.bar is None:
            self.bar = Progress(
                TextColumn("step"), MofNCompleteColumn(), BarColumn(bar_width=24), TextColumn("{task.fields[numbers]}"),
                TextColumn("left"), TimeRemainingColumn(), console=self.console,
            )  # fmt: skip
            self.task = self.bar.add_task("train", total=total, completed=row["step"] - 1, numbers="")
            self.bar.start()
        assert self.task is not None
        self.bar.update(self.task, completed=row["step"], numbers=_numbers(row))
        if row["status"] != "updated":
            self.say(f"step {row['step']}: {row['status']}")

    def evaluation(self, row: Mapping[str, Any]) -> None:
        result = row["eval"]
        told = []
        if result["prompts"]:
            between = _between(result["reward_interval"])
            told.append(f"reward {_number(result['reward'])}{between} on {result['prompts']} test prompts")
        if held_out := result.get("held_out"):
            names = [name for name in held_out if name == "loss" or name.endswith("accuracy")]
            parts = [
                f"{name} {_number(held_out[name])}{_between(result['held_out_interval'].get(name))}" for name in names
            ]
            told.append(f"held out: {', '.join(parts)} on {result['held_out_groups']} groups")
        self.say(f"evaluation at step {row['step']}: {'; '.join(told)}")

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A small table, printed as it is."""
        table = Table(title=title, title_justify="left", title_style="bold", show_header=any(columns))
        for index, column in enumerate(columns):
            table.add_column(column, justify="left" if index == 0 else "right")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.console.print(table)


def _numbers(row: Mapping[str, Any]) -> str:
    """The few numbers of a step that a person follows."""
    seconds = sum(row["seconds"].values())
    tokens = (row["tokens_sampled"] or row["tokens_trained"]) / seconds if seconds else 0.0
    reward = f"reward {row['reward_mean']:.2f}" if row["reward_mean"] is not None else f"loss {_number(row['loss'])}"
    if row.get("pair_accuracy") is not None:
        reward += f"  pairs in order {row['pair_accuracy']:.2f}"
    if row.get("step_accuracy") is not None:
        reward += f"  steps judged right {row['step_accuracy']:.2f}"
    unscored = f"  {row['frac_not_scored']:.0%} not scored" if row.get("frac_not_scored") else ""
    flag = "" if row["status"] == "updated" else f"  {row['status']}"
    return f"{row['stage']}  {reward}  {tokens:.0f} tokens/s{unscored}{flag}"


def _between(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f" [{ends[0]:.3f}, {ends[1]:.3f}]"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
