"""Each arm must be who it says it is, and the arms must be different engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pydantic import Field

from harness.core.evidence import Evidence, Side
from harness.core.gate import Finding, Verdict
from harness.core.run import Status
from harness.gates.base.queries import other
from harness.gates.base.rules import GateSettings, Rules

PREFIX = 12


class Settings(GateSettings):
    """There is no tolerance to set."""

    also: tuple[str, ...] = Field(default=(), strict=False)
    """Further arms that a gate of the step compares the candidate with."""

    @property
    def arms(self) -> tuple[str, ...]:
        return self.also

    @property
    def bound(self) -> str:
        return "every answer comes from the arm's own index, and no two arms share one"

    @property
    def unit(self) -> str:
        return "fingerprint"


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:  # noqa: ARG001  every rule is called alike
    """FAIL where another engine answered, two arms are one, or they searched other documents.

    The arms named in ``also`` are held to the same.

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
            f"{', '.join(silent)} answered nothing, so nobody knows who would have",
            "replay an arm that answers",
        )
    said = ", ".join(f"{side.arm} {side.manifest.fingerprint[:PREFIX]}" for side in sides)
    return settings.finding(
        name, Verdict.PASS, f"every answer names its own arm's fingerprint: {said}"
    )


def _impostors(sides: tuple[Side, ...]) -> Iterator[str]:
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


def _same(sides: tuple[Side, ...]) -> Iterator[str]:
    for at, left in enumerate(sides):
        for right in sides[at + 1 :]:
            if left.manifest.fingerprint == right.manifest.fingerprint:
                yield (
                    f"{left.arm} and {right.arm} are the same engine:"
                    f" both are {left.manifest.fingerprint[:PREFIX]}"
                )


def _other_documents(sides: tuple[Side, ...]) -> Iterator[str]:
    own = sides[0]
    for side in sides[1:]:
        if side.manifest.corpus_sha256 != own.manifest.corpus_sha256:
            yield (
                f"{side.arm} searched other documents ({side.manifest.documents}) than"
                f" {own.arm} ({own.manifest.documents}); index one corpus for all arms"
            )
