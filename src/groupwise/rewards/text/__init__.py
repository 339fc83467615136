"""Rewards that are read off the text: its form, its length, its repetitions, its script.

    from groupwise.rewards.text import constraints, format, language, length, overlong, repetition
    format.grade("7 + 8 is 15.</think><answer>15</answer>", prompt="What is 7 + 8?\n<think>\n")      # 1: right
    constraints.grade("Yes, of course.", [{"kind": "words", "min": 3}, {"kind": "exclude", "texts": [","]}])    # 0.5
    repetition.grade("so we go on and so we go on".split(), n=3)                                # -2/7

Each is a pure function of bounded cost, linear in the text, and so runs in the trainer's own process. `format` and
`constraints` say right or wrong; the others shape a reward, and leave `correct` unknown.
"""
