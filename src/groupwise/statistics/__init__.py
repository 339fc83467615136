"""Pure numbers about samples of prompts: pass@k, majorities, intervals, paired tests, spread over seeds.

Prompts are the independent draws everywhere: what is given is one number per prompt, such as the share of its
completions that are right. Nothing here knows of runs, models or files.
"""
