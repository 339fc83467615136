"""Any algorithm on plain arrays: its loss, gradient and coefficient, without a model.

    result = groupwise.evaluate(
        "grpo",
        log_probs=[[-0.5, -1.2], [-0.9, -0.4]],
        old_log_probs=[[-0.5, -1.3], [-0.8, -0.4]],
        completion_mask=[[1, 1], [1, 1]],
        rewards=[1.0, 0.0],
        beta=0,
    )
    result.loss, result.gradient, result.coefficient, result.advantages

Rows are completions, N of them, padded to one width on either side; masked tokens may lie inside. Rows are packed at
the border and go through the code that training runs. This is how a formula is checked.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from groupwise.algorithms import ALGORITHMS
from groupwise.algorithms.contract import Algorithm
from groupwise.core.layout import precision
from groupwise.core.rows import floats, pack_rows, pack_values, unpack_rows
from groupwise.errors import DataError, RunFileError
from groupwise.types import Batch, Completion, Group, Mean, Metric, Prompt, Score, Segment

_NO_PROMPT = Prompt("", (), "")
_PER_ROW = ("rewards", "correct", "step_rewards", "step_ends", "truncated", "group_ids", "pair_ids", "final_values")
_PER_TOKEN = (
    "log_probs",
    "old_log_probs",
    "ref_log_probs",
    "sampler_log_probs",
    "values",
    "old_values",
    "returns",
)


@dataclass(frozen=True)
class Evaluation:
    """What an algorithm makes of one optimiser step. Arrays are [N, width] like the inputs, 0 at padding."""

    loss: float
    """The policy's loss, which is minimised."""
    gradient: Tensor
    """d loss / d log_probs."""
    coefficient: Tensor
    """The gradient coefficient: gradient = -weights * coefficient."""
    weights: Tensor
    """What each token's loss is multiplied by, 0 where it doesn't count."""
    advantages: Tensor | None
    """The advantages, assigned or given; None where the algorithm has none."""
    metrics: Mapping[str, float]
    """The metrics that training would record; those of the loss alone where advantages were given."""
    unused: frozenset[str]
    """Names of arrays that were given and that this algorithm doesn't use with these settings."""
    returns: Tensor | None = None
    """The critic's targets."""
    value_loss: float | None = None
    """The critic's loss, where there are values and returns."""
    value_gradient: Tensor | None = None
    """d value_loss / d values."""


def evaluate(
    algorithm: str | Algorithm,
    *,
    log_probs: Any = None,
    completion_mask: Any = None,
    advantages: Any = None,
    rewards: Any = None,
    correct: Any = None,
    step_rewards: Any = None,
    step_ends: Any = None,
    group_ids: Any = None,
    pair_ids: Any = None,
    old_log_probs: Any = None,
    ref_log_probs: Any = None,
    sampler_log_probs: Any = None,
    values: Any = None,
    old_values: Any = None,
    final_values: Any = None,
    returns: Any = None,
    truncated: Any = None,
    **settings: Any,
) -> Evaluation:
    """One optimiser step of `algorithm`, a name with its `settings` or an object.

    Log-probs, `values`, `old_values` and `returns` are [N, width]; `rewards`, `correct`, `truncated`, `final_values`,
    `group_ids` and `pair_ids` are [N]; `advantages` either. `step_rewards` and `step_ends` (counted from 0 within the
    completion) are N sequences. Nested lists and numpy arrays become float64; torch tensors keep their type. Without
    `completion_mask` every token counts; without `group_ids` all rows are one group; of the two rows of a pair the
    first is the chosen one; without `old_log_probs` the old policy is the current one; without `old_values` the critic
    is. Given `advantages` are used as they are: nothing is normalised, whitened or filtered.

    Raises a `UserError` for settings and arrays that don't fit, `NonFiniteLogprobError` for a number that isn't finite
    where it counts.
    """
    chosen = build(algorithm, settings)
    given = {name: value for name, value in locals().items() if name in (*_PER_TOKEN, *_PER_ROW) and value is not None}
    given |= {name: _numbers(name, given[name]) for name in (*_PER_TOKEN, "rewards", "final_values") if name in given}
    advantages = None if advantages is None else _numbers("advantages", advantages)
    mask = _mask(given.get("log_probs"), completion_mask)
    if log_probs is None:
        given["log_probs"] = torch.zeros(mask.shape, dtype=torch.float64)
    _check_shapes(given | ({} if advantages is None else {"advantages": advantages}), mask)
    assign = advantages is None or "advantages" not in chosen.reads.loss
    reads = chosen.reads.loss | (chosen.reads.credit if assign else frozenset()) | {"log_probs"}
    named = set(given) | (set() if advantages is None else {"advantages"})
    _check_present(chosen, given, assign)
    kept = _kept(chosen, given, len(mask)) if assign else list(range(len(mask)))
    rows = {name: _rows(value, kept) for name, value in given.items()}
    part = mask[torch.tensor(kept, dtype=torch.int64)]
    with precision(given["log_probs"].dtype):
        batch = _batch(chosen, rows, part, None if assign else _rows(advantages, kept))
        batch = chosen.weigh(chosen.credit(batch) if assign else chosen.mask(batch))
        diagnosed = chosen.diagnose(batch) if assign else {}
        return _run(chosen, batch, rows, part, kept, mask, diagnosed, frozenset(named - reads))


def build(algorithm: str | Algorithm, settings: Mapping[str, Any]) -> Algorithm:
    """The algorithm of this name with these settings. Raises `RunFileError`."""
    if not isinstance(algorithm, str):
        if settings:
            raise RunFileError("settings beside an algorithm object", fix="give its name, or the object alone")
        return algorithm
    if algorithm not in ALGORITHMS:
        raise RunFileError(f"no algorithm is called {algorithm!r}", fix=f"use one of {', '.join(ALGORITHMS)}")
    try:
        return ALGORITHMS[algorithm].model_validate(dict(settings))  # type: ignore[return-value]
    except ValidationError as error:
        first = error.errors()[0]
        where, what = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        known = [name for name in ALGORITHMS[algorithm].model_fields if name != "name"]
        if first["loc"] and first["loc"][0] not in known:
            close = difflib.get_close_matches(where, known, n=1)
            fix = f"did you mean {close[0]!r}" if close else f"its settings are {', '.join(known)}"
            raise RunFileError(f"{algorithm}: {where} is not a setting", fix=fix) from error
        fix = f"`groupwise explain {algorithm}` says what its settings take"
        raise RunFileError(": ".join(part for part in (algorithm, where, what) if part), fix=fix) from error


def _mask(log_probs: Any, completion_mask: Any) -> Tensor:
    if completion_mask is not None:
        mask = _numbers("completion_mask", completion_mask)
        if ((mask != 0) & (mask != 1)).any():
            raise DataError("completion_mask has other numbers than 0 and 1", fix="give 1 for tokens that count")
    elif log_probs is not None:
        mask = torch.ones(log_probs.shape)
    else:
        raise DataError("neither log_probs nor completion_mask is given", fix="give log_probs, [N, width]")
    if mask.dim() != 2:
        name = "log_probs" if completion_mask is None else "completion_mask"
        raise DataError(f"{name} has {mask.dim()} dimensions", fix="give one row per completion, [N, width]")
    return mask.bool()


def _numbers(name: str, value: Any) -> Tensor:
    try:
        return floats(value)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} is no array of numbers: {error}", fix="give numbers, and rows of one width") from error


def _check_shapes(arrays: Mapping[str, Any], mask: Tensor) -> None:
    table, row = list(mask.shape), [len(mask)]
    for name, value in arrays.items():
        if name in _PER_TOKEN and list(value.shape) != table:
            raise DataError(f"{name} is {list(value.shape)}", fix=f"give {table}, like completion_mask")
        if name == "advantages" and list(value.shape) not in (table, row):
            raise DataError(f"{name} is {list(value.shape)}", fix=f"give {row} or {table}")
        if name not in _PER_TOKEN and len(value) != len(mask):
            raise DataError(f"{name} has {len(value)} rows", fix=f"give {len(mask)}, one per completion")
        if name in ("rewards", "final_values") and value.dim() != 1:
            raise DataError(f"{name} is {list(value.shape)}", fix=f"give {row}, one number per completion")


def _check_present(algorithm: Algorithm, given: Mapping[str, Any], assign: bool) -> None:
    """Raise `DataError` for what the algorithm can't do without."""
    needs = algorithm.needs
    needed = {"log_probs"}
    if needs.reference and (assign or "ref_log_probs" in algorithm.reads.loss):
        needed.add("ref_log_probs")
    if "sampler_log_probs" in algorithm.reads.loss:
        needed.add("sampler_log_probs")
    if assign:
        needed |= {name for name in ("rewards", "step_rewards", "step_ends") if name in algorithm.reads.credit}
        needed |= {"values"} if needs.critic else set()
        needed |= {"final_values"} if needs.final_values else set()
    if needs.source == "pairs":
        needed.add("pair_ids")
    if "correct" in algorithm.reads.loss or (assign and not needs.dynamic_sampling and needs.verdicts):
        needed.add("correct")
    for name in sorted(needed - set(given)):
        instead = ", or advantages=" if name in ("rewards", "values") and "advantages" in algorithm.reads.loss else ""
        raise DataError(f"{algorithm.name} needs {name} with these settings", fix=f"give {name}={instead}")
    if assign and needs.min_group_size > 1 and needs.source == "prompts" and "group_ids" in algorithm.reads.credit:
        ids = [str(id) for id in given.get("group_ids", ["0"] * len(given["log_probs"]))]
        if ids and len(set(ids)) == len(ids):
            raise DataError("every group has one completion, and so no baseline", fix="set allow_singleton=True")


def _kept(algorithm: Algorithm, given: Mapping[str, Any], count: int) -> list[int]:
    """The rows of groups that training would keep."""
    sampling = algorithm.needs.dynamic_sampling
    blind = sampling is not None and sampling.metric == "correct" and "correct" not in given
    if blind or algorithm.needs.source != "prompts":
        return list(range(count))
    members: dict[Any, list[int]] = {}
    for row, id in enumerate(given.get("group_ids", [0] * count)):
        members.setdefault(_plain(id), []).append(row)
    verdicts, rewards = _verdicts(given.get("correct"), count), _rewards(given, count).tolist()
    cut = [bool(_plain(flag)) for flag in given.get("truncated", [False] * count)]
    kept = []
    for id, rows in members.items():
        scores = tuple(Score(None if rewards[row] != rewards[row] else rewards[row], verdicts[row]) for row in rows)
        completions = tuple(Completion((Segment((row,), None),), "length" if cut[row] else "stop") for row in rows)
        if algorithm.keep(Group(str(id), _NO_PROMPT, completions, scores)) is None:
            kept += rows
    return sorted(kept)


def _batch(algorithm: Algorithm, rows: Mapping[str, Any], mask: Tensor, advantages: Any) -> Batch:
    count = len(mask)
    ids = rows.get("pair_ids" if algorithm.needs.source == "pairs" else "group_ids")
    truncated = rows.get("truncated")
    batch = pack_rows(
        mask,
        group_ids=None if ids is None else [str(_plain(id)) for id in ids],
        rewards=_rewards(rows, count),
        correct=_verdicts(rows.get("correct"), count),
        truncated=None if truncated is None else [bool(cut) for cut in truncated],
        step_rewards=rows.get("step_rewards"),
        step_ends=rows.get("step_ends"),
        old_log_probs=rows.get("old_log_probs"),
        ref_log_probs=rows.get("ref_log_probs"),
        sampler_log_probs=rows.get("sampler_log_probs"),
        returns=rows.get("returns"),
        values=rows.get("old_values", rows.get("values")),
        final_values=rows.get("final_values"),
        advantages=advantages,
    )
    if algorithm.needs.old_log_probs and batch.old_log_probs is None:
        batch = replace(batch, old_log_probs=pack_values(rows["log_probs"], mask).detach())
    return batch


def _rewards(given: Mapping[str, Any], count: int) -> Tensor:
    """[N]; 0 where none are given, so that nothing counts as not scored."""
    return floats(given["rewards"]).double() if "rewards" in given else torch.zeros(count, dtype=torch.float64)


def _verdicts(correct: Any, count: int) -> list[bool | None]:
    plain = [None] * count if correct is None else [_plain(verdict) for verdict in correct]
    return [None if verdict is None or verdict != verdict else bool(verdict) for verdict in plain]


def _run(
    algorithm: Algorithm,
    batch: Batch,
    rows: Mapping[str, Any],
    part: Tensor,
    kept: list[int],
    mask: Tensor,
    diagnosed: Mapping[str, Metric],
    unused: frozenset[str],
) -> Evaluation:
    log_probs = pack_values(rows["log_probs"], part).detach().clone().requires_grad_()
    values = pack_values(rows["values"], part).detach().clone().requires_grad_() if "values" in rows else None
    loss = algorithm.loss(batch, log_probs, values)
    (gradient,) = torch.autograd.grad(loss.policy, log_probs, retain_graph=loss.value is not None)
    value_gradient = None
    if loss.value is not None and values is not None:
        (value_gradient,) = torch.autograd.grad(loss.value, values)

    def lay(flat: Tensor) -> Tensor:
        whole = flat.new_zeros(mask.shape)
        whole[torch.tensor(kept, dtype=torch.int64)] = unpack_rows(flat.detach(), part)
        return whole

    metrics = {name: _number(metric) for name, metric in {**diagnosed, **loss.metrics}.items()}
    assert batch.token_weights is not None
    return Evaluation(
        loss=loss.policy.item(),
        gradient=lay(gradient),
        coefficient=lay(loss.coefficient),
        weights=lay(batch.token_weights),
        advantages=None if batch.advantages is None else lay(batch.advantages),
        metrics={name: value for name, value in metrics.items() if value is not None},
        unused=unused,
        returns=None if batch.returns is None else lay(batch.returns),
        value_loss=None if loss.value is None else loss.value.item(),
        value_gradient=None if value_gradient is None else lay(value_gradient),
    )


def _number(metric: Metric) -> float | None:
    if isinstance(metric, Mean):
        return metric.total / metric.count if metric.count else None
    return metric.value


def _rows(value: Any, kept: Sequence[int]) -> Any:
    """The rows of a tensor, an array or a list."""
    if isinstance(value, Tensor):
        return value[torch.tensor(list(kept), dtype=torch.int64, device=value.device)]
    return [value[row] for row in kept]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) or type(value).__module__ == "numpy" else value
