"""Which networks algorithms keep: from what they need, whatever their names."""

from __future__ import annotations

import pytest

from groupwise.algorithms import ALGORITHMS
from groupwise.planning.activations import FUSED_BFLOAT16, Packing
from groupwise.planning.catalogue import find
from groupwise.planning.memory import Workload, networks_at_rest
from groupwise.planning.networks import Network, at_rest, kept, seed_table
from groupwise.planning.recipes import RECIPES, STORAGES
from groupwise.planning.sharding import Sharding


def test_the_seed_table_to_the_digit():
    """At 70 billion parameters, in GB; PPO with a learned reward model, the others with a rule."""
    totals = {
        name: sum(seed_table(name, settings().needs, 70 * 10**9).values()) / 1e9
        for name, settings in ALGORITHMS.items()
        if name in ("ppo", "grpo", "sft", "dpo", "dapo")
    }
    assert totals == {"sft": 700, "dpo": 840, "ppo": 1680, "grpo": 840, "dapo": 700}
    with_reward_model = kept(ALGORITHMS["grpo"]().needs, 1).resident(70 * 10**9, RECIPES["seed"])
    assert sum(with_reward_model.values()) / 1e9 == 980


def test_without_a_kl_there_is_no_reference():
    assert kept(ALGORITHMS["grpo"](beta=0.0).needs).frozen == ()
    assert kept(ALGORITHMS["grpo"](beta=0.1).needs).frozen == ("reference",)


def test_demonstrations_and_pairs_have_no_reward_model():
    for name in ("sft", "dpo"):
        assert "reward model" not in kept(ALGORITHMS[name]().needs, 1).frozen


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_trains_something_and_keeps_its_policy(name):
    networks = kept(ALGORITHMS[name]().needs, 2)
    assert networks.trained and "policy" in networks.trained + networks.frozen
    assert len({*networks.trained, *networks.frozen}) == len(networks.trained + networks.frozen)


def test_several_reward_models_are_counted_each():
    networks = kept(ALGORITHMS["grpo"]().needs, 3)
    assert networks.frozen == ("reference", "reward model", "reward model 2", "reward model 3")
    sizes = networks.resident(1000, RECIPES["mixed"])
    assert [sizes[name] for name in networks.frozen] == [2000] * 4


def test_networks_at_rest_in_shards():
    recipe, layout = RECIPES["mixed"], Sharding(ranks=8, stage=3, tensor_parallel=2)
    networks = [
        Network("policy", 1_008_000, 8_000, matrices=900_000, base=STORAGES["fp8"]),
        Network("critic", 1_000_000, 1_000_000),
        Network("reference", 1_000_000),
    ]
    parts = at_rest(networks, recipe, layout)
    assert parts["weights"] == (900_000 + 2 * 100_000 + 2 * 8_000) / 8
    assert parts["critic's optimiser"] == 8 * 1_000_000 / 8 and parts["reference"] == 2 * 1_000_000 / 8
    assert parts["optimiser"] == 8 * 8_000 / 8
    assert at_rest(networks, recipe, Sharding(8, 1, 2))["reference"] == 2 * 1_000_000 / 2


def test_networks_at_rest_are_counted_once_however_they_are_spread():
    model = find("qwen2.5-0.5b")
    work = Workload(
        model.shape, model.parameters, model.parameters, FUSED_BFLOAT16, Packing.sequence(64),
        reference=True, recipe=RECIPES["mixed"], sharding=Sharding(4),
    )  # fmt: skip
    assert sum(networks_at_rest(work).values()) == 18 * model.parameters
