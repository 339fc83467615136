"""The objective of an algorithm in plain text, with its numbers in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupwise.core.weights import FORMULAS

if TYPE_CHECKING:
    from groupwise.algorithms.policy_gradient import PolicyGradient

_ESTIMATORS = {
    "k1": "k1 = log(π_θ/π_ref)",
    "k2": "k2 = log(π_θ/π_ref)² / 2",
    "k3": "k3 = π_ref/π_θ − log(π_ref/π_θ) − 1",
}


def describe(algorithm: PolicyGradient) -> str:
    """J, its terms, the advantages, the weights, and what happens to exceptions."""
    unbiased = "ρ " if algorithm.kl_gradient == "unbiased" else ""
    penalty = f" − {algorithm.beta:g} {unbiased}{algorithm.kl_estimator}" if algorithm.kl_in_loss else ""
    corrected = "w " if algorithm.correction is not None else ""
    clamp = "" if algorithm.ratio_clamp == 0 else f", |log ρ| at most {algorithm.ratio_clamp:g}"
    objective = f"J = Σ W [ {corrected}{algorithm.equation()}{penalty} ]"
    lines = [
        objective,
        *([f"ρ = π_θ/π_old per token{clamp}"] if "ρ" in objective else []),
        *algorithm.describe_credit(),
        describe_reference(algorithm),
        describe_weight(algorithm),
    ]
    if algorithm.correction is not None:
        low, high = algorithm.correction.bounds()
        lines.append(f"w = {algorithm.correction.kind} of π_old/π_sampler, between {low:g} and {high:g}")
    return "\n".join(lines + describe_exceptions(algorithm))


def describe_clip(low: float, high: float, dual: float = 0.0) -> str:
    """min(rho A, clip(rho) A) with its bounds."""
    clipped = f"min(ρ A, clip(ρ, {max(1 - low, 0):g}, {1 + high:g}) A)"
    return clipped if dual == 0 else f"{clipped}, at least {dual:g} A where A < 0"


def describe_reference(algorithm: PolicyGradient) -> str:
    """Where the reference comes in."""
    if algorithm.beta == 0:
        return "no reference policy: beta is 0"
    estimator = _ESTIMATORS[algorithm.kl_estimator]
    refresh = algorithm.reference_refresh
    moved = "" if refresh is None else f"; the reference moves every {refresh.every} steps, mixing {refresh.mixing:g}"
    if algorithm.kl_in_reward:
        return f"{estimator.replace('π_θ', 'π_old')}, subtracted from the reward with weight {algorithm.beta:g}{moved}"
    backwards = algorithm.kl_estimator == "k3" and algorithm.kl_gradient == "as_is"
    pull = "KL(π_ref ‖ π_θ)" if backwards else "KL(π_θ ‖ π_ref)"
    return f"{estimator}, in the loss, with the gradient of {pull}{moved}"


def describe_weight(algorithm: PolicyGradient) -> str:
    """The aggregation."""
    empty = "counted" if algorithm.denominator == "all" else "left out"
    constant = ""
    if algorithm.aggregation == "seq-mean-token-sum-norm":
        constant = f", L = {algorithm.length_constant or 'the largest number of tokens of a completion'}"
    mode = f"{algorithm.aggregation}, empty completions {empty}{constant}"
    return f"W = {FORMULAS[algorithm.aggregation]} over the optimiser step   ({mode})"


def describe_exceptions(algorithm: PolicyGradient) -> list[str]:
    """What happens to completions without a score, to truncated ones, to groups without signal."""
    truncated = "leave the loss, not the statistics" if algorithm.overlong_filter else "count like any other"
    lines = ["completions without a score leave loss and statistics", f"truncated completions {truncated}"]
    if (limits := algorithm.soft_overlong) is not None:
        start = limits.max_length - limits.cache
        lines.append(f"the reward falls by up to {limits.factor:g} between {start} and {limits.max_length} tokens")
    if (sampling := algorithm.refill) is not None:
        lines.append(
            f"groups that are all right or all wrong are dropped and sampled again, up to "
            f"{sampling.max_rounds} rounds; then: {sampling.on_exhausted}"
        )
    return lines
