"""Telemetry: what is recorded in the run folder, and what a person sees."""
