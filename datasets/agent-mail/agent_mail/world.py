"""Who writes to whom about what: projects, products and agents, the same for every size."""

from dataclasses import dataclass

from agent_mail.dice import Dice
from agent_mail.lexicon import lexicon

FEWEST_MEMBERS, MOST_MEMBERS = 5, 10


@dataclass(frozen=True, slots=True)
class Project:
    """Where messages are sent."""

    project_id: int
    product_id: int
    slug: str
    prefix: str
    """Of its tickets."""
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class World:
    """All projects; ids count from 1. An agent may work in several."""

    seed: int
    projects: tuple[Project, ...]
    products: tuple[str, ...]

    @classmethod
    def of(cls, seed: int) -> "World":
        """Draw the world."""
        names = lexicon().names
        dice = Dice(seed, "world")
        agents = [first + last for first in names["first"] for last in names["last"]]
        projects = [
            Project(
                project_id=number,
                product_id=1 + dice.below(len(names["products"])),
                slug=slug,
                prefix=dice.choice(names["prefixes"]),
                members=tuple(
                    dice.some(agents, FEWEST_MEMBERS + dice.below(MOST_MEMBERS - FEWEST_MEMBERS))
                ),
            )
            for number, slug in enumerate(names["projects"], start=1)
        ]
        return cls(seed, tuple(projects), names["products"])
