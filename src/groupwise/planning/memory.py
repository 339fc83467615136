"""Bytes that training takes, by component and phase: arithmetic on sizes alone, no torch, no weights.

    peak = max over phases of (networks + what the phase adds)

    rollout          keys and values of the rows being decoded, packed or copied weights, logits of one step
    scoring          one layer's forward pass, where a learned model scores
    reference        the same and logits
    old log-probs    the same
    update           activations of a micro-batch, and at their height logits or the backward pass of one layer

One model serves both this library's trainer, whose recipe and engine are the defaults, and others on many devices.
Gradients are there in the update alone. A critic is taken to be updated together with the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groupwise.errors import RunFileError
from groupwise.planning.activations import (
    CHUNK_ROWS,
    Packing,
    Precision,
    activations,
    layer_activations,
    layer_inputs,
    logits,
    passing,
    whole_logits,
)
from groupwise.planning.networks import Network, at_rest
from groupwise.planning.recipes import OURS, Recipe, Storage
from groupwise.planning.rollout import Engine, Rollout, decoding, serving
from groupwise.planning.shape import Shape
from groupwise.planning.sharding import Sharding


@dataclass(frozen=True)
class Allowance:
    """What is added to each phase for what arithmetic can't tell, and shown as such."""

    fixed: int = 0
    """Bytes per device of contexts and libraries."""
    share: float = 0.0
    """Of what a phase adds to the networks: holes that allocators leave."""

    def parts(self, added: int) -> dict[str, int]:
        """Bytes by component beside a phase that adds so many to the networks; nothing where nothing is allowed."""
        parts = {"margin for libraries": self.fixed, "margin for fragmentation": round(self.share * added)}
        return {name: size for name, size in parts.items() if size}


GPU_ALLOWANCE = Allowance(fixed=2 * 10**9, share=0.1)
"""For a GPU of a job on several: its context, kernels and NCCL's buffers, and holes. Chosen to be generous, not
measured."""


CPU_ALLOWANCE = Allowance(fixed=100 * 10**6)
"""For a process of this library on a CPU, above what it holds once all is imported: code that is read when it first
runs (about 40 MB), tokenizer and configs (10), compiled products and what the allocator keeps (about 50). Measured with
models of 0.8 and 28 million parameters, with and without a critic and checkpointing."""


@dataclass(frozen=True)
class Workload:
    """A model, and what a stage makes of it."""

    shape: Shape
    parameters: int
    """Of the policy, with adapters."""
    trained: int
    """Parameters with a gradient: all of them, or the adapters'."""
    precision: Precision
    packing: Packing
    """The largest micro-batch of one rank."""
    policy: bool = True
    """False where only a critic is trained."""
    reference: bool = False
    critic: bool = False
    rollout: Rollout | None = None
    """None where nothing is sampled."""
    recipe: Recipe = OURS
    base: Storage | None = None
    """How weights beneath adapters are stored; None: as the recipe stores what is frozen."""
    reference_is_base: bool = False
    """The reference is the model without its adapters, and no copy of those as they were is kept."""
    reward_model: int = 0
    """Parameters of a learned reward model of the same shape; 0: there is none."""
    old_log_probs: bool = False
    """They are computed in a pass of their own."""
    chunk_rows: int | None = CHUNK_ROWS
    """Rows of logits at a time; None: those of the whole micro-batch."""
    sharding: Sharding = Sharding()
    engine: Engine = Engine()
    offloads_frozen: bool = False
    """Reference and reward model are in the host's memory outside their phases."""
    device_memory: float | None = None
    """Bytes of one device, which bound what an engine with a paged cache takes; None: it takes what all rows need."""
    allowance: Allowance = Allowance()


@dataclass(frozen=True)
class Phase:
    """Bytes that one device holds at the height of a phase, by component."""

    name: str
    components: Mapping[str, int]
    devices: int = 1
    """How many hold that."""
    host: Mapping[str, int] = field(default_factory=dict)
    """Bytes per device that wait in the host's memory."""

    @property
    def total(self) -> int:
        """Bytes on one device."""
        return sum(self.components.values())

    @property
    def in_all(self) -> int:
        """Bytes on all devices."""
        return self.devices * self.total


@dataclass(frozen=True)
class Prediction:
    """The phases of a step."""

    phases: tuple[Phase, ...]

    @property
    def binding(self) -> Phase:
        """The phase that needs the most on one device."""
        return max(self.phases, key=lambda phase: phase.total)

    @property
    def peak(self) -> int:
        """Bytes on one device at the height of the binding phase."""
        return self.binding.total

    def phase(self, name: str) -> Phase:
        """The phase of this name."""
        return next(phase for phase in self.phases if phase.name == name)

    def room(self, memory: float) -> float:
        """Bytes that stay free on devices with so much; negative where they don't suffice."""
        return memory - self.peak


def predict(work: Workload, *, checkpointing: bool) -> Prediction:
    """The phases of a step after the first, when gradients and moments have their place.

    Raises `RunFileError` for layouts that are impossible.
    """
    _check(work)
    networks = _networks(work)
    weights = _weights(work)
    names = [("scoring", bool(work.reward_model)), ("reference", work.reference), ("old log-probs", work.old_log_probs)]
    phases = [_phase(work, name, networks, weights | _pass(work, name)) for name, there in names if there]
    phases.append(_phase(work, "update", networks, weights | _update(work, checkpointing)))
    if work.rollout is not None:
        phases.insert(0, _rollout(work, work.rollout, networks))
    return Prediction(tuple(phases))


def networks_at_rest(work: Workload) -> dict[str, int]:
    """Bytes of all networks, each once, however they are spread."""
    return at_rest(_networks(work), work.recipe)


def _check(work: Workload) -> None:
    ranks, engines = work.sharding.ranks, work.engine.devices
    if work.engine.place == "colocated" and ranks != engines:
        raise RunFileError(
            f"colocated engines have {engines} devices and training has {ranks}",
            fix="give both the same number, or engines devices of their own",
        )
    work.sharding.check(work.shape)
    work.engine.check(work.shape)


def _networks(work: Workload) -> list[Network]:
    matrices = work.shape.linear_parameters
    networks = [Network("policy", work.parameters, work.trained if work.policy else 0, matrices, work.base)]
    if work.critic:
        head = work.shape.vocabulary * work.shape.hidden
        parameters = work.parameters - (0 if work.shape.tied else head)
        networks.append(Network("critic", parameters, min(work.trained, parameters), matrices, work.base))
    if work.reference and not work.reference_is_base:
        whole = work.trained == work.parameters
        networks.append(Network("reference", work.trained, matrices=matrices if whole else 0))
    if work.reward_model:
        networks.append(Network("reward model", work.reward_model, matrices=matrices))
    return networks


def _weights(work: Workload) -> dict[str, int]:
    """What a pass through a model takes beside its weights at rest, in other bytes or in one place."""
    shape, compute = work.shape, work.precision.compute
    gathered = work.sharding.gathered(shape, min(work.recipe.weight, compute))
    return work.sharding.rounded(work.recipe, shape, compute) | gathered


def _phase(work: Workload, name: str, networks: list[Network], added: dict[str, int]) -> Phase:
    """A phase on the trainer's devices."""
    held = at_rest(networks, work.recipe, work.sharding)
    if name != "update":
        held = _without_gradients(held)
    away = {"scoring": ["reference"], "reference": ["reward model"]}.get(name, ["reference", "reward model"])
    host = {part: held.pop(part) for part in away if work.offloads_frozen and part in held}
    margin = work.allowance.parts(sum(added.values()))
    return Phase(name, held | added | margin, work.sharding.ranks, host)


def _without_gradients(parts: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in parts.items() if "gradients" not in name}


def _rollout(work: Workload, rollout: Rollout, networks: list[Network]) -> Phase:
    engine, shape = work.engine, work.shape
    if engine.place == "in process":
        rounded = work.sharding.rounded(work.recipe, shape, work.precision.compute)
        return _phase(work, "rollout", networks, rounded | decoding(shape, rollout, work.precision, engine.packs))
    held, host = _without_gradients(at_rest(networks, work.recipe, work.sharding)), {}
    if engine.place == "apart":
        held = {}
    elif engine.offloads:
        stays = ["weights"] if engine.shares_weights else []
        host = {name: size for name, size in held.items() if name not in stays}
        held = {name: size for name, size in held.items() if name in stays}
    if copy := engine.weights(work.parameters, shape.linear_parameters):
        held["engine's weights"] = copy
    fixed = work.allowance.fixed
    added = serving(shape, rollout, engine, work.device_memory, sum(held.values()) + fixed)
    # a paged cache is one piece, taken at the start: it leaves no holes
    return Phase("rollout", held | added | work.allowance.parts(0), engine.devices, host)


def _pass(work: Workload, name: str) -> dict[str, int]:
    """A pass without a gradient: the higher of a layer, and where there are any of logits beside the last hidden
    states."""
    split = work.sharding.tensor_parallel
    moments = [{"layer": passing(work.shape, work.packing, work.precision)}]
    if name != "scoring":
        hidden = 2 * layer_inputs(work.shape, work.packing, work.precision)
        moments.append({"logits": _logits(work, 2), "hidden states": hidden})
    height = max(moments, key=lambda moment: sum(moment.values()))
    return {part: size // split for part, size in height.items()}


def _logits(work: Workload, copies: int) -> int:
    scored = work.packing.scored
    if work.chunk_rows is None:
        return whole_logits(work.shape, scored)
    return logits(work.shape, min(scored, work.chunk_rows), copies)


def _update(work: Workload, checkpointing: bool) -> dict[str, int]:
    """Activations, and the highest of the moments after which they are gone: logits of the last chunk forward, of the
    first backward, the last layer's backward pass; or, when nothing of them is left, the embedding's gradient."""
    shape, packing, precision, sharding = work.shape, work.packing, work.precision, work.sharding
    split, whole = sharding.tensor_parallel, work.trained == work.parameters
    width = min(work.recipe.weight, precision.compute) if sharding.gathers else work.recipe.weight
    trained = work.policy + work.critic
    kept = {"activations": trained * activations(shape, packing, precision, checkpointing=checkpointing)}
    head = round(shape.vocabulary * shape.hidden * width) if work.policy and whole else 0
    forward = {"logits": _logits(work, 2)}
    backward = {"logits": _logits(work, 2 if shape.softcap else 1), "output layer's gradient": head}
    held = {"output layer's gradient": head if shape.tied else 0}  # until the embedding's joins it
    layer = held | {
        "gradients passing": packing.tokens * (shape.active + shape.hidden) * precision.compute,
        "layer computed again": layer_activations(shape, packing, precision) if checkpointing else 0,
    }
    moments = [kept | moment for moment in ([forward, backward, layer] if work.policy else [layer])]
    if head:
        moments.append(held | {"embedding's gradient": head})
    height = max(moments, key=lambda moment: sum(moment.values()))
    bucket = sharding.bucket(shape, width, work.trained / work.parameters)
    return {name: size // split for name, size in height.items()} | bucket
