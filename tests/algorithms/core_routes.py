"""Vectors of what training calls from `core` directly: KL, GAE, whitening, lengths, values, corrections, numerics."""

from __future__ import annotations

import math

import torch
from algorithm_cases import F1, assert_close, tensor

from groupwise.algorithms import GRPO
from groupwise.algorithms.parts import AdaptiveKL, DynamicSampling
from groupwise.core.advantages import StdSpec
from groupwise.core.corrections import Correction, correction_weights
from groupwise.core.gae import gae, length_adaptive_lambda
from groupwise.core.kl import adaptive_coefficient, importance_weighted, k1, k2, k3
from groupwise.core.lengths import soft_overlong_punishment
from groupwise.core.masks import policy_inputs
from groupwise.core.ratios import importance_ratio
from groupwise.core.rows import pack_rows, pack_values, unpack_rows
from groupwise.core.surrogates import clipped_surrogate, soft_gate
from groupwise.core.token_rewards import token_rewards
from groupwise.core.values import explained_variance, value_loss
from groupwise.core.whitening import whiten
from groupwise.models.log_probs import Head, token_log_probs
from groupwise.types import Completion, Group, Prompt, Score


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


def kl_controller(vector):
    inputs = vector["inputs"]
    control = inputs["target"], inputs["horizon"], inputs["n_steps"]
    observed = inputs["observed_kl"]
    betas = [adaptive_coefficient(inputs["beta0"], kl, *control) for kl in observed]
    assert_close(betas, vector["expected"]["beta"], vector["tol"])
    adaptive = AdaptiveKL(target=inputs["target"], horizon=inputs["horizon"])
    algorithm = GRPO(beta=inputs["beta0"], kl_estimator="k1", kl_placement="reward", adaptive_kl=adaptive)
    moved = [algorithm.advance({"kl_per_completion": kl}, inputs["n_steps"]).beta for kl in observed]
    assert_close(moved, vector["expected"]["beta"], vector["tol"])


def k3_overflow(vector):
    for dtype in (torch.float64, torch.float32):
        log_probs = torch.tensor([-vector["inputs"]["d"] - 1], dtype=dtype)
        estimate = k3(log_probs, torch.tensor([-1.0], dtype=dtype))
        tol = vector["tol"] if dtype == torch.float64 else 1e-6
        assert_close(estimate.value, [vector["expected"]["clamp20"]], tol)
        assert estimate.clamped.tolist() == [True]
        assert slope_by_autograd(k3, log_probs, torch.tensor([-1.0], dtype=dtype))[1].tolist() == [0.0]


def temperature(vector):
    inputs = vector["inputs"]
    head = Head(weight=tensor(inputs["logits"])[:, None], bias=None, scale=1.0, softcap=None)
    values = [token_log_probs(torch.ones(1, 1), head, torch.tensor([0]), t)[0].item() for t in inputs["temperature"]]
    assert_close(values, vector["expected"]["logp"], vector["tol"])


def one_row(rewards, values, mask=None):
    mask = [mask or [1] * len(values)]
    return pack_values([rewards], mask), pack_values([values], mask), pack_rows(mask)


def gae_route(vector):
    inputs, config, expected = vector["inputs"], vector["config"], vector["expected"]
    rewards, values, batch = one_row(inputs["rewards"], inputs["values"], inputs.get("mask"))
    settings = {"gamma": config.get("gamma", 1.0), "lam": config.get("lam", 1.0)}
    advantages = gae(rewards, values, batch, final_values=tensor([inputs.get("bootstrap", 0.0)]), **settings)
    if "advantages" in expected:
        assert_close(advantages, expected["advantages"], vector["tol"])
    if "returns" in expected:
        assert_close(advantages + values, expected["returns"], vector["tol"])


def gae_lambda1(vector):
    gae_route(vector)
    other = {**vector["inputs"], "values": [3.0, -1.0, 0.0, 2.0, 7.0]}
    gae_route({**vector, "inputs": other})  # whatever the critic says


def decoupled(vector):
    rewards, values, batch = one_row(vector["inputs"]["rewards"], vector["inputs"]["values"])
    assert_close(gae(rewards, values, batch, lam=0.95), vector["expected"]["policy_advantages"], vector["tol"])
    targets = gae(rewards, values, batch, lam=1.0) + values
    assert_close(targets, vector["expected"]["critic_targets"], vector["tol"])
    alone = gae(tensor([0.0, 0.0, 0.0, 0.0, 1.0]), torch.zeros(5), batch, lam=0.95)
    assert_close(alone[0], vector["expected"]["reward_weight_at_first_token_lambda095"], vector["tol"])


def vapo_lambda(vector):
    lam = length_adaptive_lambda(tensor(vector["inputs"]["lengths"]), vector["inputs"]["alpha"])
    assert_close(lam, vector["expected"]["required"], vector["tol"])


def vapo_gae(vector):
    inputs, expected = vector["inputs"], vector["expected"]
    rewards, values, batch = one_row(inputs["rewards"], inputs["values"])
    lam = length_adaptive_lambda(torch.tensor([inputs["l"]]), 0.05)
    assert_close(lam, [expected["lam"]], vector["tol"])
    advantages = gae(rewards, values, batch, lam=lam)
    assert_close(advantages, expected["advantages"], vector["tol"])
    assert_close([advantages[0], advantages[-1]], [expected["first"], expected["last"]], vector["tol"])


def token_reward(vector):
    inputs = vector["inputs"]
    batch = pack_rows([[1, 1, 1]], old_log_probs=[inputs["old_logp"]], ref_log_probs=[inputs["ref_logp"]])
    rewards = token_rewards(batch, tensor([inputs["score"]]), vector["config"]["beta"])
    assert_close(rewards, vector["expected"]["token_rewards"], vector["tol"])


def value_clip(vector):
    inputs = vector["inputs"]
    values = tensor(inputs["v"]).requires_grad_()
    loss = value_loss(values, tensor(inputs["v_old"]), tensor(inputs["returns"]), vector["config"]["clip"]).mean()
    loss.backward()
    assert_close(loss, vector["expected"]["loss"], vector["tol"])
    assert_close(values.grad[1:], vector["expected"]["dloss_dv_elements_1_2_3"], vector["tol"])


def whitening(vector):
    values, mask = tensor(vector["inputs"]["values"]), torch.tensor(vector["inputs"]["mask"]).bool()
    expected = vector["expected"]
    result = whiten(values, mask)
    assert_close(result.values[mask], expected["population_eps1e8_inside"], vector["tol"])
    assert result.values[4] == expected["masked_value"] and not result.degenerate
    sample = whiten(values, mask, StdSpec(kind="sample", eps=1e-8, place="inside"))
    assert_close(sample.values[mask], expected["sample_eps1e8_inside"], vector["tol"])
    assert_close((result.values + result.mean)[mask], expected["no_shift_population"], vector["tol"])


def variance(vector):
    values, returns = tensor(vector["inputs"]["values"]), tensor(vector["inputs"]["returns"])
    everything = torch.ones(len(values), dtype=torch.bool)
    assert_close(explained_variance(values, returns, everything), vector["expected"]["ev"], vector["tol"])
    assert math.isnan(explained_variance(values, torch.ones(len(values)), everything))


def soft_overlong(vector):
    inputs = vector["inputs"]
    penalty = soft_overlong_punishment(torch.tensor(inputs["lengths"]), inputs["L_max"], inputs["L_cache"])
    assert_close(penalty, vector["expected"]["penalty"], vector["tol"])


def dynamic_sampling(vector):
    inputs, expected = vector["inputs"], vector["expected"]
    rows = [list(map(bool, row)) for row in inputs["correct"]]
    for metric, key in (("correct", "keep"), ("reward", "keep_if_filtering_on_shaped_reward")):
        sampling = DynamicSampling(metric=metric)
        groups = [
            Group("a", Prompt("a", (), ""), (Completion((), "stop"),) * 4, tuple(map(Score, rewards, correct)))
            for rewards, correct in zip(inputs["shaped_reward"], rows, strict=True)
        ]
        kept = [sampling.refuses(group) is None for group in groups]
        assert kept == expected[key]


def correction_inputs(sampler):
    batch = pack_rows(F1["mask"], old_log_probs=F1["old_logp"], sampler_log_probs=sampler, advantages=F1["advantages"])
    return policy_inputs(batch, pack_values(F1["logp"], F1["mask"]), sampler=True)


def corrections(vector):
    inputs, expected = correction_inputs(vector["inputs"]["rollout_logp"]), vector["expected"]

    def weights(kind, **bounds):
        return unpack_rows(correction_weights(Correction(kind=kind, **bounds), inputs).weight, F1["mask"])

    def per_row(rows):
        return rows[:, 0]

    mask = tensor(F1["mask"])
    assert_close(weights("tis-token", cap=1e9), expected["token_ratio"], vector["tol"])
    assert_close(weights("tis-token", cap=2), expected["tis_token_C2"], vector["tol"])
    assert_close(per_row(weights("tis-seq", cap=2)), expected["tis_seq_C2"], vector["tol"])
    assert_close(per_row(weights("tis-seq", cap=1e9)), expected["seq_ratio"], vector["tol"])
    assert_close(per_row(weights("mis-seq", cap=2)), expected["mis_seq_C2"], vector["tol"])
    assert_close(weights("mis-token", cap=2), expected["mis_token_C2"], vector["tol"])
    assert_close(weights("icepop", floor=0.5, cap=5), expected["icepop_0p5_5"], vector["tol"])
    assert_close(per_row(weights("geo-rs", floor=0.99, cap=1.5)), expected["geo_keep_0p99_1p5"], vector["tol"])
    for row, (ratio, spread) in enumerate(zip(expected["geo_ratio"], expected["k3_seq"], strict=True)):
        for nudge, kept in ((1 + 1e-9, 1), (1 - 1e-9, 0)):
            assert per_row(weights("geo-rs", floor=1e-9, cap=ratio * nudge))[row] == kept
            assert per_row(weights("k3-rs", cap=spread * nudge))[row] == kept
    assert (weights("tis-seq") * mask == weights("tis-seq")).all()


def offpolicy_mask(vector):
    inputs = correction_inputs(F1["old_logp"])  # bypass: the sampler is the old policy
    for bound in (vector["inputs"].get("delta"), vector["config"].get("delta")):
        if bound is not None:
            weights = correction_weights(Correction(kind="offpolicy-seq-mask", cap=bound), inputs).weight
            assert unpack_rows(weights, F1["mask"])[:, 0].tolist() == vector["expected"]["keep"]
    drift = tensor(vector["expected"]["mean_log_ratio"])
    for row in (1, 3):  # bad completions: dropped just where the bound is below their drift
        for bound in (drift[row].abs().item() * (1 + 1e-9), drift[row].abs().item() * (1 - 1e-9)):
            weights = correction_weights(Correction(kind="offpolicy-seq-mask", cap=bound), inputs).weight
            kept = not drift[row] > bound
            assert unpack_rows(weights, F1["mask"])[row, 0] == kept


def gate(vector):
    advantages, expected = tensor(vector["inputs"]["A"]), vector["expected"]
    surrogate = soft_gate(importance_ratio(torch.full((2,), -1.0), torch.full((2,), -1.0)), advantages, 1.0, 1.05)
    assert_close(surrogate.gate, expected["gate_weight"], vector["tol"])
    assert_close(surrogate.loss, expected["loss"], vector["tol"])


def huge_ratio(vector):
    for key, expected in vector["expected"].items():
        clamp, dual = (None if key.endswith("noclamp") else 20.0), (3.0 if key.endswith("dual3") else 0.0)
        log_probs = tensor([vector["inputs"]["log_ratio"] - 60]).requires_grad_()
        ratio = importance_ratio(log_probs, tensor([-60.0]), clamp)
        surrogate = clipped_surrogate(ratio, tensor([1.0 if key.startswith("pos") else -1.0]), 0.2, 0.2, dual)
        surrogate.loss.sum().backward()
        assert_close([surrogate.loss.item(), log_probs.grad.item()], expected, vector["tol"])
        assert_close(-surrogate.coefficient, log_probs.grad)
        assert ratio.clamped.tolist() == [clamp is not None]


CORE = {
    "kl_values_exact": kl_values,
    "kl_gradients_exact": kl_gradients,
    "kl_pointwise": kl_pointwise,
    "kl_k3_small": kl_k3_small,
    "kl_f1": kl_f1,
    "kl_adaptive_controller": kl_controller,
    **dict.fromkeys(("gae_g1_l095", "gae_g1_l1", "gae_g1_l0", "gae_g099_l095", "gae_bootstrap"), gae_route),
    "gae_masked_tool_tokens": gae_route,
    "gae_lambda1_return": gae_lambda1,
    "ppo_token_reward": token_reward,
    "ppo_value_clip": value_clip,
    "whiten": whitening,
    "vc_ppo_decoupled": decoupled,
    "vc_explained_variance": variance,
    "vapo_lambda": vapo_lambda,
    "vapo_gae_len40": vapo_gae,
    "dapo_soft_overlong": soft_overlong,
    "dapo_soft_overlong_small": soft_overlong,
    "dapo_dynamic_sampling": dynamic_sampling,
    "corr_weights": corrections,
    "corr_offpolicy_seq_mask": offpolicy_mask,
    "sapo_on_policy": gate,
    "num_huge_ratio": huge_ratio,
    "num_k3_overflow": k3_overflow,
    "num_temperature_logp": temperature,
}
"""Vectors whose route is a public function of `core`, the one that training calls."""
