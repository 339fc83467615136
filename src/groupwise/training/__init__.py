"""Training: the loop, and what `groupwise` and `groupwise.train` do around it."""
