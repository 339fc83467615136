"""What planning predicts of memory against what torch really holds, on packed groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from architectures import GEMMA, GPT2_SIZES, SIZES, SOFTCAPS, build, key_of, policy_of, random_groups, random_ids
from torch.profiler import ProfilerActivity, profile

from groupwise.engines.contract import Request, SamplingParams
from groupwise.engines.torch import TorchEngine
from groupwise.models import linear
from groupwise.models.checkpointing import decide, recompute_layers
from groupwise.models.log_probs import CHUNK_ROWS
from groupwise.packing import micro_batches, pack, take
from groupwise.planning import activations, rollout
from groupwise.planning.activations import BFLOAT16, FLOAT32, Packing, Precision
from groupwise.planning.checkpointing import Demand
from groupwise.planning.memory import Phase, Workload, predict
from groupwise.planning.rollout import Rollout
from groupwise.planning.shape import Shape

PROMPT, COMPLETION, SAMPLES, GROUPS = 40, 30, 6, 2
LARGER = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "max_position_embeddings": 512}
DECODERS: dict[str, Callable[[], Any]] = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES | LARGER)),
    "llama, 8000 words": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES | LARGER | {"vocab_size": 8000})),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**SIZES | LARGER, head_dim=48)),
    "gemma2": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**SIZES | LARGER | GEMMA, **SOFTCAPS)),
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2_SIZES | {"n_layer": 4, "n_embd": 128, "n_positions": 512})),
}


def equal_groups(prompt: int, completion: int, samples: int, groups: int) -> list:
    return random_groups((prompt,) * groups, ((completion,) * samples,) * groups)


def saved_bytes(model: Any, dtype: torch.dtype) -> int:
    """What autograd keeps of a forward pass beside the model itself, each storage once."""
    forward = policy_of(model).forward
    forward.compute_dtype = dtype
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, torch.Tensor] = {}  # holds what it has counted, so that no address is used twice

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward.log_probs(pack(equal_groups(PROMPT, COMPLETION, SAMPLES, GROUPS), temperature=1.0))
    return sum(tensor.untyped_storage().nbytes() for place, tensor in kept.items() if place not in own)


def peak_bytes(work: Callable[[], Any]) -> int:
    """The most that is allocated at a time while `work` runs, over what was before; the first run isn't counted."""
    work()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    level = top = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        level += event.nbytes()
        top = max(top, level)
    return top


def transient(prediction: Phase) -> int:
    """What a phase has beside the networks."""
    return sum(
        size for name, size in prediction.components.items() if name not in ("weights", "gradients", "optimiser")
    )


@pytest.mark.parametrize(
    "architecture",
    [
        "llama",
        "qwen2",
        "qwen3",
        "qwen3-moe",
        "gpt2",
        "gemma2",
        "gemma3",
        "mistral",
        "phi3",
        "olmo2",
        "smollm3",
        "granite",
    ],
)
def test_what_autograd_keeps_in_float32(architecture):
    model = build(architecture)
    shape = Shape.of(model.config)
    packing = Packing.equal(PROMPT, COMPLETION, SAMPLES, GROUPS, shape.window)
    expected = saved_bytes(model, torch.float32)
    assert activations.activations(shape, packing, FLOAT32, checkpointing=False) == pytest.approx(expected, rel=0.06)
    recompute_layers(model)
    expected = saved_bytes(model, torch.float32)
    assert activations.activations(shape, packing, FLOAT32, checkpointing=True) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gpt2", "phi3"])
def test_what_autograd_keeps_in_bfloat16(architecture):
    """Rounded copies of the weights are kept too."""
    model = build(architecture)
    shape = Shape.of(model.config)
    packing = Packing.equal(PROMPT, COMPLETION, SAMPLES, GROUPS, shape.window)
    predicted = activations.activations(shape, packing, BFLOAT16, checkpointing=False) + 2 * shape.linear_parameters
    assert predicted == pytest.approx(saved_bytes(model, torch.bfloat16), rel=0.06)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("decoder", DECODERS)
def test_the_height_of_an_update(decoder, checkpointing):
    torch.manual_seed(0)
    model = DECODERS[decoder]().eval()
    if checkpointing:
        recompute_layers(model)
    forward, batch = policy_of(model).forward, pack(equal_groups(60, 40, 8, 2), temperature=1.0)
    measured = peak_bytes(lambda: forward.log_probs(batch)[0].sum().backward())  # onto the gradients of the first run
    work = workload(model, Packing.equal(60, 40, 8, 2))
    assert transient(predict(work, checkpointing=checkpointing).phase("update")) == pytest.approx(measured, rel=0.08)


@pytest.mark.parametrize("tied", [False, True])
def test_the_height_of_an_update_whose_vocabulary_is_large(tied):
    """The gradients of the output layer and of the embedding come at its two ends."""
    torch.manual_seed(0)
    sizes = SIZES | LARGER | {"vocab_size": 32000, "tie_word_embeddings": tied}
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**sizes)).eval()
    recompute_layers(model)
    forward, batch = policy_of(model).forward, pack(equal_groups(60, 10, 4, 1), temperature=1.0)
    measured = peak_bytes(lambda: forward.log_probs(batch)[0].sum().backward())
    phase = predict(workload(model, Packing.equal(60, 10, 4)), checkpointing=True).phase("update")
    assert transient(phase) == pytest.approx(measured, rel=0.08)
    assert ("embedding's gradient" in phase.components) == tied


def workload(model: Any, packing: Packing, precision: Precision = FLOAT32, **more: Any) -> Workload:
    total = sum(parameter.numel() for parameter in model.parameters())
    return Workload(Shape.of(model.config), total, total, precision, packing, **more)


@pytest.mark.parametrize(("vocabulary", "prompt", "completion"), [(97, 100, 20), (8000, 20, 20)])
def test_the_height_of_a_rollout(vocabulary, prompt, completion):
    """Keys and values bind in the first case, logits in the second."""
    torch.manual_seed(0)
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES | LARGER | {"vocab_size": vocabulary})).eval()
    policy = policy_of(model, stop_ids=(3, 4, 5))
    prompts = [random_ids(prompt, torch.Generator().manual_seed(number)) for number in range(4)]

    def roll() -> None:
        engine = TorchEngine(max_rows=32)
        engine.load(policy, version=0)
        sampling = SamplingParams(1.0, max_tokens=completion)
        engine.submit([Request(id, prompts[id // 8], sampling, key_of(f"g{id // 8}", id % 8)) for id in range(32)])
        engine.collect()

    work = workload(model, Packing.equal(prompt, completion, 8), rollout=Rollout(prompt, completion, 8, 32))
    assert transient(predict(work, checkpointing=False).phase("rollout")) == pytest.approx(peak_bytes(roll), rel=0.1)


@pytest.mark.parametrize("decoder", ["llama", "llama, 8000 words", "qwen3", "gpt2"])
@pytest.mark.parametrize(("prompt", "completion"), [(60, 40), (20, 80)])
def test_the_height_of_a_pass_without_a_gradient(decoder, prompt, completion):
    torch.manual_seed(0)
    model = DECODERS[decoder]().eval()
    forward, batch = policy_of(model).forward, pack(equal_groups(prompt, completion, 8, 2), temperature=1.0)
    with torch.no_grad():
        measured = peak_bytes(lambda: forward.log_probs(batch))
    work = workload(model, Packing.equal(prompt, completion, 8, 2), reference=True)
    phase = predict(work, checkpointing=False).phase("reference")
    assert transient(phase) - phase.components["reference"] == pytest.approx(measured, rel=0.12)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "qwen3-moe", "gpt2", "mistral", "granite"])
def test_parameters_follow_from_the_shape(architecture):
    model = build(architecture)
    assert Shape.of(model.config).parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("config", [hf.MambaConfig(), hf.OpenAIGPTConfig(), hf.Gemma3nTextConfig()])
def test_every_config_has_a_shape_so_that_a_model_is_refused_for_the_right_reason(config):
    shape = Shape.of(config)
    assert shape.layers > 0 and shape.parameters > shape.hidden * shape.vocabulary


def test_sizes_are_those_of_the_kernels():
    assert activations.CHUNK_ROWS == CHUNK_ROWS
    assert rollout.PACKED_FROM == linear.SMALLEST


@pytest.mark.parametrize("limit", [1, 40, 100, 250, 600, 5000])
@pytest.mark.parametrize("whole", [False, True])
def test_no_micro_batch_of_equal_groups_is_larger_than_the_one_that_is_planned_for(limit, whole):
    batch = pack(equal_groups(20, 15, 4, 5), temperature=1.0)
    planned = Packing.full(limit, 20, 15, 4, 5, whole=whole)
    for completions in micro_batches(batch, range(20), limit, whole_groups=whole):
        part = take(batch, completions)
        rows, groups = len(part.completion_spans), len(part.prompt_spans)
        assert part.token_ids.numel() <= planned.tokens
        assert groups * 20 + rows * 15 <= planned.queries
        assert groups * 20 + rows * 35 <= planned.keys


DEMAND = Demand(micro_batch_tokens=500, prompt=40, completion=30, samples=8, groups=4)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_layers_are_recomputed_only_where_the_update_would_not_fit(architecture):
    model = build(architecture)
    need = predict(demanded(model), checkpointing=False).phase("update").total
    assert need > predict(demanded(model), checkpointing=True).phase("update").total
    enough, why = decide("auto", model, torch.float32, [DEMAND], free=int(need * 1.25) + 1)
    assert not enough and why[0].startswith("gradient checkpointing off: the update needs ")
    short, why = decide("auto", model, torch.float32, [DEMAND], free=int(need * 1.25) - 1)
    assert short and why[0].startswith("gradient checkpointing on: without it the update needs ")
    assert "may not fit" not in why[0]
    hopeless, why = decide("auto", model, torch.float32, [DEMAND], free=1000)
    assert hopeless and "optimizer.micro_batch_tokens" in why[0]
    assert decide(False, model, torch.float32, [DEMAND], free=0) == (False, [])
    assert decide(True, model, torch.float32, [DEMAND], free=int(1e15)) == (True, [])
    assert decide("auto", model, torch.float32, [], free=0) == (False, [])


def demanded(model: Any) -> Workload:
    total = sum(parameter.numel() for parameter in model.parameters())
    return DEMAND.workload(Shape.of(model.config), total, total, FLOAT32)
