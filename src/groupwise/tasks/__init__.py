"""Tasks: where prompts come from. `TASKS` is the list; `contract` says what a task is."""

from typing import Annotated

from pydantic import Field

from groupwise.tasks.data import Data
from groupwise.tasks.in_memory import GivenRows, InMemory
from groupwise.tasks.instructions import Instructions
from groupwise.tasks.reasoning_gym import ReasoningGym
from groupwise.tasks.sums import Sums
from groupwise.tasks.worked_sums import WorkedSums

TASKS = {
    "instructions": Instructions,
    "sums": Sums,
    "worked_sums": WorkedSums,
    "data": Data,
    "reasoning_gym": ReasoningGym,
    "rows": GivenRows,
}

AnyTask = Annotated[Instructions | Sums | WorkedSums | Data | ReasoningGym | GivenRows, Field(discriminator="name")]
"""What a run file may name as its task."""

__all__ = ["TASKS", "AnyTask", "Data", "GivenRows", "InMemory", "Instructions", "ReasoningGym", "Sums", "WorkedSums"]
