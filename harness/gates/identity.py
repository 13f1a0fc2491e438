"""Each arm's answers must be its own, from an index whose files were counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import compress
from typing import ClassVar

from pydantic import Field

from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.run import Status
from harness.gates.base.queries import other
from harness.gates.base.rules import GateSettings, Rules

PREFIX = 12
COUNTED = (
    "an index whose files are counted at the replay; or a policy without this gate, whose page"
    " says that identity is the arm's own word"
)


class IdentitySettings(GateSettings):
    """No bound to set: the rule has no tolerance."""

    unit: ClassVar[str] = "fingerprint"
    every_look: ClassVar[bool] = True
    also: tuple[str, ...] = Field(default=(), strict=False)
    """Further arms that a gate of the step compares the candidate with."""

    @property
    def arms(self) -> tuple[str, ...]:
        return self.also

    @property
    def bound(self) -> str:
        return "every answer comes from the arm's own index"


def judge(name: str, settings: IdentitySettings, evidence: Evidence, rules: Rules) -> Finding:  # noqa: ARG001  every rule is called alike
    """FAIL where another engine answered, or an arm searched other documents.

    INCONCLUSIVE where an arm answered nothing, or no index of it was counted: its fingerprint is
    then its own word. Whether two arms are one is checked in every decision
    (``harness.policy.decision``). The same applies to the arms in ``also``.
    """
    further = (other(evidence, arm) for arm in settings.also)
    sides = (evidence.control, evidence.candidate, *further)
    wrong = [*_impostors(sides), *_other_documents(sides)]
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
    if unprobed := [side.arm for side in sides if side.index_sha256 is None]:
        said = f"the index of {', '.join(unprobed)} was not verified; its identity is self-reported"
        return settings.undecided(name, Cause.IDENTITY, said, COUNTED)
    said = ", ".join(f"{side.arm} {side.manifest.fingerprint[:PREFIX]}" for side in sides)
    reason = f"every answer names its own arm's fingerprint: {said}; the files of every index were"
    return settings.finding(name, Verdict.PASS, f"{reason} counted before it answered")


def _impostors(sides: tuple[ArmResult, ...]) -> Iterator[str]:
    for side in sides:
        run, own = side.run, side.manifest.fingerprint
        answered = (run.status == Status.ANSWERED).tolist()
        by = Counter(who for who in compress(run.served_by, answered) if who != own)
        for who, count in sorted(by.items()):
            yield (
                f"{count} of {len(run)} answers of {side.arm} were served by"
                f" {who[:PREFIX] or 'an engine without a name'}, not by its own {own[:PREFIX]}"
            )


def _other_documents(sides: tuple[ArmResult, ...]) -> Iterator[str]:
    own = sides[0]
    for side in sides[1:]:
        if side.manifest.corpus_sha256 != own.manifest.corpus_sha256:
            yield (
                f"{side.arm} searched other documents ({side.manifest.documents}) than"
                f" {own.arm} ({own.manifest.documents}); index one corpus for all arms"
            )
