"""One promise of an engine as a check: what it says, what it saw, and how to fix it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from harness.core.printable import between
from harness.stages.contract.subject import NotChecked, Subject, raised

LISTED = 3
"""Violations that a message lists."""
LONGEST = 500
"""Characters of a violation: an id of an engine may have a million."""
COUNTED = 1_000
"""Violations after which a check ends."""


class Outcome(StrEnum):
    """How a check ended."""

    HOLDS = "holds"
    BROKEN = "broken"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """A promise, and the function that yields each violation of it."""

    name: str
    promise: str
    hint: str
    """What to do where it is broken."""
    violations: Callable[[Subject], Iterator[str]]
    own_documents: bool = False
    """Whether it needs the documents of ``harness.stages.contract.documents``."""
    by_name: bool = False
    """Whether it needs an engine that another process can load: an arm, or a TOML file."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check saw."""

    check: Check
    outcome: Outcome
    violations: tuple[str, ...] = ()
    """The first of them; ``count`` says how many there are."""
    count: int = 0
    reason: str = ""
    """Why nothing was checked."""

    @property
    def broken(self) -> bool:
        """Whether the promise is broken."""
        return self.outcome is Outcome.BROKEN

    def __str__(self) -> str:
        said = [f"{self.check.name}: {self.outcome}. {self.check.promise}"]
        said += [f"  {one}" for one in self.violations]
        if self.count > len(self.violations):
            said.append(f"  and {self.count - len(self.violations)} more")
        if self.broken:
            said.append(f"  To fix: {self.check.hint}")
        return "\n".join([*said, *([f"  {self.reason}"] if self.reason else [])])


def examine(check: Check, subject: Subject) -> Finding:
    """Run a check; whatever the engine raises in it is a violation, but that a disk is full."""
    found: list[str] = []
    try:
        found.extend(islice(check.violations(subject), COUNTED))
    except NotChecked as exc:
        return Finding(check, Outcome.NOT_CHECKED, reason=between(str(exc), LONGEST))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001  an exit or a panic breaks the promise too
        found.append(raised(exc))
    if not found:
        return Finding(check, Outcome.HOLDS)
    first = tuple(between(one, LONGEST) for one in found[:LISTED])
    return Finding(check, Outcome.BROKEN, first, len(found))


def examine_all(
    checks: Sequence[Check], subject: Subject, *, own_documents: bool
) -> Iterator[Finding]:
    """Run checks one by one; ``own_documents`` says whether ``subject`` indexed the sample.

    Where the first finds that no query is answered, there is nothing to learn from the others.
    """
    silent = False
    for number, check in enumerate(checks):
        if silent:
            yield Finding(check, Outcome.NOT_CHECKED, reason="no query was answered")
        elif check.own_documents and not own_documents:
            reason = "needs the sample documents: leave out --dataset"
            yield Finding(check, Outcome.NOT_CHECKED, reason=reason)
        else:
            finding = examine(check, subject)
            silent = number == 0 and finding.broken and not any(one.answer for one in subject.asked)
            yield finding
