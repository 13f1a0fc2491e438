"""Each arm must be the engine it claims to be, and the arms must be different engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from pydantic import Field

from harness.agreement.copied import FEWEST_FIRST, FEWEST_LISTS, copied
from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.run import Status
from harness.gates.base.queries import other
from harness.gates.base.rules import GateSettings, Rules

PREFIX = 12
COPIES = (
    "replay the arm on an index of its own, and see that it answers itself:"
    " harness verify --requery 50"
)

DEEPER = (
    f"{FEWEST_LISTS} queries or more for which both arms show {FEWEST_FIRST} hits or more:"
    " ask more queries, or deeper (replay.k)"
)


class Settings(GateSettings):
    """No bound to set: the rule has no tolerance."""

    also: tuple[str, ...] = Field(default=(), strict=False)
    """Further arms that a gate of the step compares the candidate with."""

    @property
    def arms(self) -> tuple[str, ...]:
        return self.also

    @property
    def bound(self) -> str:
        return "every answer comes from the arm's own index, and no two arms share one"

    @property
    def every_look(self) -> bool:
        return True

    @property
    def unit(self) -> str:
        return "fingerprint"


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:  # noqa: ARG001  every rule is called alike
    """FAIL where another engine answered, two arms are one, or they searched other documents.

    INCONCLUSIVE where two arms claim to be different engines but are more alike than two engines
    are, or show too little to tell. One may be a copy of the other's run. Other settings of one
    engine may leave most scores and lists equal; then a notice says so and decides nothing.

    The same applies to the arms in ``also``.

    Raises:
        EvidenceError: an arm of ``also`` was not measured.
    """
    further = (other(evidence, arm) for arm in settings.also)
    sides = (evidence.control, evidence.candidate, *further)
    wrong = [*_impostors(sides), *_same(sides), *_other_documents(sides)]
    if wrong:
        return settings.finding(name, Verdict.FAIL, "; ".join(wrong))
    silent = [side.arm for side in sides if not side.run.count(Status.ANSWERED)]
    if silent:
        return settings.undecided(
            name,
            Cause.UNANSWERED,
            f"{', '.join(silent)} answered nothing, so its identity is unknown",
            "replay an arm that answers",
        )
    if suspect := [*_copies(sides)]:
        return settings.undecided(name, Cause.EMPTY, "; ".join(suspect), COPIES)
    if unknown := [*_unknown(sides)]:
        return settings.undecided(name, Cause.IDENTITY, "; ".join(unknown), DEEPER)
    said = ", ".join(f"{side.arm} {side.manifest.fingerprint[:PREFIX]}" for side in sides)
    return settings.finding(
        name,
        Verdict.PASS,
        "; ".join((f"every answer names its own arm's fingerprint: {said}", *notices(sides))),
    )


def notices(sides: Sequence[ArmResult]) -> Iterator[str]:
    """List how far identity was checked: what two runs share, and whose index was counted."""
    control, *others = sides
    for side in others:
        found = copied(control.run, side.run)
        alike = f"more alike than two builds are, and both are {control.manifest.engine}: "
        yield f"{alike if found.too_alike else ''}of {control.arm} and {side.arm} {found.said}"
    if unprobed := [side.arm for side in sides if side.index_sha256 is None]:
        yield f"no index of {', '.join(unprobed)} was counted, so who answered is its own word"
    else:
        yield "the files of every index were counted when it was asked"


def _copies(sides: tuple[ArmResult, ...]) -> Iterator[str]:
    """Say which two arms are too alike for the two engines that they claim to be."""
    for left, right in combinations(sides, 2):
        engines = f"{left.arm} is {left.manifest.engine}, {right.arm} is {right.manifest.engine}"
        if left.manifest.engine == right.manifest.engine:
            continue
        if left.index_sha256 is not None and left.index_sha256 == right.index_sha256:
            yield f"{engines}, and their indexes are the same files, byte for byte"
        elif (found := copied(left.run, right.run)).too_alike:
            yield f"{engines}, and their runs are more alike than two engines: {found.said}"


def _unknown(sides: tuple[ArmResult, ...]) -> Iterator[str]:
    """Say of which two arms of different engines nobody can tell whether one is a copy."""
    for left, right in combinations(sides, 2):
        found = copied(left.run, right.run)
        if left.manifest.engine != right.manifest.engine and not found.known:
            yield (
                f"whether {right.arm} is a copy of {left.arm} is not known, they show too little:"
                f" {found.said}"
            )


def _impostors(sides: tuple[ArmResult, ...]) -> Iterator[str]:
    for side in sides:
        run = side.run
        by = Counter(
            who
            for who, status in zip(run.served_by, run.status, strict=True)
            if status == Status.ANSWERED and who != side.manifest.fingerprint
        )
        for who, count in sorted(by.items()):
            yield (
                f"{count} of {len(run)} answers of {side.arm} were served by"
                f" {who[:PREFIX] or 'nobody known'}, not by its own"
                f" {side.manifest.fingerprint[:PREFIX]}"
            )


def _same(sides: tuple[ArmResult, ...]) -> Iterator[str]:
    for at, left in enumerate(sides):
        for right in sides[at + 1 :]:
            if left.manifest.fingerprint == right.manifest.fingerprint:
                yield (
                    f"{left.arm} and {right.arm} are the same engine:"
                    f" both are {left.manifest.fingerprint[:PREFIX]}"
                )


def _other_documents(sides: tuple[ArmResult, ...]) -> Iterator[str]:
    own = sides[0]
    for side in sides[1:]:
        if side.manifest.corpus_sha256 != own.manifest.corpus_sha256:
            yield (
                f"{side.arm} searched other documents ({side.manifest.documents}) than"
                f" {own.arm} ({own.manifest.documents}); index one corpus for all arms"
            )
