"""Every numeric vector of SFT, GRPO with outcome rewards, KL, advantages and numerics, by its id."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from algorithm_cases import F1, F1_REWARDS, VECTORS, assert_close, f1, run, run_parts, tensor

from groupwise.algorithms import GRPO, SFT
from groupwise.core.advantages import STD_PRESETS, group_advantages
from groupwise.core.kl import importance_weighted, k1, k2, k3
from groupwise.core.masks import drop_nonfinite, where_mask
from groupwise.core.ratios import importance_ratio
from groupwise.core.rows import pack_rows, pack_values, unpack_rows
from groupwise.core.surrogates import clipped_surrogate
from groupwise.errors import NonFiniteLogprobError
from groupwise.models.log_probs import Head, token_log_probs

PRESET_OF = {
    "seed_formula": "seed-formula",
    "seed_code": "seed-code",
    "exact_population": "exact",
    "verl": "verl",
    "trl": "trl",
    "openrlhf_group_norm": "openrlhf",
    "oat_grpo": "oat",
}


def advantages(rewards, preset="exact", groups=None, **options):
    rewards = tensor(rewards)
    groups = torch.zeros(len(rewards), dtype=torch.int64) if groups is None else torch.tensor(groups)
    return group_advantages(rewards, groups, int(groups.max()) + 1, STD_PRESETS[preset], **options)


def adv_presets(vector):
    for key, expected in vector["expected"].items():
        if key != "degenerate":
            result = advantages(vector["inputs"]["rewards"], PRESET_OF[key])
            assert_close(result.advantages, expected, vector["tol"])
            assert not result.degenerate.any()


def adv_pair_identity(vector):
    for size, factor in zip(vector["inputs"]["G"], vector["expected"]["factor"], strict=True):
        rewards = torch.arange(size).double()
        sample = STD_PRESETS["exact"].model_copy(update={"kind": "sample"})
        both = [
            group_advantages(rewards, torch.zeros(size).long(), 1, std).advantages
            for std in (sample, STD_PRESETS["exact"])
        ]
        assert_close(both[0] / both[1], torch.full((size,), factor), vector["tol"])


def adv_tie_rounding_demo(vector):
    for size, preset, dtype in itertools.product(vector["inputs"]["G"], STD_PRESETS, (torch.float32, torch.float64)):
        rewards = torch.full((size,), vector["inputs"]["reward"], dtype=dtype)
        result = group_advantages(rewards, torch.zeros(size).long(), 1, STD_PRESETS[preset])
        assert result.advantages.tolist() == [vector["expected"]["required_advantage"]] * size


def adv_tie(vector):
    for preset, scale in itertools.product(STD_PRESETS, ("group", "batch", "none")):
        result = advantages(vector["inputs"]["rewards"], preset, scale=scale, tie_tol=vector["inputs"]["tie_tol"])
        assert result.advantages.tolist() == vector["expected"]["advantages"]
        assert result.degenerate.tolist() == [vector["expected"]["degenerate"]]


def adv_g1(vector):
    assert GRPO().needs.min_group_size == 2  # which makes a configured group of one an error of the run file
    assert GRPO(allow_singleton=True).needs.min_group_size == 1
    for preset in STD_PRESETS:
        assert (
            advantages(vector["inputs"]["rewards"], preset).advantages.tolist() == vector["expected"]["allow_singleton"]
        )


def adv_dr_grpo(vector):
    result = advantages(vector["inputs"]["rewards"], scale="none")
    assert_close(result.advantages, vector["expected"]["advantages"], vector["tol"])


def adv_rloo(vector):
    result = advantages(vector["inputs"]["rewards"], scale="none", baseline="leave-one-out")
    assert_close(result.advantages, vector["expected"]["advantages"], vector["tol"])


def adv_passthrough_nan(vector):
    result = advantages(vector["inputs"]["rewards"])
    assert_close(result.advantages, vector["expected"]["advantages"], vector["tol"])
    step = f1(rewards=vector["inputs"]["rewards"], advantages=None)
    assert run(GRPO(), step).gradient[1].tolist() == [0.0] * 4


def adv_batch_std(vector):
    rewards, groups = sum(vector["inputs"]["rewards"], []), [0] * 4 + [1] * 4
    raw = advantages(rewards, groups=groups, scale="batch").advantages
    assert_close(raw.view(2, 4), vector["expected"]["raw_std"], vector["tol"])
    centred = advantages(rewards, groups=groups, scale="none").advantages
    again = advantages(centred.tolist(), groups=groups, scale="batch").advantages
    assert_close(again.view(2, 4), vector["expected"]["centred_std"], vector["tol"])


def bias_bernoulli(vector):
    """E[(1/G) sum_i A_i (a_i - p)] over all outcomes of G draws from Bernoulli(p), reward = action."""
    estimators = {
        "self_mean": {"scale": "none"},
        "rloo": {"scale": "none", "baseline": "leave-one-out"},
        "std_normalised": {},
    }
    for row in vector["expected"]["rows"]:
        p, size = row["p"], row["G"]
        totals = dict.fromkeys(estimators, 0.0)
        for successes in range(size + 1):
            actions = torch.cat([torch.ones(successes), torch.zeros(size - successes)])
            chance = math.comb(size, successes) * p**successes * (1 - p) ** (size - successes)
            for name, options in estimators.items():
                gradient = (advantages(actions.tolist(), **options).advantages * (actions - p)).mean().item()
                totals[name] += chance * gradient
        for name, total in totals.items():
            assert_close(total, row[name], vector["tol"])


def sft(vector):
    result = run(
        SFT(aggregation=vector["config"]["aggregation"]),
        f1(old=None, ref=None, rewards=None, advantages=None),
    )
    assert_close(result.loss, vector["expected"]["loss"], vector["tol"])
    assert_close(result.gradient, vector["expected"]["dloss_dlogp"], vector["tol"])


def grpo_of(config):
    names = {"eps_low": "clip_low", "eps_high": "clip_high", "norm_len": "length_constant"}
    return GRPO.model_validate({names.get(key, key): value for key, value in config.items()})


def grpo(vector, **changes):
    """Loss, gradient and, where given, clipped tokens and coefficients, with the vector's own advantages."""
    inputs, expected = vector["inputs"], vector["expected"]
    given = {
        "old": "old_logp",
        "ref": "ref_logp",
        "log_probs": "logp",
        "advantages": "advantages",
        "mask": "mask",
    }
    given |= {"groups": "group"}
    values = {name: inputs[key] for name, key in given.items() if key in inputs} | changes
    result = run(grpo_of(vector["config"]), f1(**values))
    assert_close(result.loss, expected["loss"], vector["tol"])
    assert_close(result.gradient, expected["dloss_dlogp"], vector["tol"])
    if "gradient_coefficient" in expected:
        assert_close(result.coefficient, expected["gradient_coefficient"], vector["tol"])
    if "clipped" in expected:
        clipped = sum(result.metrics[f"clip_fraction_{side}"].total for side in ("low", "high"))
        assert clipped == tensor(expected["clipped"]).sum()
    if "kl_mean" in expected:
        weighted = (result.weights * unpack_rows(k3_of_f1().value, F1["mask"])).sum()
        assert_close(weighted, expected["kl_mean"], vector["tol"])
    return result


def grpo_from_rewards(vector):
    """The same through credit: rewards 1, 0, 1, 0 give the vector's advantages exactly."""
    grpo(vector)
    grpo({**vector, "config": {**vector["config"], "std": "exact"}, "inputs": {}}, advantages=None)


def grpo_seed_code(vector):
    config = {"std": "seed-code", "beta": vector["config"]["beta"]}
    grpo({**vector, "config": config, "inputs": {}}, advantages=None)


def grpo_degenerate(vector):
    grpo(vector)
    grpo({**vector, "inputs": {}}, advantages=None, rewards=[0.3] * 4)


def grpo_after_refresh(vector):
    step = f1(old=F1["logp"], ref=F1["logp"])
    result = run(GRPO(beta=vector["config"]["beta"]), step)
    assert_close(result.gradient, vector["expected"]["dloss_dlogp"], vector["tol"])
    assert result.metrics["kl_k3"].total == vector["expected"]["kl"]
    assert torch.equal(result.gradient, run(GRPO(beta=0), step).gradient)


def overlong_filter(vector):
    config = {**vector["config"], "std": "exact", "beta": 0}
    truncated = [bool(cut) for cut in vector["inputs"]["truncated"]]
    grpo({**vector, "config": config, "inputs": {}}, advantages=None, truncated=truncated)


def group_token_mean(vector):
    grpo({**vector, "config": {**vector["config"], "beta": 0}})


def on_policy(vector):
    for old in (F1["logp"], None):
        result = run(GRPO(beta=0), f1(old=old))
        assert_close(result.gradient, vector["expected"]["dloss_dlogp"], vector["tol"])


def k3_of_f1():
    return k3(*(pack_values(F1[name], F1["mask"]) for name in ("logp", "ref_logp")))


def slope_by_autograd(estimate, *arguments, **options):
    """The estimate at these log-probs with its autograd derivative, which must be the closed form's."""
    log_probs = arguments[0].clone().requires_grad_()
    result = estimate(log_probs, *arguments[1:], **options)
    (slope,) = torch.autograd.grad(result.value.sum(), log_probs)
    assert_close(result.slope, slope)
    return result.value.detach(), slope


def iw_k3(log_probs, ref, old):
    return importance_weighted(k3(log_probs, ref), importance_ratio(log_probs, old))


def kl_values(vector):
    inputs, expected = vector["inputs"], vector["expected"]
    log_pi, log_ref = tensor(inputs["logits"]).log_softmax(0), tensor(inputs["ref_probs"]).log()
    for name, estimate in (("k1", k1), ("k2", k2), ("k3", k3)):
        value = estimate(log_pi, log_ref).value
        assert_close(value, expected["per_outcome"][name], vector["tol"])
        assert_close((log_pi.exp() * value).sum(), expected[f"E_{name}"], vector["tol"])


def kl_gradients(vector):
    inputs, expected = vector["inputs"], vector["expected"]
    log_ref, mu = tensor(inputs["ref_probs"]).log(), tensor(inputs["mu_probs"])
    pi = tensor(inputs["logits"]).softmax(0)

    def gradient(objective):
        logits = tensor(inputs["logits"]).requires_grad_()
        objective(logits.log_softmax(0)).backward()
        return logits.grad

    def as_loss(estimate, sampler):
        return gradient(lambda log_pi: (sampler * estimate(log_pi, log_ref).value).sum())

    def as_weighted_loss(estimate, sampler):
        def weighted(log_pi, log_ref):
            return importance_weighted(estimate(log_pi, log_ref), importance_ratio(log_pi, sampler.log()))

        return as_loss(weighted, sampler)

    def as_reward(estimate):
        return gradient(lambda log_pi: (pi * estimate(log_pi, log_ref).value.detach() * log_pi).sum())

    for name, estimate in (("k1", k1), ("k2", k2), ("k3", k3)):
        assert_close(as_loss(estimate, pi), expected["loss_on_policy"][name], vector["tol"])
        assert_close(as_loss(estimate, mu), expected["loss_off_policy"][name], vector["tol"])
        assert_close(as_weighted_loss(estimate, pi), expected["iw_loss_on_policy"][name], vector["tol"])
        assert_close(as_weighted_loss(estimate, mu), expected["iw_loss_off_policy"][name], vector["tol"])
        assert_close(as_reward(estimate), expected["in_reward_on_policy"][name], vector["tol"])


def kl_pointwise(vector):
    for row in vector["expected"]["rows"]:
        log_probs, ref = tensor([row["logp_minus_ref"]]) - 5, tensor([-5.0])
        for name, estimate in (("k1", k1), ("k2", k2), ("k3", k3)):
            value, slope = slope_by_autograd(estimate, log_probs, ref)
            assert_close(value, [row[name]], vector["tol"])
            assert_close(slope, [row[f"d{name}"]], vector["tol"])
        assert_close(slope_by_autograd(iw_k3, log_probs, ref, log_probs)[1], [row["iw_k3_grad"]], vector["tol"])


def kl_k3_small(vector):
    expected = tensor(vector["expected"]["k3"])
    for dtype, tol in (
        (torch.float64, vector["tol"]),
        (torch.float32, 0.3),
    ):  # the naive formula's 0 is 100 % off
        differences = torch.tensor(vector["inputs"]["d_ref_minus_logp"], dtype=dtype)
        value = k3(torch.zeros(3, dtype=dtype), differences).value.double()
        assert ((value / expected - 1).abs() <= tol).all(), value


def kl_f1(vector):
    log_probs, old, ref = (pack_values(F1[name], F1["mask"]) for name in ("logp", "old_logp", "ref_logp"))
    tokens = len(log_probs)
    expected = vector["expected"]
    for name, estimate in (("k1", k1), ("k2", k2), ("k3", k3)):
        value, slope = slope_by_autograd(estimate, log_probs, ref)
        assert_close(value.mean(), expected[name], vector["tol"])
        assert_close(unpack_rows(slope / tokens, F1["mask"]), expected[f"d{name}"], vector["tol"])
    for sampler, key in ((log_probs, "d_iw_k3_onpolicy"), (old, "d_iw_k3_offpolicy")):
        slope = slope_by_autograd(iw_k3, log_probs, ref, sampler)[1]
        assert_close(unpack_rows(slope / tokens, F1["mask"]), expected[key], vector["tol"])


def huge_ratio(vector):
    for key, expected in vector["expected"].items():
        if key.endswith("dual3"):  # the dual clip belongs to PPO
            continue
        clamp = None if key.endswith("noclamp") else 20.0
        log_probs = tensor([vector["inputs"]["log_ratio"] - 60]).requires_grad_()
        ratio = importance_ratio(log_probs, tensor([-60.0]), clamp)
        surrogate = clipped_surrogate(ratio, tensor([1.0 if key.startswith("pos") else -1.0]), 0.2, 0.2)
        surrogate.loss.sum().backward()
        assert_close([surrogate.loss.item(), log_probs.grad.item()], expected, vector["tol"])
        assert_close(-surrogate.coefficient, log_probs.grad)
        assert ratio.clamped.tolist() == [clamp is not None]


def k3_overflow(vector):
    for dtype in (torch.float64, torch.float32):
        log_probs = torch.tensor([-vector["inputs"]["d"] - 1], dtype=dtype)
        estimate = k3(log_probs, torch.tensor([-1.0], dtype=dtype))
        tol = vector["tol"] if dtype == torch.float64 else 1e-6
        assert_close(estimate.value, [vector["expected"]["clamp20"]], tol)
        assert estimate.clamped.tolist() == [True]
        assert slope_by_autograd(k3, log_probs, torch.tensor([-1.0], dtype=dtype))[1].tolist() == [0.0]


def masked_nan(vector):
    base = VECTORS[vector["inputs"]["base"]]
    padding = tensor(F1["mask"]) == 0
    wide = torch.cat([tensor(F1["mask"]), torch.zeros(4, 1), torch.ones(4, 1)], 1)  # a masked token inside

    def widened(name, poison):
        rows = tensor(F1[name]).masked_fill(padding, poison)
        return torch.cat([rows, torch.full((4, 1), poison), torch.full((4, 1), -1.0)], 1)

    for poison in map(float, vector["inputs"]["poison"]):
        rows = {name: widened(name, poison) for name in ("logp", "old_logp", "ref_logp")}
        changes = {"log_probs": rows["logp"], "old": rows["old_logp"], "ref": rows["ref_logp"]}
        grpo(base, **{name: value[:, :4] for name, value in changes.items()})
        poisoned = run(grpo_of(base["config"]), f1(mask=wide, **changes))
        clean = {name: value.nan_to_num(0, 0, 0) for name, value in changes.items()}
        expected = run(grpo_of(base["config"]), f1(mask=wide, **clean))
        assert poisoned.loss == expected.loss
        assert torch.equal(poisoned.gradient, expected.gradient)
        assert (poisoned.gradient[wide == 0] == 0).all()


def unmasked_neginf(vector):
    mask = [vector["inputs"]["mask"]]
    log_probs = torch.tensor([float(value) for value in vector["inputs"]["logp"]], requires_grad=True)
    batch = pack_rows(mask, rewards=[1.0])
    with pytest.raises(NonFiniteLogprobError, match="log_probs is -inf at token 1 of completion 0"):
        where_mask(log_probs, batch)
    kept, dropped = drop_nonfinite(batch, log_probs, None)
    assert kept.loss_mask.tolist() == vector["expected"]["drop_mask"] and dropped == vector["expected"]["dropped"]

    batch = replace(pack_rows(mask, advantages=[1.0]), token_weights=torch.full((2,), 0.5))
    with pytest.raises(NonFiniteLogprobError):
        GRPO(beta=0).loss(batch, log_probs)
    loss = GRPO(beta=0, on_nonfinite="drop").loss(batch, log_probs)
    loss.policy.backward()
    assert loss.policy.item() == -0.5 and log_probs.grad.tolist() == [-0.5, 0.0]
    assert loss.metrics["nonfinite_fraction"].total == dropped


def all_masked(vector):
    mask = vector["inputs"]["mask"]
    step = f1(mask=mask, log_probs=[[-1.0, -1.0]] * 2, old=None, ref=[[-2.0, -2.0]] * 2, rewards=[1.0, 0.0])
    for algorithm in (GRPO(), GRPO(aggregation="token-mean", denominator="nonempty"), SFT()):
        result = run(algorithm, replace(step, advantages=None))
        assert result.loss == vector["expected"]["loss"] and result.gradient.tolist() == vector["expected"]["grad"]
        assert not algorithm.signal(result.batch).any()
        # masked tokens inside a batch, the same, with a graph that leads to them
        batch = replace(f1().batch(), loss_mask=torch.zeros(10, dtype=torch.bool))
        batch = replace(batch, token_weights=algorithm.weigh(batch))
        log_probs = torch.full((10,), -1.0, requires_grad=True)
        loss = algorithm.loss(batch, log_probs).policy
        loss.backward()
        assert loss.item() == 0 and log_probs.grad.tolist() == [0.0] * 10


def empty_completion(vector):
    for denominator, expected in vector["expected"].items():
        config = {"beta": 0, "denominator": denominator}
        grpo({**vector, "config": config, "expected": expected})


def microbatch(vector):
    algorithm = GRPO(beta=0, aggregation="token-mean")
    whole = run(algorithm, f1())
    loss, gradient = run_parts(algorithm, f1(), [[0, 1], [2, 3]])
    assert_close(whole.loss, vector["expected"]["correct"], vector["tol"])
    assert_close(loss, vector["expected"]["correct"], vector["tol"])
    assert_close(unpack_rows(gradient, F1["mask"]), whole.gradient)


def temperature(vector):
    inputs = vector["inputs"]
    head = Head(weight=tensor(inputs["logits"])[:, None], bias=None, scale=1.0, softcap=None)
    values = [token_log_probs(torch.ones(1, 1), head, torch.tensor([0]), t)[0].item() for t in inputs["temperature"]]
    assert_close(values, vector["expected"]["logp"], vector["tol"])


def clip_truth_table(vector):
    for row in vector["expected"]["rows"]:
        log_probs = tensor([row["log_ratio"] - 1]).requires_grad_()
        ratio = importance_ratio(log_probs, tensor([-1.0]))
        surrogate = clipped_surrogate(
            ratio, tensor([row["A"]]), vector["inputs"]["eps_low"], vector["inputs"]["eps_high"]
        )
        surrogate.loss.sum().backward()
        assert_close(surrogate.loss, [row["loss"]], vector["tol"])
        assert_close(log_probs.grad, [row["grad"]], vector["tol"])
        assert_close(-surrogate.coefficient, log_probs.grad, vector["tol"])
        clipped = [surrogate.clipped_low.item(), surrogate.clipped_high.item()]
        assert clipped == [row["grad"] == 0 and row["A"] < 0, row["grad"] == 0 and row["A"] > 0]


def gc_table(vector):
    step = f1(mask=[[1]], log_probs=[[-1.6]], old=None, ref=[[-1.0]], rewards=None, advantages=[-1.0])
    for algorithm, key in ((SFT(), "sft"), (GRPO(beta=0.04), "grpo"), (GRPO(beta=0), "grpo_beta0")):
        assert_close(run(algorithm, step).coefficient, [[vector["expected"][key]]], vector["tol"])


ROUTES: dict[str, Callable] = {
    **dict.fromkeys(
        (
            "adv_group_seed_example",
            "adv_group_mixed6",
            "adv_group_pair",
            "adv_group_one_of_eight",
            "adv_group_pm1_three_of_four",
            "adv_not_tie",
        ),
        adv_presets,
    ),
    "adv_pair_identity": adv_pair_identity,
    "adv_tie_rounding_demo": adv_tie_rounding_demo,
    **dict.fromkeys(
        ("adv_tie_zeros", "adv_tie_ones", "adv_tie_tenths", "adv_tie_tenths10", "adv_tie_near_tie"), adv_tie
    ),
    "adv_G1": adv_g1,
    "adv_dr_grpo": adv_dr_grpo,
    "adv_rloo": adv_rloo,
    "adv_rloo_seed": adv_rloo,
    "adv_passthrough_nan": adv_passthrough_nan,
    "adv_batch_std": adv_batch_std,
    "bias_bernoulli_exact": bias_bernoulli,
    "sft_seq": sft,
    "sft_token": sft,
    "grpo_outcome_beta0.0": grpo_from_rewards,
    "grpo_outcome_beta0.04": grpo_from_rewards,
    "grpo_on_policy_gc": grpo,
    "grpo_seed_code": grpo_seed_code,
    "grpo_degenerate_group_keeps_kl": grpo_degenerate,
    "grpo_after_ref_refresh": grpo_after_refresh,
    "grpo_iw_k3": grpo,
    "inv_on_policy_gradient": on_policy,
    "dr_grpo": grpo,
    "dapo": grpo,
    "dapo_overlong_filter": overlong_filter,
    "dapo_group_token_mean": group_token_mean,
    "kl_values_exact": kl_values,
    "kl_gradients_exact": kl_gradients,
    "kl_pointwise": kl_pointwise,
    "kl_k3_small": kl_k3_small,
    "kl_f1": kl_f1,
    "num_huge_ratio": huge_ratio,
    "num_k3_overflow": k3_overflow,
    "num_masked_nan": masked_nan,
    "num_unmasked_neginf": unmasked_neginf,
    "num_all_masked": all_masked,
    "num_empty_completion": empty_completion,
    "num_microbatch_invariance": microbatch,
    "num_temperature_logp": temperature,
    "clip_truth_table": clip_truth_table,
    "gc_table": gc_table,
}


@pytest.mark.parametrize("id", ROUTES)
def test_vector(id):
    ROUTES[id](VECTORS[id])


def test_every_vector_of_these_families_has_a_route():
    families = ("adv_", "sft_", "grpo_", "kl_", "num_")
    others = ("adv_process", "grpo_process_loss", "kl_adaptive_controller")
    ids = {id for id in VECTORS if id.startswith(families) and not id.startswith(others)}
    assert ids and ids <= set(ROUTES)


def test_f1_rewards_give_f1_advantages():
    assert advantages(F1_REWARDS).advantages.tolist() == F1["advantages"]
