"""What k samples of a prompt would give, from n >= k that were drawn: exact means over all choices of k of the n.

- avg@k is the share of right ones: pass@1.
- pass@k, one of k is right: 1 - C(n-c, k) / C(n, k) with c right ones (Chen et al., arXiv:2107.03374). It is unbiased,
  which 1 - (1 - c/n)^k is not.
- maj@k, the answer given most often among k is right (Wang et al., arXiv:2203.11171). Of t answers given equally often
  one is drawn: it is right with the share of right ones among the t. No order of samples decides. With k = n it is the
  plain vote of all samples. Samples without an answer don't vote; where none votes, nothing is right.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

MOST = 1000
"""Samples of one prompt: C(n, k) must fit a float."""


def pass_at_k(samples: int, right: int, k: int) -> float:
    """The probability that of k samples, drawn without putting back from these, at least one is right."""
    assert 0 <= right <= samples and 1 <= k <= samples
    return 1 - math.comb(samples - right, k) / math.comb(samples, k)


def majority_at_k(answers: Sequence[Hashable | None], right: Iterable[Hashable], k: int) -> float:
    """The probability that a vote among k samples, drawn without putting back from these, gives a right answer.

    answers: one per sample, equal where they are the same answer, None where there is none; right: the right answers.
    """
    assert 1 <= k <= len(answers) <= MOST
    votes, good = Counter(answer for answer in answers if answer is not None), set(right)
    counts = [(count, answer in good) for answer, count in votes.items()]
    most = min(k, max(votes.values(), default=0))
    won = math.fsum(_ways_to_win(counts, answers.count(None), k, lead) for lead in range(1, most + 1))
    return won / float(math.comb(len(answers), k))


def _ways_to_win(votes: Sequence[tuple[int, bool]], silent: int, k: int, lead: int) -> float:
    """Choices of k samples in which the answers in the lead have `lead` votes each, weighted by the share of right ones
    among them; `votes` holds how many samples gave each answer, and whether it is right.

    Answer by answer, ways[s, t] counts the choices of s samples with t answers in the lead, and good[s, t] the same
    times the number of right ones among the t.
    """
    leads = min(k // lead, len(votes))
    ways, good = np.zeros((k + 1, leads + 1)), np.zeros((k + 1, leads + 1))
    ways[0, 0] = 1.0
    for count, is_right in votes:
        new_ways, new_good = np.zeros_like(ways), np.zeros_like(good)
        for taken in range(min(count, lead - 1, k) + 1):
            new_ways[taken:] += math.comb(count, taken) * ways[: k + 1 - taken]
            new_good[taken:] += math.comb(count, taken) * good[: k + 1 - taken]
        if count >= lead:
            new_ways[lead:, 1:] += math.comb(count, lead) * ways[: k + 1 - lead, :-1]
            new_good[lead:, 1:] += math.comb(count, lead) * (good + is_right * ways)[: k + 1 - lead, :-1]
        ways, good = new_ways, new_good
    shares = good[:, 1:] @ (1 / np.arange(1, leads + 1))
    return float(sum(math.comb(silent, away) * shares[k - away] for away in range(min(silent, k) + 1)))
