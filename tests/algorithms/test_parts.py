"""Decisions that settings stand for."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from groupwise.algorithms import DAPO, GRPO, PPO, VAPO, DrGRPO, ValuePretraining
from groupwise.algorithms.parts import AdaptiveKL, DynamicSampling, ReferenceRefresh, SoftOverlong
from groupwise.core.corrections import Correction
from groupwise.errors import DataError
from groupwise.types import Completion, Group, Prompt, Score


def group(*scores):
    return Group("a", Prompt("a", (1,), "?"), (Completion((), "stop"),) * len(scores), scores)


def rounds(sampling, wanted, per_round):
    """How many rounds are sampled before a decision, and which it is."""
    kept = count = 0
    while True:
        count, kept = count + 1, kept + per_round
        decision = sampling.decide(kept, wanted, count)
        if decision != "sample":
            return count, decision


def test_R052_sampling_on_is_bounded():
    always_right = group(Score(1.0, True), Score(1.0, True))
    assert DAPO().keep(always_right) == "every completion is right"
    assert rounds(DynamicSampling(max_rounds=3), 4, 0) == (3, "skip")
    assert rounds(DynamicSampling(max_rounds=3, on_exhausted="error"), 4, 0) == (3, "stop")
    assert rounds(DynamicSampling(max_rounds=3, on_exhausted="skip"), 4, 1) == (3, "skip")
    assert rounds(DynamicSampling(max_rounds=3), 4, 1) == (3, "train")
    assert rounds(DynamicSampling(max_rounds=3), 4, 2) == (2, "train")


def test_what_filters_is_the_verdict_not_the_shaped_reward():
    shaped = group(Score(1.0, True), Score(0.5, True))
    assert DAPO().keep(shaped) == "every completion is right"
    assert DAPO(dynamic_sampling=DynamicSampling(metric="reward")).keep(shaped) is None
    assert DAPO(dynamic_sampling="off").keep(shaped) is None
    assert DAPO().keep(group(Score(0.0, False), Score(None, None))) == "no completion is right"
    assert DAPO().keep(group(Score(0.0, False), Score(1.0, True), Score(None))) is None
    with pytest.raises(DataError, match="return a Score with `correct`"):
        DAPO().keep(group(Score(1.0), Score(0.0)))


def test_needs_say_what_the_trainer_builds():
    assert (
        DAPO().needs.dynamic_sampling == DynamicSampling()
        and DAPO(dynamic_sampling=None).needs.dynamic_sampling is None
    )
    refresh = ReferenceRefresh(every=400)
    assert GRPO(reference_refresh=refresh).needs.reference_refresh == refresh
    assert PPO().needs.critic and PPO().needs.old_log_probs and PPO().needs.reference
    assert not PPO(beta=0).needs.old_log_probs and not PPO(beta=0).needs.reference
    assert PPO(terminal_value="bootstrap").needs.final_values
    assert not ValuePretraining().needs.policy and ValuePretraining().needs.until == ("explained_variance", 0.5)
    assert GRPO(supervision="process").needs.step_rewards and VAPO().needs.verdicts
    assert GRPO(aggregation="group-token-mean").needs.couples_groups
    assert (
        DrGRPO().with_budget(77).length_constant == 77
        and DrGRPO(length_constant=5).with_budget(77).length_constant == 5
    )
    assert GRPO().with_budget(77) == GRPO()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kl_estimator": "k1"}, "use 'k3' or 'k2'"),
        ({"kl_estimator": "k2", "kl_gradient": "unbiased"}, "leave kl_gradient 'as_is'"),
        ({"kl_estimator": "k1", "kl_placement": "reward", "kl_gradient": "unbiased"}, "about a KL in the loss"),
        ({"adaptive_kl": AdaptiveKL()}, "set kl_placement to 'reward'"),
        ({"beta": 0, "reference_refresh": ReferenceRefresh(every=1)}, "set beta above 0"),
        ({"beta": 0, "adaptive_kl": AdaptiveKL()}, "set beta above 0"),
        ({"correction": "offpolicy-seq-mask"}, "set cap"),
        ({"correction": {"kind": "tis-token", "floor": 0.5}}, "leave floor out"),
        ({"correction": {"kind": "icepop", "cap": 0.1}}, "lower the floor"),
        ({"soft_overlong": {"max_length": 3, "cache": 4}}, "lower it"),
        ({"std": "nemo-rl", "scale": "batch"}, "use scale 'group'"),
    ],
)
def test_wrong_combinations_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        GRPO.model_validate(settings)


def test_a_correction_may_be_its_kind_alone():
    assert GRPO.model_validate({"correction": "tis-token"}).correction == Correction(kind="tis-token")
    assert Correction(kind="tis-token").bounds() == (0.0, 2.0)
    assert SoftOverlong(max_length=4, cache=4).factor == 1
