"""TRL's side: `python peer.py SCENARIO MODE ENGINE HEAD MODEL_FOLDER [ROLLOUTS]`, run by the peer's own interpreter.

It is TRL's `GRPOTrainer`, tuned: float32, no gradient checkpointing, the whole step in one micro-batch, no KL, no
logging. ENGINE is `generate` or `continuous`; HEAD is `as-is`, or `patched` to compute the output layer at completion
positions alone, as TRL does on a GPU. Each optimiser step waits for a command, so that the two sides can take turns.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from channel import THREADS, Stopwatch, commands
from datasets import Dataset
from scenarios import SCENARIOS, Scenario
from transformers import AutoModelForCausalLM, AutoTokenizer, StoppingCriteria, StoppingCriteriaList, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

WATCH = Stopwatch()


class Gate(TrainerCallback):
    """Lets one step through per command, and answers with what it took."""

    def __init__(self) -> None:
        self.commands = commands()
        self.trainer: Peer | None = None
        self.gradient: Path | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        command, self.answer = next(self.commands)
        self.gradient = Path(command["path"]) if command["do"] == "gradient" else None
        WATCH.clear()
        self.step = WATCH.phase("step")
        self.step.__enter__()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if self.gradient is not None:
            from safetensors.torch import save_file

            named = model.named_parameters()
            save_file({name: value.grad.contiguous() for name, value in named if value.grad is not None}, self.gradient)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.step.__exit__(None, None, None)
        self.answer(WATCH.report())


class Finished(StoppingCriteria):
    """A row is finished when it has its own number of tokens."""

    def __init__(self, lengths: list[int], prompt_tokens: int) -> None:
        self.ends = torch.tensor(lengths) + prompt_tokens

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        return input_ids.shape[1] >= self.ends


class Peer(GRPOTrainer):
    """The trainer with the scenario's token ids, lengths and rewards; all that is timed is TRL's."""

    def setup(self, scenario: Scenario, rollouts: list[list[dict[str, Any]]] | None) -> None:
        self.scenario, self.rollouts = scenario, rollouts
        self.lengths = scenario.lengths() * scenario.groups
        self.ids = [ids for ids in scenario.prompts() for _ in range(scenario.group_size)]
        self.values = [value for group in scenario.rewards() for value in group]
        self.generation_config.eos_token_id = None
        self.eos_token_ids = [-1]

    def _tokenize_prompts(self, prompts: list[Any]) -> tuple[list[list[int]], None, dict[str, Any]]:
        return self.ids, None, {}

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> tuple[list[list[int]], None]:
        if self.rollouts is not None:
            return [one["token_ids"] for group in self.rollouts for one in group], None
        with WATCH.phase("rollout"):
            completions, _ = super()._generate_single_turn(*args, **kwargs)
        return [ids[:length] for ids, length in zip(completions, self.lengths, strict=True)], None

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        with WATCH.phase("reward"):
            return torch.tensor(self.values)[:, None]


def patch_generation(model: Any, lengths: list[int], prompt_tokens: int) -> None:
    """Rows end at their own lengths, in both of TRL's ways to sample."""
    generate = model.generate

    def with_lengths(*args: Any, **kwargs: Any) -> Any:
        criteria = StoppingCriteriaList([Finished(lengths, prompt_tokens)])
        return generate(*args, **kwargs, stopping_criteria=criteria)

    def batched(
        prompts: list[list[int]], generation_config: Any, continuous_batching_config: Any, **kwargs: Any
    ) -> Any:
        with model.continuous_batching_context_manager(
            generation_config=generation_config, continuous_batching_config=continuous_batching_config, block=True
        ) as manager:
            names = [
                manager.add_request(ids, max_new_tokens=length) for ids, length in zip(prompts, lengths, strict=True)
            ]
            done: dict[str, Any] = {}
            while len(done) < len(names):
                result = manager.get_result(timeout=1)
                if result is not None and result.is_finished():
                    done[result.request_id] = result
        return {name: done[name] for name in names}

    model.generate, model.generate_batch = with_lengths, batched


def main() -> None:
    torch.set_num_threads(THREADS)
    name, mode, engine, head, folder, *rest = sys.argv[1:]
    scenario = SCENARIOS[name]
    if head == "patched":
        import trl.trainer.utils

        trl.trainer.utils._use_triton = lambda device: True  # in this module it only says which positions are computed
    rows = scenario.groups * scenario.group_size
    gate = Gate()
    with tempfile.TemporaryDirectory() as temporary:
        config = GRPOConfig(
            output_dir=temporary,
            bf16=False,
            use_cpu=True,
            gradient_checkpointing=False,
            per_device_train_batch_size=rows,
            gradient_accumulation_steps=1,
            num_generations=scenario.group_size,
            max_completion_length=scenario.max_tokens,
            temperature=1.0,
            beta=0.0,
            learning_rate=1e-6,
            lr_scheduler_type="constant",
            adam_beta2=0.95,
            max_grad_norm=1e9,
            max_steps=10_000,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            shuffle_dataset=False,
            use_transformers_continuous_batching=engine == "continuous",
        )
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        trainer = Peer(
            model=model,
            reward_funcs=lambda **kwargs: [],
            args=config,
            processing_class=AutoTokenizer.from_pretrained(folder),
            train_dataset=Dataset.from_list([{"prompt": "x"} for _ in range(scenario.groups)]),
            callbacks=[gate],
        )
        trainer.setup(scenario, json.loads(Path(rest[0]).read_text()) if mode == "replay" else None)
        patch_generation(model, trainer.lengths, scenario.prompt_tokens)
        trainer.train()


if __name__ == "__main__":
    main()
