"""The table `[alarms]` of a run file."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Self

from pydantic import model_validator

from groupwise.alarms.catalogue import ALARMS
from groupwise.settings import Settings


class AlarmSettings(Settings):
    """Rules over the metrics that say when a run goes wrong; `groupwise doctor` asks the same ones afterwards."""

    on: bool = True
    """Say what alarms find while the run goes on, and keep it in `alarms.jsonl`."""
    stop: tuple[str, ...] = ()
    """Alarms that end the run when they begin to hold, as an interruption does: with a checkpoint, to be resumed."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for name in self.stop:
            if name not in ALARMS:
                near = get_close_matches(name, ALARMS, 1)
                fix = f"did you mean {near[0]}?" if near else f"use some of {', '.join(ALARMS)}"
                raise ValueError(f"there is no alarm {name!r}; {fix}")
        if self.stop and not self.on:
            raise ValueError("alarms.stop has no effect with alarms.on = false; leave one of them out")
        return self
