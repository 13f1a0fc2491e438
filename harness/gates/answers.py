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
from harness.gates.base import queries
from harness.gates.base.differences import known_span, needed
from harness.gates.base.rules import Fewest, GateSettings, Rules, Share, Where, above, plain, some
from harness.stats.interval import interval


class FailureRateSettings(queries.ShareSettings):
    """The share of queries that were not answered must lie below ``max_share``.

    An empty answer is an answer.
    """

    rule: ClassVar[str] = "failure_rate"

    @property
    def bound(self) -> str:
        return f"fewer than {self.max_share:.2%} of the queries go unanswered, in each arm"

    def bad(self, side: ArmResult) -> tuple[NDArray[np.bool_], str]:
        run = side.run
        answered = run.status == Status.ANSWERED
        ended = zip(run.query_ids, answered, run.errors, run.lengths, strict=True)
        if wrong := tuple(q for q, fine, error, hits in ended if (error if fine else hits)):
            raise EvidenceError(
                f"{run.arm}: {many(len(wrong), 'query')} ({some(wrong)}) got an answer with an"
                " error, or failed with hits; an error is not an empty answer: replay the arm"
            )
        words = {
            Status.FAILED: "failed",
            Status.TIMED_OUT: "timed out",
            Status.NOT_ASKED: "were not asked",
        }
        ways = ((run.count(status), word) for status, word in words.items())
        said = ", ".join(f"{count} {word}" for count, word in ways if count)
        unanswered = f"went unanswered ({said})" if said else "went unanswered"
        return ~answered, ", ".join(filter(None, (unanswered, run.repeated)))


class DuplicatesSettings(queries.ShareSettings):
    """The share of queries with a repeated hit must lie below ``max_share``."""

    rule: ClassVar[str] = "duplicates"

    @property
    def bound(self) -> str:
        return f"fewer than {self.max_share:.2%} of the queries are shown a document twice"

    def bad(self, side: ArmResult) -> tuple[NDArray[np.bool_], str]:
        twice = side.run.duplicates
        return twice > 0, f"were shown a document twice ({many(int(twice.sum()), 'hit')})"


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

    def planned(self, confidence: float) -> Fewest:  # noqa: ARG002  it counts
        return Fewest("the whole query set", 0, "it counts all queries and samples none")

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:  # noqa: ARG002
        """FAIL where another engine answered, or an arm searched other documents.

        INCONCLUSIVE where an arm answered nothing, or no index of it was counted: its fingerprint
        is then its own word. Whether two arms are one is checked in every decision
        (``harness.policy.decision``). The same applies to the arms in ``also``.
        """
        further = (queries.other(evidence, arm) for arm in self.also)
        sides = (evidence.control, evidence.candidate, *further)
        if wrong := [*_impostors(sides), *_other_documents(sides)]:
            return self.finding(gate, Verdict.FAIL, "; ".join(wrong))
        if silent := [side.arm for side in sides if not side.run.count(Status.ANSWERED)]:
            said = f"{', '.join(silent)} answered nothing, so its identity is unknown"
            return self.undecided(gate, Cause.UNANSWERED, said, "replay an arm that answers")
        if unprobed := [side.arm for side in sides if side.index_sha256 is None]:
            of = ", ".join(unprobed)
            said = f"the index of {of} was not verified; its identity is self-reported"
            return self.undecided(gate, Cause.IDENTITY, said, COUNTED)
        said = ", ".join(f"{side.arm} {side.manifest.fingerprint[:PREFIX]}" for side in sides)
        reason = f"every answer names its own arm's fingerprint: {said}; the files of every index"
        return self.finding(gate, Verdict.PASS, f"{reason} were counted before it answered")


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


class AgreementFloorSettings(queries.SampleSettings):
    """The mean of an agreement measure must lie above ``floor``."""

    rule: ClassVar[str] = "agreement_floor"
    passes: ClassVar[Where] = "above"
    bounded_by: ClassVar[str] = "floor"
    measures: ClassVar[tuple[str, ...]] = ()
    floor: Share

    @property
    def bound(self) -> str:
        return f"mean {self.where} above {self.floor:g}"

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:
        """PASS where the interval of the mean lies above the floor.

        The control's A/A agreement is shown with it. If that is below the floor too, the candidate
        is not to blame, and a FAIL becomes INCONCLUSIVE.
        """
        scores, noise = (
            queries.in_slice(
                queries.checked(agreement.scores, self.measure, owner), evidence, self.slice
            )
            for agreement, owner in ((evidence.agreement, "agreement"), (evidence.noise, "noise"))
        )
        left_out = "".join(
            f"; {len(ids)} undefined ({why})"
            for why, ids in sorted(scores.undefined.items())
            if ids
        )
        if thin := queries.too_few(gate, self, scores.query_ids, evidence, left_out):
            return thin
        values, groups = scores.values, codes(scores.query_ids, evidence.clusters)
        span = known_span(self.measure)
        estimate = interval(values, span=span, inference=rules, clusters=groups)
        verdict, cause = above(estimate, self.floor), Cause.OPEN
        remedy = needed(values, self.floor, best=span.most, span=span, clusters=groups, rules=rules)
        itself = "unknown" if noise.mean is None else f"{noise.mean:.4f}"
        if verdict is Verdict.FAIL and (noise.mean is None or noise.mean < self.floor):
            verdict, cause = Verdict.INCONCLUSIVE, Cause.CONTROL
            remedy = "a control that agrees with itself: find out why two replays of it differ"
        reason = (
            f"mean {self.where} {plain(estimate)} over {many(estimate.n, 'query')},"
            f" control against itself {itself}{left_out}"
        )
        return self.finding(gate, verdict, reason, estimate=estimate, remedy=remedy, cause=cause)
