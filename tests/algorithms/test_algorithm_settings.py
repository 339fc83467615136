"""Algorithms as tables of settings: what they need, what they refuse, what they say of themselves."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import replace
from typing import ClassVar, Literal, get_args

import pytest
import torch
from algorithm_cases import assert_close, f1, prepare, random_step, run
from pydantic import TypeAdapter, ValidationError

from groupwise import algorithms
from groupwise.algorithms import GRPO, PPO, RLOO, SFT, AlgorithmSettings, AnyAlgorithm, ValuePretraining, contract
from groupwise.algorithms.contract import Algorithm, Loss, Needs
from groupwise.core.advantages import STD_PRESETS
from groupwise.core.layout import completions_where, identity, per_token
from groupwise.core.masks import where_mask
from groupwise.core.rows import pack_values
from groupwise.core.weights import token_weights
from groupwise.types import Completion, Group, Prompt, Score


def test_names_and_the_type_of_a_run_file_agree():
    assert {
        cls.model_fields["name"].default: cls for cls in get_args(get_args(AnyAlgorithm)[0])
    } == algorithms.ALGORITHMS
    adapter = TypeAdapter(AnyAlgorithm)
    assert adapter.validate_python({"name": "grpo", "beta": 0, "std": "verl"}) == GRPO(beta=0, std=STD_PRESETS["verl"])
    assert adapter.validate_python({"name": "sft"}) == SFT()
    with pytest.raises(ValidationError, match="betta"):
        adapter.validate_python({"name": "grpo", "betta": 0})
    for cls in algorithms.ALGORITHMS.values():
        assert isinstance(cls(), Algorithm)
        assert all(field.description for name, field in cls.model_fields.items() if name != "name")


def test_settings_survive_being_written_and_read():
    algorithm = GRPO.model_validate({"std": "trl", "clip_low": 10, "clip_high": 10, "aggregation": "token-mean"})
    assert GRPO.model_validate(algorithm.model_dump()) == algorithm


@pytest.mark.parametrize(
    "bad",
    [
        {"beta": -0.1},
        {"beta": float("nan")},
        {"clip_low": 0},
        {"std": "verll"},
        {"aggregation": "mean"},
        {"kl_gradient": "k1"},
    ],
)
def test_impossible_settings_are_refused(bad):
    with pytest.raises(ValidationError):
        GRPO.model_validate(bad)


def test_needs_follow_from_settings():
    assert GRPO().needs == Needs("prompts", rewards=True, min_group_size=2, reference=True)
    assert GRPO(beta=0).needs == Needs("prompts", rewards=True, min_group_size=2)
    assert SFT().needs == Needs("demonstrations", rewards=False)
    with pytest.raises(AssertionError, match="reference"):
        run(GRPO(), f1(ref=None))


def test_objective_carries_the_numbers():
    text = GRPO.model_validate({"std": "verl", "beta": 0.07, "clip_low": 0.1, "clip_high": 0.25}).objective()
    for part in (
        "0.07 k3",
        "clip(ρ, 0.9, 1.25)",
        "(std r + 1e-06)",
        "sample std of the group",
        "1 / (|o_i| N)",
        "1e-06",
    ):
        assert part in text
    unbiased = GRPO(kl_gradient="unbiased", aggregation="seq-mean-token-sum-norm", length_constant=77).objective()
    assert "ρ k3" in unbiased and "KL(π_θ ‖ π_ref)" in unbiased and "L = 77" in unbiased
    assert "sqrt(var r + 1e-08)" in GRPO().objective() and "KL(π_ref ‖ π_θ)" in GRPO().objective()
    plain = GRPO(beta=0, scale="none", denominator="nonempty", overlong_filter=True, ratio_clamp=0).objective()
    assert "k3" not in plain and "not divided" in plain and "left out" in plain and "leave the loss" in plain
    assert "token-mean" in SFT().objective() and len({GRPO().objective(), SFT().objective()}) == 2


def test_objective_shows_only_what_it_uses():
    critic_alone = ValuePretraining().objective()
    assert "[ −L_V ]" in critic_alone and "the critic alone" in critic_alone and "½ (V − R)²" in critic_alone
    assert "A_t" not in critic_alone and "ρ" not in critic_alone
    assert "ρ = " not in RLOO().objective() and "ρ = " in RLOO(surrogate_form="sequence_clip").objective()
    assert "ρ = " in GRPO().objective() and "γ = 1, λ = 0.9" in PPO(lam=0.9).objective()


def test_signal_follows_advantages_without_kl_and_the_mask_with_it():
    step = f1(rewards=[1.0, 1.0, 0.5, float("nan")], groups=["a", "a", "b", "b"], advantages=None)
    batch = prepare(GRPO(), step)
    assert GRPO(beta=0).signal(batch).tolist() == [False] * 4
    assert GRPO().signal(batch).tolist() == [True, True, True, False]
    batch = prepare(GRPO(), replace(step, rewards=[1.0, 0.0, 0.5, 0.5]))
    assert GRPO(beta=0).signal(batch).tolist() == [True, True, False, False]
    assert SFT().signal(batch).tolist() == [True] * 4


def test_what_counts_as_a_tie_is_a_setting():
    step = f1(rewards=[1.0, 0.9, 1.0, 0.9], advantages=None)
    assert (prepare(GRPO(tie_tol=0.2), step).advantages == 0).all()
    assert (prepare(GRPO(tie_tol=0.05), step).advantages != 0).all()


def test_groups_are_kept_whatever_their_scores():
    def group(*scores):
        return Group("a", Prompt("a", (1,), "?"), tuple(Completion((), "stop") for _ in scores), scores)

    assert SFT().keep(group(None)) is None
    assert GRPO().keep(group(Score(1.0), Score(1.0))) is None
    assert GRPO().keep(group(Score(None), Score(float("nan")))) is None  # masked, and counted in N


def test_metrics_of_f1():
    metrics = run(GRPO(), f1()).metrics
    assert (metrics["clip_fraction_low"].total, metrics["clip_fraction_low"].count) == (1, 10)
    assert metrics["clip_fraction_high"].total == 3
    assert metrics["ratio_max"].value == pytest.approx(torch.tensor(0.5).exp().item())
    assert metrics["kl_k1"].total / metrics["kl_k1"].count == pytest.approx(-0.085)
    assert metrics["kl_k3"].total / metrics["kl_k3"].count == pytest.approx(0.0411345580514928)
    assert "kl_k3" not in run(GRPO(beta=0), f1(ref=None)).metrics
    assert "kl_k3" in run(GRPO(beta=0), f1()).metrics


def test_truncated_completions_can_leave_the_statistics():
    step = f1(advantages=None, truncated=[True, False, False, False])
    exact = {"std": "exact", "beta": 0}
    kept = run(GRPO.model_validate(exact | {"overlong_filter": True}), step)
    left = run(GRPO.model_validate(exact | {"overlong_filter_stats": True}), step)
    alone = run(GRPO.model_validate(exact), replace(step, rewards=[float("nan"), 0.0, 1.0, 0.0]))
    assert kept.batch.advantages[4:].unique().tolist() == [-1, 1]
    assert torch.equal(left.gradient, alone.gradient) and not torch.equal(left.gradient, kept.gradient)


def test_one_demonstration_without_targets_is_not_counted():
    result = run(
        SFT(aggregation="seq-mean-token-mean"),
        f1(mask=[[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]),
    )
    assert result.weights[0, :2].tolist() == [0.25, 0.25] and result.weights[2, 0] == 0.5


def test_training_types_are_float32():
    torch.set_default_dtype(torch.float32)
    try:
        step = random_step(3)
        batch = prepare(GRPO(), step)
        assert batch.advantages.dtype == batch.token_weights.dtype == torch.float32
        log_probs = pack_values(step.log_probs, step.mask).requires_grad_()
        loss = GRPO().loss(batch, log_probs)
        assert loss.policy.dtype == loss.coefficient.dtype == torch.float32
        assert not batch.advantages.requires_grad and not batch.token_weights.requires_grad
    finally:
        torch.set_default_dtype(torch.float64)


def test_worked_example_of_the_contract_runs():
    source = inspect.getdoc(contract).split("A worked example")[1]
    source = textwrap.dedent(source[source.index("    class Reinforce") :])
    assert isinstance(ast.parse(source).body[0], ast.ClassDef)
    names = {
        **{
            "AlgorithmSettings": AlgorithmSettings,
            "Needs": Needs,
            "Loss": Loss,
            "Literal": Literal,
            "ClassVar": ClassVar,
        },
        **{
            "torch": torch,
            "replace": replace,
            "identity": identity,
            "per_token": per_token,
            "where_mask": where_mask,
        },
        **{"token_weights": token_weights, "completions_where": completions_where, "__name__": __name__},
    }
    exec(source, names)
    reinforce = TypeAdapter(names["Reinforce"]).validate_python({"name": "reinforce"})
    assert isinstance(reinforce, Algorithm)
    step = f1(old=None, ref=None, rewards=[1.0, 0.0, 0.5, float("nan")], advantages=None)
    result = run(reinforce, step)
    assert reinforce.signal(result.batch).tolist() == [True, True, False, False]
    assert_close(result.coefficient[:, 0], [0.5, -0.5, 0.0, 0.0])
    assert_close(result.gradient[:2, 0], [-0.05, 0.05])
    assert "r_i - mean r" in reinforce.objective()
