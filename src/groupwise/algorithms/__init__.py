"""The algorithms by the name that a run file uses. A new one is a file of its own and its name in the two
lines below."""

from typing import Annotated

from pydantic import Field

from groupwise.algorithms.base import AlgorithmSettings
from groupwise.algorithms.grpo import GRPO
from groupwise.algorithms.sft import SFT

ALGORITHMS: dict[str, type[AlgorithmSettings]] = {"grpo": GRPO, "sft": SFT}

AnyAlgorithm = Annotated[GRPO | SFT, Field(discriminator="name")]
"""The type of a run file's `algorithm` table."""

__all__ = ["ALGORITHMS", "GRPO", "SFT", "AlgorithmSettings", "AnyAlgorithm"]
