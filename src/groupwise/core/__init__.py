"""The maths: pure functions of tensors, one file per term of an objective.

    advantages   rewards of a group -> one advantage per completion
    ratios       the importance ratio of the policy that is trained to the one that sampled
    surrogates   the clipped policy objective
    kl           estimators of the divergence from the reference
    weights      how per-token losses add up to one number
    masks        what keeps tokens that don't count out of all of this
    layout       between the axes of a batch: tokens, completions, groups
    metrics      sums and counts that merge over micro-batches and ranks
    rows         padded [N, width] arrays to a `Batch` and back

Every differentiable term is returned with its slope, the derivative in the log-prob, so that an algorithm
can state its gradient coefficient in closed form.
"""
