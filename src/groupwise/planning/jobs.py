"""What is planned for, in plain numbers, and what memory and time are asked of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from groupwise.errors import RunFileError
from groupwise.planning import recipes
from groupwise.planning.activations import BFLOAT16, FLOAT32, FUSED_BFLOAT16, Packing, Precision
from groupwise.planning.catalogue import Model
from groupwise.planning.devices import Device
from groupwise.planning.lengths import Lengths
from groupwise.planning.memory import CPU_ALLOWANCE, GPU_ALLOWANCE, Workload
from groupwise.planning.networks import Needs
from groupwise.planning.rollout import Engine, Rollout
from groupwise.planning.sharding import Sharding
from groupwise.planning.time import Fleet, Step

OWN_ACCOUNTING, GPU_ACCOUNTING, SEED_ACCOUNTING = "fp32", "fsdp-fp32", "seed"
"""What this library's trainer keeps on one device; the same in shards, computing in bfloat16; and the table of the
papers."""

MOST_PARAMETERS, MOST_COMPLETIONS = 10**15, 10**6
"""Beyond which a number is a slip."""

ROOM_FOR_CACHE = 0.6
"""An engine's weights take at most this share of what it may have of a device, so that keys and values find room."""


class PlannedNeeds(Needs, Protocol):
    """What is read of an algorithm's needs."""

    @property
    def source(self) -> str:
        """`prompts` where completions are sampled."""

    @property
    def old_log_probs(self) -> bool:
        """They are computed in a pass of their own."""

    @property
    def couples_groups(self) -> bool:
        """A group is never split over micro-batches."""


@dataclass(frozen=True)
class Layout:
    """Devices, and who has them. Raises `UserError` for layouts that can't be."""

    device: Device | None = None
    """Its kind; None: this machine's processor."""
    memory: float | None = None
    """Bytes of each that are free; None: all that the kind has, or not known."""
    devices: int = 1
    """That train, and sample unless `engine_devices` do."""
    tensor_parallel: int = 1
    """Of those that train."""
    engine_devices: int = 0
    """Devices apart from those that train, which sample."""
    engine_tensor_parallel: int | None = None
    """None: as few as give keys and values room."""

    def __post_init__(self) -> None:
        if self.device is None and (self.devices > 1 or self.engine_devices):
            raise RunFileError("several devices of no kind", fix="name the kind with --gpu, for example --gpu h100")

    @property
    def per_device(self) -> float | None:
        """Bytes that one has."""
        return self.memory if self.device is None or self.memory is not None else self.device.memory


@dataclass(frozen=True)
class Job:
    """A model, an algorithm's needs, the sizes of a step, and devices. Raises `UserError` for impossible numbers."""

    model: Model
    algorithm: str
    needs: PlannedNeeds
    lengths: Lengths
    prompts: int = 16
    """Prompts of a step."""
    samples: int = 8
    """Completions per prompt."""
    prompt: int = 512
    """Tokens of the longest prompt."""
    mean_prompt: float | None = None
    """Tokens of prompts on average; None: all are as long as the longest."""
    micro_batch_tokens: int = 8192
    rows: int = 64
    """Completions that an engine decodes at a time."""
    epochs: int = 1
    minibatches: int = 1
    steps: int = 100
    """Rollouts of the run."""
    lora: int | None = None
    """Rank of adapters on every matrix; None: all weights are trained."""
    reward_models: int | None = None
    """Learned ones, of the policy's size; None: in the accounting `seed` one with PPO, else none."""
    accounting: str = OWN_ACCOUNTING
    """A recipe's name."""
    base: str | None = None
    """How weights beneath adapters are stored; None: as the recipe has it."""
    size: int | None = None
    """Parameters in place of the model's own."""
    layout: Layout = Layout()
    checkpointing: bool | None = None
    """None: where it is needed."""
    no_signal: float = 0.0
    """Share of groups that are sampled and not trained on."""
    rounds: float = 1.0
    """Of dynamic sampling."""
    stage: str = ""
    """Its name in a run of several."""

    def __post_init__(self) -> None:
        if self.lora is not None and self.accounting == SEED_ACCOUNTING:
            raise RunFileError("the accounting seed knows no adapters", fix="take another, such as mixed")
        if self.base is not None and self.lora is None:
            raise RunFileError(f"--base {self.base} is for weights beneath adapters", fix="give --lora RANK, too")
        least = self.model.shape.vocabulary * self.model.shape.hidden
        if self.size is not None and not least <= self.size <= MOST_PARAMETERS:
            raise RunFileError(
                f"{self.size:,} parameters are impossible for the shape of {self.model.name}",
                fix=f"give at least the {least:,} of its embedding, and no more than {MOST_PARAMETERS:,}",
            )
        if self.prompts * self.samples > MOST_COMPLETIONS:
            raise RunFileError(
                f"{self.prompts} prompts of {self.samples} completions are no step",
                fix=f"plan at most {MOST_COMPLETIONS:,} completions a step",
            )

    @property
    def parameters(self) -> int:
        """Of one network, without adapters."""
        return self.model.parameters if self.size is None else self.size

    @property
    def trained(self) -> int:
        """Of the policy, those with a gradient."""
        return self.parameters if self.lora is None else self.model.shape.lora_parameters(self.lora)

    @property
    def samples_live(self) -> bool:
        """Completions are sampled while training."""
        return self.needs.source == "prompts" and self.needs.sampling == "live"

    @property
    def precision(self) -> Precision:
        """What activations are kept in."""
        return {OWN_ACCOUNTING: FLOAT32, GPU_ACCOUNTING: BFLOAT16}.get(self.accounting, FUSED_BFLOAT16)

    @property
    def engine(self) -> Engine:
        """Where it samples: in process on one device, else colocated or apart."""
        layout = self.layout
        if layout.engine_devices == 0 and layout.devices == 1:
            return Engine(packs=layout.device is None)
        count = layout.engine_devices or layout.devices
        parallel = layout.engine_tensor_parallel or self._engine_parallel(count)
        return Engine("apart" if layout.engine_devices else "colocated", count, parallel)

    def _engine_parallel(self, count: int) -> int:
        """The fewest devices that hold a copy of the weights with room for keys and values beside it."""
        heads, memory = self.model.shape.heads, self.layout.per_device
        assert memory is not None, "devices of a kind have a size"
        room = ROOM_FOR_CACHE * Engine().utilisation * memory
        ways = [ways for ways in range(1, count + 1) if count % ways == 0 and heads % ways == 0]
        return next((n for n in ways if 2 * self.parameters / n <= room), ways[-1])

    @property
    def sharding(self) -> Sharding:
        """How training is spread."""
        return Sharding(self.layout.devices, 3, self.layout.tensor_parallel)

    def workload(self, micro_batch_tokens: int | None = None) -> Workload:
        """What memory is asked for, with this many tokens in a micro-batch or the job's own."""
        shape, sharding, engine = self.model.shape, self.sharding, self.engine
        ranks = sharding.shards
        packing = Packing.full(
            micro_batch_tokens or self.micro_batch_tokens,
            self.prompt,
            self.lengths.longest,
            self.samples,
            max(1, math.ceil(self.prompts / ranks)),
            whole=self.needs.couples_groups,
            window=shape.window,
        )
        rows = min(self.rows, math.ceil(self.prompts / max(1, engine.count)) * self.samples)
        adapters = 0 if self.lora is None else self.trained
        return Workload(
            shape,
            self.parameters + adapters,
            self.trained,
            self.precision,
            packing,
            policy=self.needs.policy,
            reference=self.needs.reference,
            critic=self.needs.critic,
            rollout=Rollout(self.prompt, self.lengths.longest, self.samples, rows) if self.samples_live else None,
            recipe=recipes.recipe(self.accounting),
            base=None if self.base is None else recipes.storage(self.base),
            reward_model=(self.reward_models or 0) * self.parameters if self.needs.rewards else 0,
            old_log_probs=self._old_log_probs,
            sharding=sharding,
            engine=engine,
            device_memory=self.layout.per_device if engine.place != "in process" else None,
            allowance=CPU_ALLOWANCE if self.layout.device is None else GPU_ALLOWANCE,
        )

    @property
    def _old_log_probs(self) -> bool:
        return self.needs.policy and (self.needs.old_log_probs or self.epochs * self.minibatches > 1)

    def step(self, micro_batch_tokens: int, checkpointing: bool) -> Step:
        """What time is asked for."""
        return Step(
            prompts=self.prompts,
            samples=self.samples,
            prompt=self.mean_prompt or self.prompt,
            lengths=self.lengths,
            no_signal=self.no_signal,
            rounds=self.rounds,
            epochs=self.epochs,
            minibatches=self.minibatches,
            micro_batch_tokens=micro_batch_tokens,
            rows=self.rows,
            policy=self.needs.policy,
            reference=self.needs.reference,
            critic=self.needs.critic,
            old_log_probs=self.needs.old_log_probs,
            checkpointing=checkpointing,
        )

    @property
    def fleet(self) -> Fleet:
        """The devices that time is asked of."""
        layout = self.layout
        return Fleet(layout.devices, layout.tensor_parallel, layout.engine_devices, self.engine.tensor_parallel)
