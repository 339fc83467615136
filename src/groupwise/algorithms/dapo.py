"""DAPO (Yu et al. 2025, arXiv:2503.14476, Eq. 8 to 13).

    J = E[ 1/sum_i |o_i| sum_i sum_t min( rho A_i, clip(rho, 1 - eps_low, 1 + eps_high) A_i ) ]             (8)
        with 0 < number of right completions < G                                                            (11)

    A_i = (r_i - mean r) / std r  (9)        GC = rho A_i [not clipped]        W = 1 / sum |o|

Clip-higher gives unlikely tokens room to grow; every token weighs the same, so long completions count in full; groups
without signal are dropped and sampled again; completions near the token limit are punished softly (13). No KL. The
paper writes the token sum per group and its code takes one for the whole step: `token-mean` is the code's,
`group-token-mean` the paper's. With one update per rollout nothing is clipped.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, PositiveFloat

from groupwise.algorithms.parts import DynamicSampling, off_for_none
from groupwise.algorithms.token_clip import TokenClip
from groupwise.core.weights import Aggregation


class DAPO(TokenClip):
    """Decoupled clip and dynamic sampling policy optimisation."""

    name: Literal["dapo"] = "dapo"
    differences = (
        "One token mean over the whole optimiser step, as in the authors' code; Eq. 8 has one per group "
        "(`group-token-mean`).",
        "Dynamic sampling stops after `max_rounds` rounds and trains on what there is; the paper samples on "
        "without a bound.",
        "The punishment of overlong completions is off until `soft_overlong` gives its limits.",
        'The paper prints only "std": here it is sqrt(population variance + 1e-8), and tied rewards give exactly 0.',
        "One optimiser step per rollout by default; the paper has 16, of 512 completions each (`minibatches = "
        '16`, `split = "completions"`).',
    )
    clip_high: PositiveFloat = 0.28
    """A good token's ratio is clipped above 1 + clip_high."""
    aggregation: Aggregation = "token-mean"
    """How losses of tokens are averaged, over the whole optimiser step."""
    dynamic_sampling: Annotated[DynamicSampling | Literal["off"], BeforeValidator(off_for_none)] = DynamicSampling()
    """Drop groups that are all right or all wrong, and sample on; or `off`."""
