"""What changed between quarters, and when a reward counts as gamed."""

from __future__ import annotations

import random

import pytest

from groupwise.alarms.drift import CORRECT, change, explain_gain, gamed, part_weights


def line(first: float, last: float, steps: int = 60, noise: float = 0.03, seed: int = 0) -> list[float]:
    draws = random.Random(seed)
    return [first + (last - first) * step / (steps - 1) + draws.gauss(0, noise) for step in range(steps)]


def total(*parts: list[float]) -> list[float]:
    return [sum(values) for values in zip(*parts, strict=True)]


WEIGHTS = {"format": 1.0, "accuracy": 1.0}


def test_R053_a_reward_that_rises_by_its_format_while_the_task_gets_worse_is_named() -> None:
    parts = {"format": line(0.2, 1.0), "accuracy": line(0.3, 0.02, seed=1)}
    found = gamed(total(*parts.values()), parts, [None] * 60, WEIGHTS)
    assert found is not None and found.part == "format" and found.fallen == ("accuracy",)
    assert found.share_of_gain > 1 and found.since_quarter == 1


def test_R053_a_flat_format_and_a_rising_accuracy_are_no_alarm() -> None:
    parts = {"format": line(0.5, 0.5), "accuracy": line(0.1, 0.7, seed=1)}
    assert gamed(total(*parts.values()), parts, parts["accuracy"], WEIGHTS) is None


@pytest.mark.parametrize("seed", range(20))
def test_chance_alone_is_no_alarm(seed: int) -> None:
    parts = {"format": line(0.5, 0.5, noise=0.1, seed=seed), "accuracy": line(0.5, 0.5, noise=0.1, seed=seed + 100)}
    assert gamed(total(*parts.values()), parts, parts["accuracy"], WEIGHTS) is None


def test_a_fall_after_a_rise_is_seen_from_the_quarter_where_it_began() -> None:
    accuracy = line(0.1, 0.7, steps=30) + line(0.7, 0.1, steps=30, seed=2)
    parts = {"format": line(0.1, 0.2, steps=30) + line(0.2, 1.0, steps=30, seed=3), "accuracy": accuracy}
    found = gamed(total(*parts.values()), parts, [None] * 60, WEIGHTS)
    assert found is not None and found.part == "format" and found.since_quarter in (2, 3)


def test_verdicts_that_fall_count_where_no_part_does() -> None:
    parts = {"judge": line(0.2, 0.9)}
    found = gamed(parts["judge"], parts, line(0.6, 0.1, seed=5), {"judge": 1.0})
    assert found is not None and (found.part, found.fallen) == ("judge", (CORRECT,))


def test_a_part_that_is_only_recorded_can_fall() -> None:
    parts = {"train": line(0.2, 0.9), "held_out": line(0.5, 0.1, seed=4)}
    found = gamed(parts["train"], parts, [None] * 60, {"train": 1.0, "held_out": -1e-12})
    assert found is not None and found.fallen == ("held_out",)


def test_penalties_may_fall() -> None:
    parts = {"accuracy": line(0.1, 0.9), "overlong": line(0.0, -0.2, seed=6)}
    assert gamed(total(*parts.values()), parts, parts["accuracy"], {"accuracy": 1.0, "overlong": 1.0}) is None
    length = {"accuracy": line(0.1, 0.9), "length": line(0.8, 0.2, seed=7)}
    whole = [a - 0.5 * b for a, b in zip(length["accuracy"], length["length"], strict=True)]
    assert gamed(whole, length, length["accuracy"], {"accuracy": 1.0, "length": -0.5}) is None


def test_weights_are_those_that_give_the_rewards() -> None:
    draws = random.Random(0)
    rows = []
    for _ in range(200):
        parts = {"a": draws.random(), "b": draws.choice([0.0, 1.0, None]), "recorded": draws.random()}
        rows.append((parts, 0.3 * parts["a"] - 2.0 * (parts["b"] or 0.0)))
    weights = part_weights(rows)
    assert weights == pytest.approx({"a": 0.3, "b": -2.0, "recorded": 0.0}, abs=1e-9)
    assert part_weights([]) == {}


def test_the_gain_is_shared_out() -> None:
    parts = {"format": line(0.2, 1.0, noise=0.0), "accuracy": line(0.3, 0.1, noise=0.0)}
    explained = explain_gain(total(*parts.values()), parts, WEIGHTS)
    shares = [part.share_of_gain for part in explained]
    assert None not in shares and sum(share or 0.0 for share in shares) == pytest.approx(1.0)
    assert shares[0] == pytest.approx(0.8 / 0.6) and explained[1].last < explained[1].first
    assert [part.share_of_gain for part in explain_gain([0.5] * 60, parts, WEIGHTS)] == [None, None]


def test_few_steps_say_nothing() -> None:
    assert change("reward", line(0.0, 1.0, steps=7)) is None
    assert change("reward", [None] * 50 + line(0.0, 1.0, steps=7)) is None
    eight = change("reward", [0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0])
    assert eight is not None and (eight.first, eight.last, eight.clear) == (0.0, 1.0, True)
