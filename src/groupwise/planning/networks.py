"""Which networks an algorithm keeps, and what they take at rest.

    trained    the policy, and a critic
    frozen     beside them while they are trained: the reference, reward models
    offline    needed only in a phase before training, which samples once

The policy that sampled is no network: its log-probs are kept. Copies of weights in a rollout engine are counted with
the rollout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from groupwise.planning.recipes import RECIPES, Recipe, Storage
from groupwise.planning.sharding import Sharding

SEED_REWARD_MODELS = frozenset({"ppo"})
"""Algorithms whose row in the seed's table has a learned reward model; the others have a rule."""


class Needs(Protocol):
    """What is read of an algorithm's needs."""

    @property
    def policy(self) -> bool:
        """The policy is trained."""

    @property
    def critic(self) -> bool:
        """A critic is trained."""

    @property
    def reference(self) -> bool:
        """Log-probs of a reference are needed."""

    @property
    def rewards(self) -> bool:
        """Completions are scored."""

    @property
    def sampling(self) -> str:
        """`live`, or `once` before training."""


@dataclass(frozen=True)
class Network:
    """One network and its size."""

    name: str
    """`policy`, `critic`, `reference`, `reward model`."""
    parameters: int
    trained: int = 0
    """Parameters with a gradient."""
    matrices: int = 0
    """Parameters in the layers' matrices."""
    base: Storage | None = None
    """How parameters are stored that aren't trained; None: as the recipe has it."""

    def components(self, recipe: Recipe, sharding: Sharding | None = None) -> dict[str, int]:
        """Bytes on one device by component; the policy's have no name before them, one that is all frozen is one."""
        layout = sharding or Sharding()
        parts = recipe.network(self.parameters, self.trained, self.matrices, self.base)
        sizes = {name: round(layout.per_device(size, name)) for name, size in parts.items()}
        if self.name == "policy":
            return sizes
        if not self.trained:
            return {self.name: sizes["weights"]}
        return {f"{self.name}'s {name}": size for name, size in sizes.items()}


@dataclass(frozen=True)
class Kept:
    """The networks of an algorithm, by name."""

    trained: tuple[str, ...]
    frozen: tuple[str, ...]
    offline: tuple[str, ...]

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many are trained, frozen and offline."""
        return len(self.trained), len(self.frozen), len(self.offline)

    def resident(self, parameters: int, recipe: Recipe, sharding: Sharding | None = None) -> dict[str, int]:
        """Bytes on one device of all networks that are there while training, each with `parameters` parameters."""
        networks = [Network(name, parameters, parameters) for name in self.trained]
        networks += [Network(name, parameters) for name in self.frozen]
        return at_rest(networks, recipe, sharding)


def kept(needs: Needs, reward_models: int = 0) -> Kept:
    """What an algorithm with these needs keeps, beside so many learned reward models where it scores completions."""
    trained = ["policy"] * needs.policy + ["critic"] * needs.critic
    frozen = [] if needs.policy else ["policy"]
    frozen += ["reference"] * needs.reference
    if needs.rewards:
        frozen += ["reward model" if number == 0 else f"reward model {number + 1}" for number in range(reward_models)]
    return Kept(tuple(trained), tuple(frozen), ("sampler",) if needs.sampling == "once" else ())


def at_rest(networks: Sequence[Network], recipe: Recipe, sharding: Sharding | None = None) -> dict[str, int]:
    """Bytes on one device of these networks, by component."""
    parts: dict[str, int] = {}
    for network in networks:
        parts |= network.components(recipe, sharding)
    return parts


def seed_table(name: str, needs: Needs, parameters: int, reward_models: int | None = None) -> dict[str, int]:
    """Bytes by component in the accounting that the comparison of PPO with GRPO at 70B is known for.

    Weights in 2 bytes, AdamW's moments in 8 for what is trained, all networks at once and nothing else: no gradients,
    master weights, activations, logits or keys and values. PPO has a learned reward model, GRPO a rule, unless
    `reward_models` says how many there are.
    """
    learned = int(name in SEED_REWARD_MODELS) if reward_models is None else reward_models
    return kept(needs, learned).resident(parameters, RECIPES["seed"])
