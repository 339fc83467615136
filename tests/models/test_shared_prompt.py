"""A group in parts that share its prompt: the gradient of the whole group, less memory, and nothing computed twice."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from architectures import ARCHITECTURES, build, gradients, policy_of, random_groups, relative_difference
from peft import LoraConfig, get_peft_model
from torch import Tensor

from groupwise.models.checkpointing import recompute_layers
from groupwise.models.critic import Critic
from groupwise.models.forward import Forward
from groupwise.packing import pack
from groupwise.training.split_groups import parts
from groupwise.training.update import per_token_values
from groupwise.types import Batch

LIMITS = (1, 14, 24)
"""Tokens of a micro-batch: each completion for itself; several; some groups whole and some split."""


def weighted(dtype: torch.dtype = torch.float32, groups: Sequence[Any] | None = None) -> Batch:
    """A batch with a random weight for each token."""
    batch = pack(random_groups() if groups is None else groups, temperature=0.8)
    weights = torch.randn(batch.token_ids.numel(), generator=torch.Generator().manual_seed(7), dtype=dtype)
    return replace(batch, token_weights=weights)


def everyone(batch: Batch) -> range:
    return range(len(batch.completion_spans))


def run_parts(module: Any, batch: Batch, limit: int, losses: Any) -> tuple[dict[str, Tensor], int]:
    """The gradient that the parts of a batch leave together, by parameter, and how many of them share a prompt."""
    module.zero_grad(set_to_none=True)
    shared = 0
    for _, part, prompt in parts(batch, everyone(batch), limit):
        losses(part, prompt).backward()
        shared += prompt is not None
    found = {name: value.grad for name, value in module.named_parameters() if value.grad is not None}
    module.zero_grad(set_to_none=True)
    return found, shared


def of_log_probs(forward: Forward) -> Any:
    return lambda part, prompt: forward.log_probs(part, prompt)[0] @ part.token_weights


def difference(model: Any, limit: int, dtype: torch.dtype = torch.float32) -> float:
    """Of the gradients of a weighted sum of log-probs, in parts from whole."""
    batch, losses = weighted(dtype), of_log_probs(policy_of(model).forward)
    whole = gradients(model, losses(batch, None))
    in_parts, shared = run_parts(model, batch, limit, losses)
    assert shared >= 2
    return relative_difference(in_parts, whole)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_the_gradient_is_that_of_whole_groups(architecture, recompute, limit):
    model = build(architecture, torch.float64)
    if recompute:
        recompute_layers(model)
    assert difference(model, limit, torch.float64) <= 1e-12


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_the_gradient_of_whole_groups(architecture, recompute):
    model = build(architecture)
    if recompute:
        recompute_layers(model)
    assert difference(model, 14) <= 1e-5


@pytest.mark.parametrize(
    "where", [{"target_modules": ["q_proj", "v_proj", "down_proj"]}, {"target_modules": ["o_proj"]}]
)
def test_adapters_have_the_gradient_of_whole_groups(where):
    """With o_proj alone the first layer's keys and values need no gradient."""
    model = build("llama", torch.float64)
    torch.manual_seed(3)
    get_peft_model(model, LoraConfig(r=4, lora_alpha=8, init_lora_weights=False, **where))
    model.double()
    names = [name for name, value in model.named_parameters() if value.requires_grad]
    assert names and all("lora_" in name for name in names)
    assert difference(model, 14, torch.float64) <= 1e-12


@pytest.mark.parametrize("after", [False, True])
def test_a_policy_and_a_critic_share_a_prompt(after):
    """One loss of both, as that of PPO is; each gets its own gradient, and their states don't mix."""
    model = build("gpt2", torch.float64)
    critic = Critic(copy.deepcopy(model.base_model), torch.float32)
    torch.nn.init.normal_(critic.head.weight)
    both = torch.nn.ModuleDict({"policy": model, "critic": critic})
    forward, batch = policy_of(model).forward, weighted(torch.float64)

    def losses(part, prompt):
        values = critic.values(part, prompt, after=after).double()
        return (forward.log_probs(part, prompt)[0] + 0.7 * values.square()) @ part.token_weights

    whole = gradients(both, losses(batch, None))
    in_parts, _ = run_parts(both, batch, 14, losses)
    for name in ("policy", "critic"):
        one, other = (
            {key: value for key, value in found.items() if key.startswith(name)} for found in (in_parts, whole)
        )
        # the critic's last layer is in float32
        assert one and relative_difference(one, other) <= (1e-12 if name == "policy" else 1e-6)


@pytest.mark.parametrize("limit", LIMITS)
def test_values_without_gradient_are_those_of_whole_groups(limit):
    model = build("gemma2")
    forward, critic, batch = (
        policy_of(model).forward,
        Critic(copy.deepcopy(model.base_model), torch.float32),
        weighted(),
    )
    torch.nn.init.normal_(critic.head.weight)
    with torch.no_grad():
        expected, values, final = forward.log_probs(batch)[0], critic.values(batch), critic.final_values(batch)
        found = torch.cat(
            [critic.final_values(part, prompt) for _, part, prompt in parts(batch, everyone(batch), limit)]
        )
    torch.testing.assert_close(found, final, rtol=1e-5, atol=1e-5)
    for compute, whole in (
        (lambda part, prompt: forward.log_probs(part, prompt)[0], expected),
        (critic.values, values),
    ):
        in_parts = per_token_values(batch, everyone(batch), limit, compute)
        torch.testing.assert_close(in_parts, whole, rtol=1e-5, atol=1e-5)


def test_gradients_at_the_prompt_add_up_in_float32_under_autocast():
    """The gradient is that of the whole group to within one rounding; sums in bfloat16 lose what is added late."""
    groups = random_groups(prompts=(9,), completions=((4,) * 64,))
    model, batch = build("llama"), weighted(groups=groups)
    losses = of_log_probs(Forward(model, torch.bfloat16))
    whole = gradients(model, losses(batch, None))
    in_parts, shared = run_parts(model, batch, 13, losses)
    assert shared == 64
    assert relative_difference(in_parts, whole) <= 2**-8


def counted_tokens(model: Any) -> list[int]:
    """A list that gets the number of tokens of each forward of the decoder."""
    sizes: list[int] = []
    model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: sizes.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    return sizes


@pytest.mark.parametrize("limit", LIMITS)
def test_no_token_is_computed_twice(limit):
    """Forward passes, and the backward passes of a layer's input projection."""
    model = build("llama")
    batch, losses = weighted(), of_log_probs(policy_of(model).forward)
    sizes, backwards = counted_tokens(model), []
    model.model.layers[0].self_attn.k_proj.register_full_backward_hook(
        lambda module, into, out: backwards.append(out[0].shape[1])
    )
    run_parts(model, batch, limit, losses)
    assert sum(sizes) == sum(backwards) == batch.token_ids.numel()
    assert max(sizes) <= max(limit, 12)  # the longest completion alone, or prompt, is what can't be cut


def test_a_group_that_fits_runs_as_one_batch():
    model = build("llama")
    batch, sizes = weighted(), counted_tokens(model)
    run_parts(model, batch, batch.token_ids.numel(), of_log_probs(policy_of(model).forward))
    assert sizes == [batch.token_ids.numel()]


def peak_of_saved_tensors(model: Any, completions: int, limit: int) -> int:
    """Most bytes that autograd holds at a time for the backward passes of one group."""
    groups = random_groups(prompts=(20,), completions=((6,) * completions,))
    batch, losses = weighted(groups=groups), of_log_probs(policy_of(model).forward)
    held = {"now": 0, "peak": 0}

    class Saved:
        def __init__(self, tensor):
            self.tensor = tensor

    def let_go(size):
        held["now"] -= size

    def save(tensor):
        saved, size = Saved(tensor), tensor.numel() * tensor.element_size()
        weakref.finalize(saved, let_go, size)
        held["now"] += size
        held["peak"] = max(held["peak"], held["now"])
        return saved

    with torch.autograd.graph.saved_tensors_hooks(save, lambda saved: saved.tensor):
        run_parts(model, batch, limit, losses)
    assert held["now"] == 0
    return held["peak"]


@pytest.mark.parametrize("recompute", [False, True])
def test_memory_does_not_grow_with_the_number_of_completions(recompute):
    model = build("llama")
    if recompute:
        recompute_layers(model)
    few, many, whole = (peak_of_saved_tensors(model, *given) for given in ((4, 32), (32, 32), (32, 1000)))
    assert many == few
    assert whole > 3 * many


def test_an_interrupted_part_leaves_the_prompt_alone():
    """A loss that is not finite ends the step between two parts."""
    model = build("llama")
    forward, batch = policy_of(model).forward, weighted(groups=random_groups(prompts=(9,), completions=((4, 4, 4),)))
    cut = parts(batch, everyone(batch), 13)
    _, part, prompt = next(cut)
    forward.log_probs(part, prompt)[0].sum().backward()
    cut.close()
    embedding = model.get_input_embeddings().weight.grad
    own = batch.token_ids[slice(*batch.completion_spans[0])][:-1]
    assert embedding is not None
    assert set(embedding.abs().sum(-1).nonzero()[:, 0].tolist()) <= set(own.tolist())
