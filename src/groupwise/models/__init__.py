"""Models: from a name to a policy that can be sampled from, trained, saved and exported."""
