"""Gates on the answers themselves: who gave them, which are missing, and how much they agree."""

from collections import Counter
from collections.abc import Iterator
from itertools import compress
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from harness.core.errors import EvidenceError
from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.printable import many
from harness.core.run import Status
from harness.core.scores import codes
from harness.gates.base.differences import known_span, needed
from harness.gates.base.queries import (
    SampleSettings,
    ShareSettings,
    checked,
    in_slice,
    judge_shares,
    other,
    too_few,
)
from harness.gates.base.rules import GateSettings, Rules, Share, Where, above, plain, some
from harness.stats.interval import interval


class FailureRateSettings(ShareSettings):
    """The share of queries that were not answered must lie below ``max_share``."""

    rule: ClassVar[str] = "failure_rate"

    @property
    def bound(self) -> str:
        return f"fewer than {self.max_share:.2%} of the queries go unanswered, in each arm"


def judge_failure_rate(
    name: str, settings: FailureRateSettings, evidence: Evidence, rules: Rules
) -> Finding:
    """PASS where the intervals of both arms lie below the bound; an empty answer is an answer."""
    found = [(side, *_unanswered(side)) for side in (evidence.control, evidence.candidate)]
    return judge_shares(name, settings, found, evidence.clusters, rules)


def _unanswered(side: ArmResult) -> tuple[NDArray[np.bool_], str]:
    """Return which queries have no answer, shape (queries,), and how they ended."""
    run = side.run
    answered = run.status == Status.ANSWERED
    wrong = tuple(
        query_id
        for query_id, fine, error, hits in zip(
            run.query_ids, answered, run.errors, run.lengths, strict=True
        )
        if (error if fine else hits)
    )
    if wrong:
        raise EvidenceError(
            f"{run.arm}: {many(len(wrong), 'query')} ({some(wrong)}) got an answer with an error,"
            " or failed with hits; an error is not an empty answer: replay the arm"
        )
    ways = [
        (run.count(status), word)
        for status, word in (
            (Status.FAILED, "failed"),
            (Status.TIMED_OUT, "timed out"),
            (Status.NOT_ASKED, "were not asked"),
        )
    ]
    said = ", ".join(f"{count} {word}" for count, word in ways if count)
    unanswered = f"went unanswered ({said})" if said else "went unanswered"
    return ~answered, ", ".join(filter(None, (unanswered, run.repeated)))


class DuplicatesSettings(ShareSettings):
    """The share of queries with a repeated hit must lie below ``max_share``."""

    rule: ClassVar[str] = "duplicates"

    @property
    def bound(self) -> str:
        return f"fewer than {self.max_share:.2%} of the queries are shown a document twice"


def judge_duplicates(
    name: str, settings: DuplicatesSettings, evidence: Evidence, rules: Rules
) -> Finding:
    """PASS where the share of repeated hits lies below the bound in both arms."""
    found = [
        (
            side,
            side.run.duplicates > 0,
            f"were shown a document twice ({many(int(side.run.duplicates.sum()), 'hit')})",
        )
        for side in (evidence.control, evidence.candidate)
    ]
    return judge_shares(name, settings, found, evidence.clusters, rules)


PREFIX = 12
COUNTED = (
    "an index whose files are counted at the replay; or a policy without this gate, whose page"
    " says that identity is the arm's own word"
)


class IdentitySettings(GateSettings):
    """No bound to set: the rule has no tolerance."""

    rule: ClassVar[str] = "identity"
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


def judge_identity(
    name: str,
    settings: IdentitySettings,
    evidence: Evidence,
    rules: Rules,  # noqa: ARG001  every rule is called alike
) -> Finding:
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


class AgreementFloorSettings(SampleSettings):
    """The mean of an agreement measure must lie above ``floor``."""

    rule: ClassVar[str] = "agreement_floor"
    passes: ClassVar[Where] = "above"
    bounded_by: ClassVar[str] = "floor"
    measures: ClassVar[tuple[str, ...]] = ()
    floor: Share

    @property
    def bound(self) -> str:
        return f"mean {self.where} above {self.floor:g}"


def judge_agreement_floor(
    name: str, settings: AgreementFloorSettings, evidence: Evidence, rules: Rules
) -> Finding:
    """PASS where the interval of the mean lies above the floor.

    The control's A/A agreement is shown with it. If that is below the floor too, the candidate is
    not to blame, and a FAIL becomes INCONCLUSIVE.
    """
    scores, noise = (
        in_slice(checked(agreement.scores, settings.measure, owner), evidence, settings.slice)
        for agreement, owner in ((evidence.agreement, "agreement"), (evidence.noise, "noise"))
    )
    left_out = "".join(
        f"; {len(ids)} undefined ({why})" for why, ids in sorted(scores.undefined.items()) if ids
    )
    if thin := too_few(name, settings, scores.query_ids, evidence, left_out):
        return thin
    groups = codes(scores.query_ids, evidence.clusters)
    span = known_span(settings.measure)
    estimate = interval(scores.values, span=span, inference=rules, clusters=groups)
    verdict = above(estimate, settings.floor)
    remedy = needed(
        scores.values, settings.floor, best=span.most, span=span, clusters=groups, rules=rules
    )
    itself = "unknown" if noise.mean is None else f"{noise.mean:.4f}"
    cause = Cause.OPEN
    if verdict is Verdict.FAIL and (noise.mean is None or noise.mean < settings.floor):
        verdict = Verdict.INCONCLUSIVE
        remedy = "a control that agrees with itself: find out why two replays of it differ"
        cause = Cause.CONTROL
    return settings.finding(
        name,
        verdict,
        f"mean {settings.where} {plain(estimate)} over {many(estimate.n, 'query')},"
        f" control against itself {itself}{left_out}",
        estimate=estimate,
        remedy=remedy,
        cause=cause,
    )
