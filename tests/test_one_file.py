"""`examples/one_file.py` and the library, on the same rollouts: the same advantages, losses and gradients."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from groupwise.algorithms import GRPO
from groupwise.models.hidden import SharedPrompt
from groupwise.models.loading import load_model
from groupwise.models.policy import Policy
from groupwise.models.settings import ModelSettings
from groupwise.packing import pack
from groupwise.run import OptimizerSettings
from groupwise.training.optimizer import Optimizer
from groupwise.training.update import Update, per_token_values
from groupwise.types import Batch, Completion, Group, Prompt, Score, Segment

FILE = Path(__file__).parents[1] / "examples" / "one_file.py"
TEMPERATURE = 0.8
CLIP_LOW, CLIP_HIGH = 0.2, 0.28

PROMPTS = [[5, 12, 6, 13], [2, 3, 12, 2, 4, 13], [9, 12, 9, 13]]
COMPLETIONS = [
    [[3, 3, 1], [1], [4, 5, 6, 7, 8], [2, 1]],  # the third is cut off
    [[7, 1], [8, 1], [7, 1], [3, 2, 2, 1]],  # tied
    [[3, 10, 1], [3, 1], [4, 4, 4, 1], [11, 2, 1]],
]
REWARDS = [[1.0, 0.0, 0.0, 1.0], [0.1, 0.1, 0.1, 0.1], [0.0, 0.25, 1.0, -0.5]]


@pytest.fixture(scope="module")
def one_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location("one_file", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(one_file: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    model, tokenizer = one_file.tiny_model()
    path = tmp_path_factory.mktemp("tiny")
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def plain(folder: Path, noise: float = 0.0) -> LlamaForCausalLM:
    """The model as transformers loads it, its weights changed a little where it stands for another policy."""
    model = LlamaForCausalLM.from_pretrained(folder).eval()
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + noise * torch.randn_like(parameter))
    return model


def packed(folder: Path, noise: float = 0.0) -> Policy:
    """The same model as the library's policy."""
    loaded = load_model(ModelSettings(name=str(folder), dtype="float32"), seed=0, say=lambda line: None)
    loaded.model.load_state_dict(plain(folder, noise).state_dict())
    return Policy.of(loaded)


def batch() -> Batch:
    groups = []
    for number, (prompt, completions, rewards) in enumerate(zip(PROMPTS, COMPLETIONS, REWARDS, strict=True)):
        made = tuple(
            Completion((Segment(tuple(ids), (0.0,) * len(ids)),), "stop" if ids[-1] == 1 else "length")
            for ids in completions
        )
        scores = tuple(Score(value) for value in rewards)
        groups.append(Group(f"{number}#0", Prompt(str(number), tuple(prompt), ""), made, scores))
    return pack(groups, temperature=TEMPERATURE)


def rows(one_file: ModuleType) -> tuple[Tensor, Tensor, Tensor]:
    prompts = [prompt for prompt, group in zip(PROMPTS, COMPLETIONS, strict=True) for _ in group]
    completions = [completion for group in COMPLETIONS for completion in group]
    return one_file.pad(prompts, completions, 0)


def losses_in_one_file(
    one_file: ModuleType, folder: Path, beta: float, old_noise: float, parts: int
) -> tuple[float, dict[str, Tensor]]:
    model, ids, attention, mask = plain(folder), *rows(one_file)
    advantages, width, loss = one_file.group_advantages(torch.tensor(REWARDS)).flatten(), 0, 0.0
    for part in torch.arange(len(ids)).split(parts):
        width = mask.shape[1]
        inputs = ids[part], attention[part], width, TEMPERATURE
        log_probs = one_file.completion_log_probs(model, *inputs)
        with torch.no_grad():
            ref = one_file.completion_log_probs(plain(folder, 0.02), *inputs)
            old = one_file.completion_log_probs(plain(folder, old_noise), *inputs) if old_noise else log_probs.detach()
        terms = log_probs, old, ref, advantages[part], mask[part]
        value = one_file.grpo_loss(*terms, len(ids), beta, CLIP_LOW, CLIP_HIGH)
        value.backward()
        loss += float(value.detach())
    return loss, {name: parameter.grad for name, parameter in model.named_parameters()}


def log_probs_of(policy: Policy) -> Callable[[Batch, SharedPrompt | None], Tensor]:
    """What gives a micro-batch's log-probs."""
    return lambda part, prompt: policy.forward.log_probs(part, prompt)[0]


def losses_in_the_library(folder: Path, beta: float, old_noise: float) -> tuple[float, dict[str, Tensor]]:
    algorithm, policy, step = GRPO(beta=beta, clip_low=CLIP_LOW, clip_high=CLIP_HIGH), packed(folder), batch()
    everything = list(range(len(step.completion_spans)))
    if beta:
        step = replace(step, ref_log_probs=per_token_values(step, everything, 64, log_probs_of(packed(folder, 0.02))))
    if old_noise:
        step = replace(
            step, old_log_probs=per_token_values(step, everything, 64, log_probs_of(packed(folder, old_noise)))
        )
    optimizer = Optimizer(policy.loaded.model.parameters(), OptimizerSettings(max_grad_norm=1e9), 1e-6, steps=1)
    update = Update(policy, optimizer, None, None, micro_batch_tokens=16)
    gradients: dict[str, Tensor] = {}
    optimizer.adamw.register_step_pre_hook(
        lambda *_: gradients.update({n: p.grad.clone() for n, p in policy.loaded.model.named_parameters()})
    )
    outcome = update.step(algorithm, algorithm.credit(step), 0)
    assert outcome.status == "updated"
    if old_noise:
        assert outcome.metrics["clip_fraction_low"] or outcome.metrics["clip_fraction_high"], "nothing is clipped"
    return outcome.loss, gradients


@pytest.mark.parametrize("parts", [12, 5])
@pytest.mark.parametrize("old_noise", [0.0, 0.1])
@pytest.mark.parametrize("beta", [0.0, 0.04])
def test_loss_and_gradient_are_those_of_the_library(
    one_file: ModuleType, folder: Path, beta: float, old_noise: float, parts: int
) -> None:
    """Ragged groups, one of them tied, one completion cut off; with and without KL; first and later updates."""
    loss, gradients = losses_in_one_file(one_file, folder, beta, old_noise, parts)
    expected, theirs = losses_in_the_library(folder, beta, old_noise)
    assert abs(loss - expected) <= 1e-6
    assert gradients.keys() == theirs.keys()
    difference = sum(float((gradients[name] - theirs[name]).double().square().sum()) for name in theirs) ** 0.5
    norm = sum(float(gradient.double().square().sum()) for gradient in theirs.values()) ** 0.5
    assert norm > 1e-3
    assert difference <= 1e-5 * norm


def test_advantages_are_those_of_the_library(one_file: ModuleType) -> None:
    step = GRPO().credit(batch())
    assert step.advantages is not None
    first = [start for start, _ in step.completion_spans]
    advantages = one_file.group_advantages(torch.tensor(REWARDS)).flatten()
    torch.testing.assert_close(advantages, step.advantages[first], rtol=0, atol=1e-7)
    assert (advantages[4:8] == 0).all()


def test_sampled_log_probs_are_those_that_are_trained_on(one_file: ModuleType, folder: Path) -> None:
    model, prompts = plain(folder), [prompt for prompt in PROMPTS for _ in range(4)]
    torch.manual_seed(0)
    completions, drawn = one_file.sample(model, prompts, TEMPERATURE, 6, [1], 0)
    assert len({len(completion) for completion in completions}) > 1
    ids, attention, mask = one_file.pad(prompts, completions, 0)
    trained = one_file.completion_log_probs(model, ids, attention, mask.shape[1], TEMPERATURE)
    sampled = torch.tensor([value for row in drawn for value in row])
    torch.testing.assert_close(trained[mask].detach(), sampled, rtol=0, atol=1e-5 / TEMPERATURE)
    assert all(1 not in completion[:-1] and len(completion) <= 6 for completion in completions)


def test_it_is_short_and_stands_alone() -> None:
    text = FILE.read_text("utf-8")
    assert len(text.splitlines()) < 200
    assert "import groupwise" not in text and "from groupwise" not in text


@pytest.mark.slow
@pytest.mark.learning
def test_it_learns(one_file: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    one_file.main(["--steps", "24"])
    rewards = [float(line.split()[3]) for line in capsys.readouterr().out.splitlines()]
    assert len(rewards) == 24
    assert sum(rewards[-6:]) / 6 >= sum(rewards[:6]) / 6 + 0.2
