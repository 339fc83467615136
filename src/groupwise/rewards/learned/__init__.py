"""Rewards that ask a model, or a rule step by step: reward models, process rewards, judges."""
