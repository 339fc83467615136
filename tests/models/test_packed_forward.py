"""What packed tokens see of each other, what their masks do to gradients, and which models are refused."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch
from architectures import (
    SIZES,
    build,
    gradients,
    group_of,
    plain_log_probs,
    policy_of,
    random_groups,
    relative_difference,
    sample_groups,
)
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, GptOssConfig, GptOssForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from groupwise.errors import ModelError
from groupwise.models.forward import check_packing
from groupwise.packing import micro_batches, pack, take
from groupwise.types import Completion, Segment


@pytest.fixture
def llama():
    return build("llama")


def embeddings_of(model):
    """A list that will hold the input embeddings [1, T, h] of each forward, with their gradient after backward."""
    seen = []

    def keep(module, args, output):
        output.retain_grad()
        seen.append(output)

    model.get_input_embeddings().register_forward_hook(keep)
    return seen


def test_R094_packed_samples_do_not_see_each_other(llama):
    """Rows of 5, 9 and 3 tokens, each behind a prompt of its own."""
    groups = random_groups(prompts=(4, 4, 6), completions=((5,), (9,), (3,)))
    expected = plain_log_probs(llama, groups, 1.0)
    embeddings, forward, batch = embeddings_of(llama), policy_of(llama).forward, pack(groups, temperature=1.0)
    log_probs, _ = forward.log_probs(batch)
    torch.testing.assert_close(log_probs[batch.loss_mask], expected, rtol=0, atol=1e-4)
    for number, (start, end) in enumerate(batch.completion_spans):
        embeddings.clear()
        forward.log_probs(batch)[0][start:end].sum().backward()
        gradient = embeddings[0].grad[0].abs().sum(-1)
        own = torch.zeros(batch.token_ids.numel(), dtype=torch.bool)
        own[slice(*batch.prompt_spans[number])] = True
        own[start : end - 1] = True  # the last token predicts nothing
        assert (gradient[own] > 0).all() and (gradient[~own] == 0).all()


def test_siblings_see_their_prompt_and_not_each_other(llama):
    batch = pack(random_groups(prompts=(4,), completions=((5, 3, 4),)), temperature=1.0)
    embeddings, forward = embeddings_of(llama), policy_of(llama).forward
    start, end = batch.completion_spans[1]
    forward.log_probs(batch)[0][start:end].sum().backward()
    reached = (embeddings[0].grad[0].abs().sum(-1) > 0).nonzero()[:, 0].tolist()
    assert reached == [0, 1, 2, 3, start, start + 1]


def test_an_order_of_groups_and_siblings_changes_no_log_prob(llama):
    groups = random_groups()
    forward = policy_of(llama).forward
    turned = [replace(group, completions=group.completions[::-1]) for group in groups[::-1]]
    with torch.no_grad():
        straight, _ = forward.log_probs(batch := pack(groups, temperature=1.0))
        mirrored, _ = forward.log_probs(other := pack(turned, temperature=1.0))
    pairs = zip(batch.completion_spans, reversed(other.completion_spans), strict=True)
    for (start, end), (first, last) in pairs:
        torch.testing.assert_close(straight[start:end], mirrored[first:last], rtol=0, atol=1e-5)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
@pytest.mark.parametrize("limit", [1, 14, 30])
def test_micro_batches_add_up_to_the_gradient_of_the_whole(architecture, limit):
    model = build(architecture)
    forward, batch = policy_of(model).forward, pack(random_groups(), temperature=0.8)
    weights = torch.randn(batch.token_ids.numel(), generator=torch.Generator().manual_seed(7))
    batch = replace(batch, token_weights=weights)
    whole = gradients(model, forward.log_probs(batch)[0] @ weights)
    parts = [take(batch, part) for part in micro_batches(batch, range(len(batch.completion_spans)), limit)]
    assert len(parts) > 1
    summed: dict[str, torch.Tensor] = {}
    for part in parts:
        log_probs, _ = forward.log_probs(part)
        for name, gradient in gradients(model, log_probs @ part.token_weights).items():
            summed[name] = summed.get(name, 0) + gradient
    assert relative_difference(summed, whole) <= 1e-6


def test_entropies_are_those_of_the_whole_distribution(llama):
    group = random_groups(prompts=(4,), completions=((6,),))[0]
    ids = torch.tensor([*group.prompt.token_ids, *group.completions[0].token_ids])
    with torch.no_grad():
        logits = llama(input_ids=ids[None], use_cache=False).logits[0, 3:-1] / 1.3
        batch = pack([group], temperature=1.3)
        _, entropy = policy_of(llama).forward.log_probs(batch)
    expected = torch.distributions.Categorical(logits=logits).entropy()
    torch.testing.assert_close(entropy[batch.loss_mask], expected, rtol=0, atol=1e-5)
    assert not entropy[~batch.loss_mask].any()


def with_foreign_tokens(foreign):
    """[g g T T g]: three sampled tokens with two foreign ones among them."""
    sampled, between = Segment((8, 9), (-1.0, -1.0)), Segment(tuple(foreign), None, trainable=False)
    last = Segment((10,), (-1.0,), turn=1)
    return pack([group_of("a", [5, 6, 7], [Completion((sampled, between, last), "stop")])], temperature=1.0)


def test_R075_foreign_tokens_are_seen_and_not_trained_on(llama):
    batch, changed = with_foreign_tokens((20, 21)), with_foreign_tokens((20, 22))
    assert batch.loss_mask.tolist() == [False] * 3 + [True, True, False, False, True]
    whole = plain_log_probs(
        llama, [group_of("a", [5, 6, 7], [Completion((Segment((8, 9, 20, 21, 10), None),), "stop")])], 1.0
    )
    kept = whole[[0, 1, 4]]
    expected = gradients(llama, kept.sum())
    forward = policy_of(llama).forward
    seen = []
    llama.model.register_forward_hook(lambda module, args, output: seen.append(output.last_hidden_state))
    log_probs, _ = forward.log_probs(batch)
    torch.testing.assert_close(log_probs[batch.loss_mask], kept, rtol=0, atol=1e-5)
    assert not log_probs[~batch.loss_mask].any()
    gradient = torch.autograd.grad(log_probs.sum(), seen[0], retain_graph=True)[0][0].abs().sum(-1)
    assert (gradient > 0).tolist() == [False, False, True, True, False, False, True, False]  # rows that predict a g
    assert relative_difference(gradients(llama, log_probs.sum()), expected) <= 1e-5
    with torch.no_grad():
        other, _ = forward.log_probs(changed)
    assert torch.equal(other[3:5], log_probs[3:5]) and abs(float(other[7]) - float(log_probs.detach()[7])) > 1e-3


def test_a_batch_of_which_nothing_counts_has_no_gradient(llama):
    batch = pack(random_groups(), temperature=1.0)
    batch = replace(batch, loss_mask=torch.zeros_like(batch.loss_mask))
    log_probs, entropy = policy_of(llama).forward.log_probs(batch)
    assert not log_probs.any() and not entropy.any()


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_R074_configured_dropout_never_acts_so_the_first_ratio_is_one(kind):
    torch.manual_seed(0)
    if kind == "llama":
        model = LlamaForCausalLM(LlamaConfig(**SIZES, attention_dropout=0.2))
    else:
        dropout = {"attn_pdrop": 0.2, "resid_pdrop": 0.2, "embd_pdrop": 0.2}
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=97, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, **dropout)
        )
    policy = policy_of(model.eval())
    groups = sample_groups(policy, (5, 3), (3, 2), 1.0, max_rows=8)
    batch = pack(groups, temperature=1.0)
    old = policy.forward.log_probs(batch)[0].detach()
    log_probs, _ = policy.forward.log_probs(batch)
    assert torch.equal((log_probs - old).exp(), torch.ones_like(old))
    assert float((log_probs - batch.sampler_log_probs)[batch.loss_mask].detach().abs().max()) <= 1e-5


def test_attention_dropout_is_off_even_in_training_mode():
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, attention_dropout=0.5)).train()
    forward, batch = policy_of(model).forward, pack(random_groups(), temperature=1.0)
    assert torch.equal(forward.log_probs(batch)[0], forward.log_probs(batch)[0])


class MixingLayer(LlamaDecoderLayer):
    """A layer that also adds the token before, as a causal convolution does."""

    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.mix = nn.Conv1d(config.hidden_size, config.hidden_size, 2, groups=config.hidden_size)

    def forward(self, hidden_states, **kwargs):
        padded = nn.functional.pad(hidden_states.transpose(1, 2), (1, 0))
        return super().forward(hidden_states + self.mix(padded).transpose(1, 2), **kwargs)


@pytest.mark.parametrize("spread", [0.2, 0.02])
def test_R094_a_model_that_mixes_tokens_outside_attention_is_refused(spread):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES | {"initializer_range": spread})).eval()
    check_packing(model)
    model.model.layers[1] = MixingLayer(model.config, 1)
    model.set_attn_implementation("eager")
    with pytest.raises(ModelError, match="can't be trained on packed groups: .* use a pure attention decoder"):
        check_packing(model.eval())


def test_a_model_whose_attention_is_more_than_its_layout_is_refused():
    """Attention sinks take part of the weight: nothing leaks, and yet packed is not plain."""
    torch.manual_seed(0)
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 16}
    model = GptOssForCausalLM(GptOssConfig(**SIZES, **experts)).eval()
    with pytest.raises(ModelError, match="can't be trained on packed groups: packed and plain predictions differ"):
        check_packing(model)


def test_a_model_whose_layers_ignore_the_layout_is_refused():
    """A state-space model takes no attention function at all."""
    from transformers import MambaConfig, MambaForCausalLM

    torch.manual_seed(0)
    config = MambaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=1, state_size=4, expand=2)
    with (
        warnings.catch_warnings(),
        pytest.raises(ModelError, match="MambaForCausalLM can't be trained on packed groups"),
    ):
        warnings.simplefilter("ignore")
        check_packing(MambaForCausalLM(config).eval())


def test_a_prepared_model_runs_through_its_forward_only(llama):
    policy_of(llama)
    with pytest.raises(AssertionError, match="only through groupwise"):
        llama(input_ids=torch.tensor([[3, 4]]))
