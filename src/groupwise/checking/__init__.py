"""Checking: a task and its rewards before training, a verifier on cases, a run after it."""
