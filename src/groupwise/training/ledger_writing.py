"""Every completion, written beside the loop: a thread decodes and writes while the next step is under way.

The loop hands over what it has, groups and the numbers of their tokens, and waits only where two rollouts are being
written already. `flush` comes before a checkpoint is sealed and at the end of a run, so a step that a checkpoint holds
is in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from groupwise.errors import RunFolderError
from groupwise.telemetry import ledger
from groupwise.telemetry.background import Background
from groupwise.telemetry.run_folder import RunFolder
from groupwise.telemetry.token_texts import TokenTexts
from groupwise.training.minibatches import Minibatch
from groupwise.types import Batch, Completion, Group

Numbers = Sequence[np.ndarray | None]
"""One array for each completion of a batch; None where there is nothing to say of it."""


class LedgerWriter:
    """Writes the ledger of a run folder, and keeps its rollouts under their cap."""

    def __init__(
        self, folder: RunFolder, tokenizer: PreTrainedTokenizerBase, max_mb: int, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """`rows`: the metrics that are recorded already; a rollout of theirs without a file was dropped."""
        self.folder, self.decode = folder, tokenizer.decode
        self.token_texts = TokenTexts(self.decode)
        self.background = Background()
        there = ledger.files(folder.rollouts)
        begun = [row["step"] for row in rows if row.get("completion_length_mean") is not None]
        self.cap = ledger.Cap(folder.rollouts, max_mb, dropped=sum(step not in there for step in begun))

    def write(
        self,
        file: Path,
        step: int,
        stage: str,
        groups: Sequence[Group],
        *,
        dropped: Mapping[str, str] | None = None,
        advantages: ledger.PerToken | None = None,
        coefficients: ledger.PerToken | None = None,
    ) -> None:
        """Hand over the completions of a file. Raises `RunFolderError` where one before could not be written."""

        def job() -> None:
            texts = [[self.decode(list(completion.token_ids)) for completion in group.completions] for group in groups]
            pieces = [
                [self.token_texts.of(one.token_ids, text) for one, text in zip(group.completions, found, strict=True)]
                for group, found in zip(groups, texts, strict=True)
            ]
            try:
                ledger.write(
                    file, step, stage, groups, texts, advantages or {}, dropped or {}, coefficients, token_texts=pieces
                )
                if file.parent == self.folder.rollouts:
                    self.cap.added(step, file)
            except OSError as error:
                raise RunFolderError(
                    f"can't write {file}: {error.strerror or error}",
                    fix=f"make room, then go on with: groupwise train --resume {self.folder.path}",
                ) from error

        self.background.put(job)


class RolloutRecord:
    """A rollout that is being trained on: written once every completion has had its first update, or as the block ends.

    A context manager, so that a rollout whose training fails stands in the ledger too.
    """

    def __init__(
        self,
        writer: LedgerWriter,
        step: int,
        stage: str,
        groups: Sequence[Group],
        trained: Sequence[Group],
        batch: Batch,
        dropped: Mapping[str, str],
    ) -> None:
        """`trained`: the groups that `batch` was packed of, with the completions of `groups` that are trained on."""
        self.writer, self.step, self.stage, self.groups, self.dropped = writer, step, stage, groups, dropped
        self.trained, self.batch = trained, batch
        self.coefficients: list[np.ndarray | None] = [None] * len(batch.completion_spans)
        self.left = set(range(len(batch.completion_spans)))
        self.written = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.write()

    def updated(self, minibatch: Minibatch, coefficients: Tensor | None) -> None:
        """An optimiser step was tried; its gradient coefficients on the minibatch's axis, None where it was skipped."""
        first = self.left & set(minibatch.completions)
        if coefficients is not None and first:
            values = _split(coefficients, minibatch.batch)
            for completion, found in zip(minibatch.completions, values, strict=True):
                if completion in first:
                    self.coefficients[completion] = found
        self.left -= first
        if not self.left:
            self.write()

    def write(self) -> None:
        """Hand it over, once."""
        if self.written:
            return
        self.written = True
        advantages: Numbers = [] if self.batch.advantages is None else _split(self.batch.advantages, self.batch)
        self.writer.write(
            ledger.file_of(self.writer.folder.rollouts, self.step),
            self.step,
            self.stage,
            self.groups,
            dropped=self.dropped,
            advantages=self._by_group(advantages),
            coefficients=self._by_group(self.coefficients),
        )

    def _by_group(self, numbers: Numbers) -> ledger.PerToken:
        """From the order of the batch to that of the groups, of which perhaps not every completion is trained on."""
        owned: list[tuple[str, Completion]] = [(part.id, one) for part in self.trained for one in part.completions]
        found = {(name, id(one)): values for (name, one), values in zip(owned, numbers, strict=False)}
        return {group.id: [found.get((group.id, id(one))) for one in group.completions] for group in self.groups}


def _split(values: Tensor, batch: Batch) -> list[np.ndarray]:
    """What stands at each completion's tokens."""
    flat = values.detach().float().cpu().numpy()
    return [flat[start:end] for start, end in batch.completion_spans]
