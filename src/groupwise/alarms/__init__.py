"""Alarms: rules over `metrics.jsonl` that say in time when a run goes wrong; see docs/alarms.md.

    from groupwise.alarms import findings

    for finding in findings(rows):             # rows of metrics.jsonl, in order
        print(finding.line())

`contract` says what an alarm is; `policy`, `completions`, `signal`, `optimisation` and `machine` hold them, `watching`
follows them through a run.
"""

from groupwise.alarms.catalogue import ALARMS
from groupwise.alarms.contract import Alarm, Finding
from groupwise.alarms.history import History
from groupwise.alarms.watching import Watcher, findings

__all__ = ["ALARMS", "Alarm", "Finding", "History", "Watcher", "findings"]
