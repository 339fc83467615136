"""The families of verifiable instructions, by name."""

from groupwise.tasks.families.contract import Family, Verdict
from groupwise.tasks.families.counting import COUNTING_FAMILIES
from groupwise.tasks.families.layout import LAYOUT_FAMILIES
from groupwise.tasks.families.topics import TEST_TOPICS, TRAIN_TOPICS, Topic
from groupwise.tasks.families.wording import WORDING_FAMILIES

FAMILIES: dict[str, Family] = {
    family.name: family for family in (*COUNTING_FAMILIES, *WORDING_FAMILIES, *LAYOUT_FAMILIES)
}

__all__ = ["FAMILIES", "TEST_TOPICS", "TRAIN_TOPICS", "Family", "Topic", "Verdict"]
