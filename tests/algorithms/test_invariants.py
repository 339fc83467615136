"""Properties that hold for any optimiser step."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import pytest
import torch
from algorithm_cases import (
    ALGORITHMS,
    PAIRS,
    PER_TOKEN,
    assert_close,
    prepare,
    random_step,
    rows_of,
    run,
    run_parts,
    tensor,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from groupwise import algorithms
from groupwise.algorithms import GRPO, SFT
from groupwise.core.kl import importance_weighted, k2, k3
from groupwise.core.ratios import importance_ratio
from groupwise.core.rows import pack_values, unpack_rows

SEEDS = st.integers(0, 2**31)
EVERY = ALGORITHMS | PAIRS
each_algorithm = pytest.mark.parametrize("name", EVERY)
few = settings(max_examples=15)
each = settings(max_examples=4)  # times more than forty algorithms
many = settings(max_examples=40)


def step_for(name, seed, **options):
    return random_step(seed, pairs=name in PAIRS, **options)


def same(actual, expected, tol=1e-12):
    """Loss and gradient of two results, gradients as rows or flat."""
    assert_close(actual[0], expected[0], tol)
    assert_close(actual[1], expected[1], tol)


def test_every_algorithm_has_a_case():
    assert {algorithm.name for algorithm in EVERY.values()} == set(algorithms.ALGORITHMS)


@each_algorithm
@each
@given(seed=SEEDS)
def test_coefficient_is_the_gradient_over_the_weight(name, seed):
    result = run(EVERY[name], step_for(name, seed))
    assert_close(-result.weights * result.coefficient, result.gradient)
    assert not result.output.coefficient.requires_grad


@each_algorithm
@each
@given(seed=SEEDS)
def test_nothing_but_log_probs_has_a_gradient(name, seed):
    step = step_for(name, seed)
    leaves = {field: getattr(step, field).clone().requires_grad_() for field in ("old", "ref", "sampler", "values")}
    batch = prepare(EVERY[name], replace(step, **leaves))
    for field in ("advantages", "returns", "token_weights", "value_weights", "likelihood_weights"):
        value = getattr(batch, field)
        assert value is None or not value.requires_grad
    log_probs = pack_values(step.log_probs, step.mask).clone().requires_grad_()
    EVERY[name].loss(batch, log_probs).policy.backward()
    assert all(leaf.grad is None for leaf in leaves.values())


@each_algorithm
@each
@given(seed=SEEDS, poison=st.sampled_from([float("nan"), float("inf"), float("-inf"), 1e30]))
def test_what_is_masked_changes_nothing_and_has_no_gradient(name, seed, poison):
    step = step_for(name, seed)
    clean = run(EVERY[name], step)
    poisoned = {field: getattr(step, field).masked_fill(~step.mask, poison) for field in PER_TOKEN}
    result = run(EVERY[name], replace(step, **poisoned))
    assert result.loss == clean.loss and torch.equal(result.gradient, clean.gradient)
    counted = unpack_rows(result.batch.loss_mask, step.mask)
    assert (result.gradient[~counted] == 0).all()
    assert result.metrics == clean.metrics


@each_algorithm
@each
@given(seed=SEEDS, left=st.integers(0, 3), right=st.integers(0, 3))
def test_padding_changes_nothing(name, seed, left, right):
    step = step_for(name, seed)

    def pad(rows, value=0.0):
        return torch.nn.functional.pad(rows, (left, right), value=value)

    padded = {field: pad(getattr(step, field), float("nan")) for field in PER_TOKEN}
    result = run(EVERY[name], replace(step, mask=pad(step.mask, False), **padded))
    clean = run(EVERY[name], step)
    same((result.loss, result.gradient), (clean.loss, pad(clean.gradient)))


@each_algorithm
@each
@given(seed=SEEDS, parts=st.integers(1, 5))
def test_cut_into_micro_batches_changes_nothing(name, seed, parts):
    step, shuffle = step_for(name, seed), random.Random(seed)
    if EVERY[name].needs.couples_groups:
        where = {group: shuffle.randrange(parts) for group in sorted(set(step.groups))}
        owner = [where[group] for group in step.groups]
    else:
        owner = [shuffle.randrange(parts) for _ in step.mask]
    cut = [[i for i, part in enumerate(owner) if part == wanted] for wanted in range(parts)]
    whole = run(EVERY[name], step)
    loss, gradient = run_parts(EVERY[name], step, [part for part in cut if part])
    same((loss, unpack_rows(gradient, step.mask)), (whole.loss, whole.gradient))


class TwoRanks:
    """An all-reduce between two threads."""

    def __init__(self):
        self.barrier, self.slots = threading.Barrier(2, timeout=20), [None, None]

    def reduce(self, rank):
        def summed(tensor):
            self.slots[rank] = tensor
            self.barrier.wait()
            total = self.slots[0] + self.slots[1]
            self.barrier.wait()
            return total

        return summed


@each_algorithm
@each
@given(seed=SEEDS)
def test_split_over_ranks_changes_nothing(name, seed):
    algorithm, step, ranks = EVERY[name], step_for(name, seed), TwoRanks()
    owned = [[i for i, group in enumerate(step.groups) if (int(group) > 0) == bool(rank)] for rank in (0, 1)]
    results: list = [None, None]

    def work(rank):
        part = rows_of(step, owned[rank])
        batch = prepare(algorithm, part, ranks.reduce(rank))
        log_probs = pack_values(part.log_probs, part.mask).clone().requires_grad_()
        loss = algorithm.loss(batch, log_probs).policy
        loss.backward()
        results[rank] = loss.item(), unpack_rows(log_probs.grad, part.mask)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = run(algorithm, step)
    assert_close(sum(loss for loss, _ in results), whole.loss)
    for rank in (0, 1):
        assert_close(results[rank][1], whole.gradient[owned[rank]])


@each_algorithm
@each
@given(seed=SEEDS)
def test_order_of_completions_changes_nothing(name, seed):
    step = step_for(name, seed)
    order = random.Random(seed).sample(range(len(step.mask)), len(step.mask))
    if name in PAIRS:  # the order within a pair means something; that of pairs doesn't
        order = [2 * pair + side for pair in dict.fromkeys(row // 2 for row in order) for side in (0, 1)]
    whole, shuffled = run(EVERY[name], step), run(EVERY[name], rows_of(step, order))
    same((shuffled.loss, shuffled.gradient), (whole.loss, whole.gradient[order]))


@each_algorithm
@each
@given(seed=SEEDS)
def test_completions_without_signal_have_no_gradient(name, seed):
    step = step_for(name, seed)
    result = run(EVERY[name], step)
    signal = EVERY[name].signal(result.batch)
    assert (result.gradient[~signal] == 0).all()
    nonempty = unpack_rows(result.batch.loss_mask, step.mask).any(1)
    if name.startswith("sft"):
        assert torch.equal(signal, nonempty)
    assert not (signal & ~nonempty).any()


@few
@given(seed=SEEDS, length=st.integers(1, 6))
def test_equal_lengths_make_the_aggregations_equal(seed, length):
    step = random_step(seed, whole=True)
    step = replace(step, mask=torch.arange(6).lt(length).expand_as(step.mask))
    modes = {"token-mean": None, "seq-mean-token-mean": None, "seq-mean-token-sum-norm": length}
    results = [run(GRPO(aggregation=mode, length_constant=norm), step) for mode, norm in modes.items()]
    for result in results[1:]:
        same((result.loss, result.gradient), (results[0].loss, results[0].gradient))


@few
@given(seed=SEEDS)
def test_first_update_of_a_rollout_clips_nothing(seed):
    step = random_step(seed, on_policy=True)
    for changed in (step, replace(step, old=None)):
        result = run(GRPO(clip_low=1e-9, clip_high=1e-9), changed)
        for metric in ("clip_fraction_low", "clip_fraction_high", "ratio_clamp_fraction"):
            assert result.metrics[metric].total == 0
        assert result.metrics["ratio_max"].value == float(result.batch.loss_mask.any())
    assert torch.equal(run(GRPO(), step).gradient, run(GRPO(), replace(step, old=None)).gradient)


@few
@given(seed=SEEDS)
def test_after_a_reference_refresh_the_kl_vanishes(seed):
    step = random_step(seed, on_policy=True)
    step = replace(step, ref=step.log_probs)
    for kl_gradient in ("as_is", "unbiased"):
        with_kl = run(GRPO(beta=0.7, kl_gradient=kl_gradient), step)
        without = run(GRPO(beta=0), step)
        assert with_kl.metrics["kl_k3"].total == 0 and with_kl.loss == without.loss
        assert torch.equal(with_kl.gradient, without.gradient)


@many
@given(difference=st.floats(-15, 15))
def test_k3_is_zero_only_at_the_reference(difference):
    value = k3(tensor([difference - 16]), tensor([-16.0])).value.item()
    assert (value == 0) if difference == 0 else (value > 0 or abs(difference) < 1e-7)


@many
@given(log_prob=st.floats(-9, 0), ref=st.floats(-9, 0))
def test_ratio_weighted_k3_has_the_gradient_of_k2_on_policy(log_prob, ref):
    log_probs, ref_log_probs = tensor([log_prob]).requires_grad_(), tensor([ref])
    weighted = importance_weighted(k3(log_probs, ref_log_probs), importance_ratio(log_probs, log_probs.detach()))
    (slope,) = torch.autograd.grad(weighted.value.sum(), log_probs)
    assert_close(slope, k2(log_probs, ref_log_probs).slope, 1e-11)
    assert_close(weighted.slope, slope, 1e-11)


CONFIGURATIONS = {
    **EVERY,
    "grpo-no-lower-bound": GRPO(clip_low=10, clip_high=10, beta=0.001),
    "grpo-verl": GRPO.model_validate({"std": "verl", "overlong_filter": True}),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_gradient_equals_finite_differences(name):
    algorithm, step, h = CONFIGURATIONS[name], step_for(name, 7), 1e-6  # no ratio within h of a clip bound
    batch, result = prepare(algorithm, step), run(algorithm, step)
    flat = pack_values(step.log_probs, step.mask)
    numeric = torch.zeros_like(flat)
    for token in range(len(flat)):
        nudge = torch.zeros_like(flat)
        nudge[token] = h
        above, below = (algorithm.loss(batch, flat + sign * nudge).policy for sign in (1, -1))
        numeric[token] = (above - below) / (2 * h)
    assert (result.gradient.abs().max() > 0.01) == algorithm.needs.policy
    assert_close(unpack_rows(numeric, step.mask), result.gradient, 1e-8)


@few
@given(seed=SEEDS)
def test_grpo_raises_good_tokens_and_lowers_bad_ones(seed):
    step = random_step(seed, on_policy=True)
    result = run(GRPO(beta=0), step)
    pull = unpack_rows(result.batch.advantages * result.batch.loss_mask, step.mask)
    assert torch.equal(result.gradient.sign(), -pull.sign())


@few
@given(seed=SEEDS)
def test_sft_raises_every_target_token(seed):
    step = random_step(seed)
    result = run(SFT(), step)
    assert ((result.gradient < 0) == step.mask).all()
