"""The gradient that both sides should have, taken the plain way: every completion with its own copy of the prompt,
padded rows, full logits, log-softmax, autograd. `python plain.py SCENARIO MODEL_FOLDER ROLLOUTS GRADIENT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from channel import THREADS
from safetensors.torch import save_file
from scenarios import SCENARIOS, Scenario
from transformers import AutoModelForCausalLM


def advantages(scenario: Scenario) -> torch.Tensor:
    """[groups, G]: TRL's, with the sample standard deviation and 1e-4 beside it."""
    rewards = torch.tensor(scenario.rewards(), dtype=torch.float64)
    return (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)


def main() -> None:
    torch.set_num_threads(THREADS)
    scenario = SCENARIOS[sys.argv[1]]
    model = AutoModelForCausalLM.from_pretrained(sys.argv[2], dtype=torch.float32).eval()
    rollouts = json.loads(Path(sys.argv[3]).read_text())
    weights = advantages(scenario) / scenario.completion_tokens
    for prompt, group, group_weights in zip(scenario.prompts(), rollouts, weights, strict=True):
        for one, weight in zip(group, group_weights.tolist(), strict=True):
            tokens = torch.tensor([prompt + one["token_ids"]])
            logits = model(input_ids=tokens).logits[0, len(prompt) - 1 : -1]
            chosen = logits.log_softmax(-1).gather(1, tokens[0, len(prompt) :, None])
            (
                -weight * chosen.sum()
            ).backward()  # one update per rollout: the ratio is 1, and so is its gradient's factor
    named = model.named_parameters()
    save_file({name: value.grad.contiguous() for name, value in named if value.grad is not None}, sys.argv[4])


if __name__ == "__main__":
    main()
