"""How often a gate on a mean difference may be judged while queries are added."""

from __future__ import annotations

from typing import Literal

from harness.gates.base.queries import SampleSettings

Looks = Literal["planned", "anytime"]


class LookSettings(SampleSettings):
    """A gate on a mean difference that says how often it may be judged."""

    looks: Looks = "planned"
    """``planned``: each look is one of the policy's attempts; ``anytime``: valid at every look."""

    @property
    def every_look(self) -> bool:
        return self.looks == "anytime"

    @property
    def at(self) -> str:
        """When the bound is valid, as the end of a sentence."""
        return ", at every look" if self.every_look else ""
