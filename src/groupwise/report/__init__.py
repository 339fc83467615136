"""The page on which a run explains itself: read from run folders alone, written as one file or served while it goes on.

    numbers -> facts -> ledger_index -> chosen -> pass_rates -> page -> watching

`page.write_report` makes the file, `watching.serve` serves the same page live. What stands in a run folder was partly
written by a model, so nothing of it becomes markup: the data travel as JSON, and the page sets text, never HTML.
"""
