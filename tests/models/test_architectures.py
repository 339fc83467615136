"""Sampling, packed training and plain transformers agree, for every decoder that shares one attention interface."""

import pytest
import torch
from architectures import (
    ARCHITECTURES,
    build,
    gradients,
    key_of,
    plain_log_probs,
    policy_of,
    random_groups,
    random_ids,
    relative_difference,
    sample_groups,
)

from groupwise.engines.contract import Request, SamplingParams
from groupwise.engines.torch import TorchEngine
from groupwise.models.forward import check_packing
from groupwise.packing import pack

EVERY = pytest.mark.parametrize("architecture", ARCHITECTURES)
STOP_IDS = (2, 11, 17, 23, 31, 41, 53, 61, 71)
"""So many that some rows of a random model stop early."""


@EVERY
def test_the_architecture_is_accepted(architecture):
    check_packing(build(architecture))


@EVERY
def test_greedy_tokens_are_those_of_generate(architecture):
    model = build(architecture)
    generator = torch.Generator().manual_seed(3)
    prompts = [random_ids(length, generator) for length in (9, 2, 13, 5, 9, 1)]
    expected = [
        model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            do_sample=False,
            max_new_tokens=12,
            eos_token_id=list(STOP_IDS),
            pad_token_id=0,
        )[0, len(prompt) :].tolist()
        for prompt in prompts
    ]
    engine = TorchEngine(max_rows=3)  # fewer than the prompts have rows, so groups are admitted one after another
    engine.load(policy_of(model, STOP_IDS), version=0)
    rows = [number for number in range(len(prompts)) for _ in range(1 + number % 2)]
    engine.submit(
        [Request(id, prompts[number], SamplingParams(0.0, 12), key_of("p", id)) for id, number in enumerate(rows)]
    )
    finished = dict(engine.collect())
    assert [list(finished[id].token_ids) for id in range(len(rows))] == [expected[number] for number in rows]
    stopped = [tokens[-1] in STOP_IDS for tokens in expected]
    assert [finished[id].finish_reason == "stop" for id in range(len(rows))] == [stopped[number] for number in rows]


@EVERY
@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.3])
def test_sampler_log_probs_are_the_trainers(architecture, temperature):
    policy = policy_of(build(architecture), STOP_IDS)
    groups = sample_groups(policy, (9, 4, 12, 9), (3, 1, 4, 2), temperature, max_rows=5)
    batch = pack(groups, temperature=temperature)
    lengths = {len(completion.token_ids) for group in groups for completion in group.completions}
    assert len(lengths) > 3 and int(batch.loss_mask.sum()) > 40
    with torch.no_grad():
        log_probs, _ = policy.forward.log_probs(batch)
    gap = (log_probs - batch.sampler_log_probs)[batch.loss_mask].abs().max()
    assert float(gap) <= 1e-5 / min(temperature, 1)


def packed_against_plain(architecture, dtype, temperature):
    """The largest difference of log-probs, and the relative difference of gradients of a weighted sum of them."""
    model, groups = build(architecture, dtype), random_groups()
    batch = pack(groups, temperature=temperature)
    weights = torch.randn(int(batch.loss_mask.sum()), generator=torch.Generator().manual_seed(4), dtype=dtype)
    plain = plain_log_probs(model, groups, temperature)
    expected = gradients(model, plain @ weights)
    packed = policy_of(model).forward.log_probs(batch)[0][batch.loss_mask]
    actual = gradients(model, packed @ weights)
    return float((packed - plain).detach().abs().max()), relative_difference(actual, expected)


@EVERY
def test_the_packed_update_is_the_plain_one(architecture):
    log_probs, gradient = packed_against_plain(architecture, torch.float32, temperature=0.9)
    assert log_probs <= 1e-5 and gradient <= 1e-5


@EVERY
def test_the_packed_update_is_the_plain_one_in_double_precision(architecture):
    """All but GPT-2 compute rotary embeddings and norms in float32 whatever the weights."""
    log_probs, gradient = packed_against_plain(architecture, torch.float64, temperature=0.9)
    assert gradient <= (1e-12 if architecture == "gpt2" else 1e-6)
    assert log_probs <= (1e-12 if architecture == "gpt2" else 1e-5)
