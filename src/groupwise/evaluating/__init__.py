"""`groupwise eval`: a model on the test prompts of a run, with statistics; `running.evaluate` is its centre."""
