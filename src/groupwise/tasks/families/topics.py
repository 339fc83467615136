"""What the instructions are about. Training and test topics share nothing, so the test asks about unseen
ones.

Each topic is a phrase of two or three words (singular, with its article) and three adjectives for reference
answers.
"""

from __future__ import annotations

from typing import NamedTuple


class Topic(NamedTuple):
    """A thing to write about."""

    phrase: str
    first: str
    second: str
    third: str

    @property
    def opening(self) -> str:
        """The phrase as the beginning of a sentence."""
        return self.phrase[0].upper() + self.phrase[1:]


def _topics(table: str) -> tuple[Topic, ...]:
    """Topics from lines of `phrase: adjective adjective adjective`."""
    pairs = (line.split(":") for line in table.strip().splitlines())
    return tuple(Topic(phrase.strip(), *adjectives.split()) for phrase, adjectives in pairs)


TRAIN_TOPICS = _topics("""
    the sea: deep salty wide
    the moon: pale round distant
    a cat: quiet curious soft
    a forest: green shady old
    a river: long cool winding
    a mountain: high steep rocky
    a library: silent full useful
    a train: fast loud punctual
    a garden: colorful fragrant neat
    a teacher: patient kind clever
    a bicycle: light cheap quick
    a storm: dark windy violent
    an old house: creaky cold large
    an apple: sweet crisp red
    a bridge: strong narrow tall
    a kitchen: warm busy bright
    a birthday party: cheerful noisy short
    a market: crowded lively open
    a desert: dry hot empty
    a piano: heavy black elegant
    a farmer: tired honest strong
    a winter morning: cold clear calm
    a city street: busy grey long
    a good friend: loyal funny generous
    a horse: fast graceful tall
    a bee: small busy helpful
    a candle: warm dim steady
    a castle: ancient grand cold
    a doctor: careful calm skilled
    a pizza: hot cheesy round
    a school: large loud friendly
    an island: remote sunny green
    a clock: exact round loud
    a lighthouse: white tall lonely
    a violin: delicate bright expensive
    a bakery: warm fragrant popular
    a museum: quiet grand cool
    a rainy day: grey wet slow
    a spider: small patient quick
    an airport: huge modern crowded
    a dream: strange vivid brief
    a letter: personal short precious
    a soccer game: fast exciting long
    a snowman: round white cold
    a camping trip: simple fun tiring
    a whale: huge gentle slow
    a painting: colorful flat famous
    a computer: fast useful modern
""")

TEST_TOPICS = _topics("""
    a lake: calm clear cold
    the sun: bright hot golden
    a dog: loyal playful loud
    a beach: sandy sunny wide
    a hospital: clean busy quiet
    a guitar: wooden light loud
    a volcano: hot dangerous tall
    a summer evening: warm long peaceful
    a bus driver: patient careful friendly
    a chocolate cake: sweet dark rich
    an owl: silent wise nocturnal
    a small village: quiet old pretty
    a wedding: joyful formal long
    a rocket: fast loud powerful
    a tiger: striped fierce strong
    a novel: long gripping sad
""")
