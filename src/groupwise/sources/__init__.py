"""Sources: where scored groups come from. `contract` says what a source is."""
