"""Algorithms that are each other under some condition, on any optimiser step."""

from __future__ import annotations

from dataclasses import replace

import torch
from algorithm_cases import PER_TOKEN, assert_close, prepare, random_step, rows_of, run, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from groupwise.algorithms import CISPO, DAPO, DPO, GMPO, GRPO, GSPO, PPO, RLOO, SAPO, VAPO, VCPPO, DrGRPO, GSPOToken
from groupwise.core.corrections import BOUNDS, Correction, correction_weights
from groupwise.core.gae import gae
from groupwise.core.masks import policy_inputs
from groupwise.core.rows import pack_rows, pack_values

SEEDS = st.integers(0, 2**31)
few = settings(max_examples=15)
EXACT = {"kind": "population", "eps": 0.0, "place": "outside"}


def alike(step, *algorithms, tol=1e-11):
    first, *others = [run(algorithm, step) for algorithm in algorithms]
    for other in others:
        assert_close(other.gradient, first.gradient, tol)
    return first


@few
@given(seed=SEEDS)
def test_on_policy_the_family_has_one_gradient(seed):
    step = random_step(seed, on_policy=True)
    alike(step, GRPO(beta=0), GSPO(), GSPOToken(), GMPO(), SAPO())
    alike(step, DAPO(), CISPO(), GRPO(beta=0, aggregation="token-mean"))


@few
@given(seed=SEEDS)
def test_gspo_token_is_gspo_where_advantages_are_those_of_completions(seed):
    bounds = {"clip_low": 0.05, "clip_high": 0.06}
    step = random_step(seed)
    alike(step, GSPO(**bounds), GSPOToken(**bounds))
    assert_close(run(GSPO(**bounds), step).loss, run(GSPOToken(**bounds), step).loss)


@few
@given(seed=SEEDS)
def test_gmpo_unclipped_is_gspo_unclipped(seed):
    wide = {"clip_low": 100.0, "clip_high": 100.0}
    step = random_step(seed)
    alike(step, GSPO(**wide), GMPO(**wide))
    assert_close(run(GSPO(**wide), step).loss, run(GMPO(**wide), step).loss)


@few
@given(seed=SEEDS)
def test_rloo_is_dr_grpo_times_g_over_g_minus_one(seed):
    step = random_step(seed)
    left_out = prepare(RLOO(beta=0), step)
    centred = prepare(DrGRPO(length_constant=6), step)
    scored = ~left_out.rewards.isnan()
    sizes = torch.zeros(len(left_out.group_ids)).index_add(0, left_out.group_index, scored.double())
    factor = (sizes / (sizes - 1).clamp(min=1))[left_out.group_index][left_out.completion_index]
    assert_close(left_out.advantages, centred.advantages * factor)


@few
@given(seed=SEEDS)
def test_one_step_at_the_last_token_is_outcome_supervision(seed):
    step = random_step(seed, whole=True)
    last = [[int(row.sum()) - 1] for row in step.mask]
    step = replace(step, step_rewards=[[reward] for reward in step.rewards.tolist()], step_ends=last)
    alike(step, GRPO(), GRPO(supervision="process"))


@few
@given(seed=SEEDS)
def test_equal_traces_make_vc_ppo_ppo_and_vapo_without_its_parts_vc_ppo(seed):
    step = random_step(seed)
    for left, right in (
        (PPO(beta=0), VCPPO(critic_lam=0.95)),
        (VCPPO(clip_high=0.28), VAPO(length_alpha=0, nll_coefficient=0)),
    ):
        one, other = prepare(left, step), prepare(right, step)
        assert torch.equal(one.advantages, other.advantages) and torch.equal(one.returns, other.returns)
        alike(step, left, right)


@few
@given(seed=SEEDS)
def test_gae_at_its_ends(seed):
    step = random_step(seed)
    batch = step.batch()
    rewards, values = (pack_values(rows, step.mask) for rows in (step.ref, step.values))
    td, whole = (gae(rewards, values, batch, lam=lam) for lam in (0.0, 1.0))
    for start, end in batch.completion_spans:
        inside = [token for token in range(start, end) if batch.loss_mask[token]]
        for place, token in enumerate(inside):
            after = values[inside[place + 1]].item() if place + 1 < len(inside) else 0.0
            assert_close(td[token], rewards[token] + after - values[token])
            assert_close(whole[token], rewards[inside[place:]].sum() - values[token])


@few
@given(seed=SEEDS)
def test_every_correction_is_the_identity_for_equal_log_probs(seed):
    step = random_step(seed)
    step = replace(step, sampler=step.old)
    plain = run(GRPO(), step)
    for kind in set(BOUNDS) - {"offpolicy-seq-mask"}:
        corrected = run(GRPO(correction=Correction(kind=kind)), step)
        assert torch.equal(corrected.gradient, plain.gradient) and corrected.loss == plain.loss
        assert torch.equal(corrected.weights, plain.weights)
    drift = GRPO(correction=Correction(kind="offpolicy-seq-mask", cap=1e-6))
    on_policy = replace(step, old=step.log_probs, sampler=step.log_probs)
    assert torch.equal(run(drift, on_policy).gradient, run(GRPO(), on_policy).gradient)


@few
@given(seed=SEEDS)
def test_corrections_keep_denominators_and_leave_the_kl_alone(seed):
    step = random_step(seed)
    nothing = GRPO(beta=0.3, correction=Correction(kind="geo-rs", floor=1e5, cap=1e6))  # every weight 0
    result = run(nothing, step)
    no_rewards = replace(step, rewards=torch.where(step.rewards.isnan(), step.rewards, 1.0))
    assert_close(result.gradient, run(GRPO(beta=0.3), no_rewards).gradient)
    assert torch.equal(result.weights, run(GRPO(beta=0.3), step).weights)


@few
@given(seed=SEEDS)
def test_swapping_a_pair_flips_its_margin(seed):
    step = random_step(seed, pairs=True)
    swapped = rows_of(step, [row + 1 - 2 * (row % 2) for row in range(len(step.mask))])
    margin, flipped = (run(DPO(), each).metrics["margin"].total for each in (step, swapped))
    assert_close(margin, -flipped)
    level = replace(step, mask=torch.ones_like(step.mask))
    moved = replace(level, ref=level.ref - 0.7)
    assert_close(run(DPO(), moved).gradient, run(DPO(), level).gradient)


def test_R009_an_outlier_of_the_sampler_is_bounded_and_shown():
    random = torch.Generator().manual_seed(3)
    shape = (8, 32)
    log_probs = -3 * torch.rand(shape, generator=random)
    noise = 0.02 * torch.randn(shape, generator=random)
    spoiled = noise.clone()
    spoiled[2, 5] = -20.0
    rows = {"old_log_probs": log_probs, "advantages": [1.0, -1.0] * 4}

    def loss_of(sampler):
        algorithm = GRPO(beta=0, correction=Correction(kind="tis-token"))
        batch = algorithm.weigh(pack_rows(torch.ones(shape), sampler_log_probs=sampler, **rows))
        leaf = log_probs.flatten().clone().requires_grad_()
        loss = algorithm.loss(batch, leaf)
        loss.policy.backward()
        weight = correction_weights(algorithm.correction, policy_inputs(batch, leaf, sampler=True)).weight
        return loss, leaf.grad, weight

    _, clean, _ = loss_of(log_probs)
    loss, gradient, weight = loss_of(log_probs + spoiled)
    assert weight.max() == 2.0 and torch.isfinite(loss.policy) and gradient.isfinite().all()
    assert loss.metrics["sampler_gap_max"].value > 19 and loss.metrics["sampler_gap_fraction"].total == 1
    _, gradient, _ = loss_of(log_probs + noise)
    assert torch.cosine_similarity(gradient, clean, dim=0) > 0.99


def test_R069_old_log_probs_are_frozen_and_travel_with_their_samples():
    logits = torch.zeros(4, 6, 5, requires_grad=True)
    tokens = torch.arange(24).view(4, 6) % 5

    def log_probs():
        return logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]

    algorithm = GRPO(beta=0, clip_low=0.05, clip_high=0.05)
    old = log_probs().detach()
    batch = algorithm.credit(pack_rows(torch.ones(4, 6), rewards=[1.0, 0.0, 1.0, 0.0], old_log_probs=old))
    batch = algorithm.weigh(batch)
    metrics = []
    for _ in range(2):
        loss = algorithm.loss(batch, log_probs().flatten())
        (gradient,) = torch.autograd.grad(loss.policy, logits)
        logits = (logits - 5.0 * gradient).detach().requires_grad_()
        metrics.append(loss.metrics)
    first, second = metrics
    assert first["ratio_max"].value == 1 and first["clip_fraction_high"].total == 0
    assert second["ratio_max"].value > 1.05 and second["clip_fraction_high"].total > 0


def test_R075_masked_tokens_inside_change_nothing_but_their_own_place():
    mask = [[1, 1, 0, 0, 1], [1, 1, 1, 0, 0]]
    step = random_step(5)
    step = replace(rows_of(step, [0, 1]), mask=torch.tensor(mask).bool(), groups=["a", "a"], truncated=None)
    step = replace(step, rewards=tensor([1.0, 0.0]), correct=[True, False])
    step = replace(step, **{field: torch.arange(10.0).view(2, 5).cos() - 2 for field in ("log_probs", "old", "ref")})
    compressed = {
        field: torch.stack([torch.cat([getattr(step, field)[row][:5][step.mask[row]]]) for row in (0, 1)])
        for field in ("log_probs", "old", "ref", "values")
    }
    shorter = replace(step, mask=torch.ones(2, 3).bool(), sampler=None, step_rewards=None, step_ends=None, **compressed)
    step = replace(step, values=step.values[:, :5], sampler=None, step_rewards=None, step_ends=None)
    for algorithm in (GRPO(), GSPO(), GMPO(), PPO(beta=0.1), VAPO(), DAPO()):
        whole, short = run(algorithm, step), run(algorithm, shorter)
        assert_close(whole.loss, short.loss)
        assert (whole.gradient[~step.mask] == 0).all()
        assert_close(whole.gradient[step.mask], short.gradient.flatten())
    assert "values" in PER_TOKEN


def test_R095_ratios_of_sequences_are_means_over_real_tokens_in_log_space():
    step = pack_rows([[1, 1, 1, 0, 0]], old_log_probs=[[-1.3, -0.7, -1.6, -10.0, -10.0]], advantages=[1.0])
    algorithm = GSPO(clip_low=1.0, clip_high=10.0)
    loss = algorithm.loss(algorithm.weigh(step), torch.full((3,), -1.0))
    assert_close(loss.metrics["ratio_max"].value, 1.2214, 1e-4)
    long = pack_rows(torch.ones(1, 500), old_log_probs=torch.full((1, 500), -0.5), advantages=[-1.0])
    leaf = torch.full((500,), -1.0, requires_grad=True)
    loss = GSPO(clip_low=1.0, clip_high=1.0).loss(GSPO().weigh(long), leaf)
    loss.policy.backward()
    assert_close(loss.metrics["ratio_max"].value, 0.6065, 1e-4)
    assert leaf.grad.isfinite().all() and (leaf.grad > 0).all()
