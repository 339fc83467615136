"""The rungs of the ladder: which algorithm each is, with which settings, and where its samples come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Rung:
    """One row of the table. What isn't said is the algorithm's own default."""

    label: str
    samples: Literal["none", "once", "pairs", "live"]
    """Written demonstrations; samples of the start, drawn once; pairs of those samples; samples of the live policy."""
    algorithm: Mapping[str, Any]
    learning_rate: float = 3e-4
    pretraining: float = 0.0
    """Share of the budget on which a critic is trained before the policy is."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the stage."""


RUNGS = (
    Rung("SFT", "none", {"name": "sft"}),
    Rung("RFT", "once", {"name": "rft"}),
    Rung("DPO", "pairs", {"name": "dpo"}, learning_rate=2e-5),
    Rung("Online RFT", "live", {"name": "online_rft"}),
    Rung("PPO", "live", {"name": "ppo"}, more={"critic": {"learning_rate": 3e-4}}),
    Rung("GRPO+OS", "live", {"name": "grpo"}),
    Rung("GRPO+PS", "live", {"name": "grpo", "supervision": "process"}),
    Rung("Dr. GRPO", "live", {"name": "dr_grpo"}),
    Rung("DAPO", "live", {"name": "dapo"}),
    Rung("GSPO", "live", {"name": "gspo"}),
    # The published 0.05 suits answers of thousands of tokens: below 20 it gives a trace of 0, the critic's word alone.
    Rung(
        "VAPO",
        "live",
        {"name": "vapo", "length_alpha": 2.0},
        pretraining=0.15,
        more={"critic": {"learning_rate": 3e-4}},
    ),
)
