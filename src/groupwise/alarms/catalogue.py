"""Every alarm, by its name."""

from __future__ import annotations

from groupwise.alarms.completions import Repetition, Truncation, WrongLength
from groupwise.alarms.contract import Alarm
from groupwise.alarms.machine import MemoryGrowth, ThroughputDecay
from groupwise.alarms.optimisation import GradientSpikes, IdleLearningRate
from groupwise.alarms.policy import (
    ClipShare,
    EntropyCollapse,
    EntropyExplosion,
    KlBlowUp,
    RatioBlowUp,
    SamplerGap,
)
from groupwise.alarms.signal import DeadGroups, NoSignal, RewardPart

ALARMS: dict[str, Alarm] = {
    alarm.name: alarm
    for alarm in (
        EntropyCollapse(),
        EntropyExplosion(),
        KlBlowUp(),
        RatioBlowUp(),
        ClipShare(),
        SamplerGap(),
        Truncation(),
        WrongLength(),
        Repetition(),
        DeadGroups(),
        NoSignal(),
        RewardPart(),
        GradientSpikes(),
        IdleLearningRate(),
        MemoryGrowth(),
        ThroughputDecay(),
    )
}
"""In the order in which they are checked and shown."""
