"""What a run will need, predicted before it is paid for."""
