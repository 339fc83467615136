"""The run files that come with groupwise, each with the curve to expect."""
