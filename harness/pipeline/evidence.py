"""What the stages left, put together for a decision; no page is known here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement, ArmResult, Evidence, Race
from harness.core.parts import kinds
from harness.core.scores import BY_TEXT, Clustering, Scores
from harness.corpus.prepared import Prepared
from harness.corpus.runs import Key, read_run
from harness.gates.base.rules import Rules
from harness.pipeline.compare import Pair, check_compared, read_agreement
from harness.pipeline.layout import Layout
from harness.pipeline.params import CompareParams, ScoreParams
from harness.pipeline.race import read_race
from harness.pipeline.receipts import read_manifest, replayed_index
from harness.pipeline.score import check_scores, slices
from harness.policy.model import Policy


def sides(layout: Layout, arms: Sequence[str]) -> dict[str, ArmResult]:
    """Read every arm as it was measured."""
    check_scores(layout, arms)
    scores = layout.read(Layout.per_query)
    return {arm: _side(layout, arm, scores) for arm in arms}


def _side(layout: Layout, arm: str, scores: Mapping[Key, Mapping[str, Scores]]) -> ArmResult:
    if (arm,) not in scores:
        raise EvidenceError(
            f"{layout.per_query}: the arm {arm} has no scores."
            f" Add it to arms in params.yaml, and run:"
            f" harness stage score --dataset {layout.root.name}"
        )
    run, counted = read_run(layout.run(arm)), replayed_index(layout, arm)
    return ArmResult(arm, read_manifest(layout, arm), run, scores[arm,], counted)


def gathered(
    layout: Layout,
    pairs: Mapping[str, Pair],
    arms: Mapping[str, ArmResult],
    race: Race | None,
    how: Clustering = BY_TEXT,
) -> dict[str, Evidence]:
    """Assemble the evidence of each comparison; ``pairs`` is control and candidate by name.

    ``how`` says which queries depend on each other.
    """
    check_compared(layout, tuple(pairs.values()))
    agreement = read_agreement(layout)
    data = Prepared.open(layout.data)
    queries, qrels, clusters = data.queries(), data.qrels(), data.clusters(how)
    return {
        name: Evidence(
            dataset=data.manifest.name,
            control=arms[control],
            candidate=arms[candidate],
            agreement=_compared(layout, agreement, (control, candidate)),
            noise=_compared(layout, agreement, (control, control)),
            others={arm: s for arm, s in arms.items() if arm not in {control, candidate}},
            slices=slices(queries),
            clusters=clusters,
            drawn=all(query.drawn for query in queries),
            parted=data.parted(how),
            qrels=qrels,
            kinds=_known(layout, race, arms[control], arms[candidate]),
            complete=data.manifest.complete,
            unlike_words=data.unlike_words(),
        )
        for name, (control, candidate) in pairs.items()
    }


def _known(
    layout: Layout, race: Race | None, control: ArmResult, candidate: ArmResult
) -> Mapping[type, object]:
    """Collect the kinds that were measured."""
    found: dict[type, object] = {
        one.value: one.collect(layout, control, candidate) for one in kinds()
    }
    found[Race] = race
    return MappingProxyType({kind: one for kind, one in found.items() if one is not None})


def _compared(layout: Layout, found: Mapping[Pair, Agreement], pair: Pair) -> Agreement:
    if pair not in found:
        raise EvidenceError(
            f"{layout.classes}: {pair[1]} was not compared with {pair[0]}."
            f" {layout.remedy(Layout.compare_receipt)}"
        )
    return found[pair]


def pairs_of(policy: Policy) -> dict[str, Pair]:
    """Control and candidate of each step."""
    return {step.name: (step.control, step.candidate) for step in policy.steps}


@dataclass(frozen=True, slots=True)
class ReportSubject:
    """What a report is about, beside what the stages measured."""

    pairs: Mapping[str, Pair]
    """Control and candidate by name of the comparison."""
    arms: tuple[str, ...]
    """Every arm measured."""
    rules: Rules
    """How sure the numbers beside the gates must be."""
    licence: str
    source: str
    commands: tuple[str, ...]
    """What to type to make the numbers again."""
    score: ScoreParams
    """What was measured, and how the intervals of means were drawn."""
    compare: CompareParams
    policy: Policy | None
    policy_file: Path | None
    pin: str = ""
    """What to type to pin these data to the policy."""
    place: str = ""
    """Options that name these data on a command line."""

    @property
    def measures(self) -> tuple[str, ...]:
        """What was measured, in the order in which people look at it."""
        return self.score.measures

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """By stage, as JSON: all that the numbers rest on beside evidence and policy."""
        return {
            "score": self.score.model_dump(mode="json"),
            "compare": self.compare.model_dump(mode="json"),
            "gate": {"arms": list(self.arms)},
        }


def evidence_of(layout: Layout, subject: ReportSubject) -> dict[str, Evidence]:
    """Everything that the gates may look at, by comparison."""
    how = subject.policy.clusters if subject.policy else BY_TEXT
    arms = sides(layout, subject.arms)
    return gathered(layout, subject.pairs, arms, read_race(layout), how)


def measured(
    layout: Layout, subject: ReportSubject, evidence: Mapping[str, Evidence]
) -> dict[str, ArmResult]:
    """Return every arm as it was measured; each comparison has all of them."""
    for one in evidence.values():
        arms = {one.control.arm: one.control, one.candidate.arm: one.candidate, **one.others}
        return {arm: arms[arm] for arm in subject.arms}
    return sides(layout, subject.arms)


def raced(layout: Layout, evidence: Mapping[str, Evidence]) -> Race | None:
    """Return the race that the arms were timed in; each comparison has it."""
    for one in evidence.values():
        return one.get(Race)
    return read_race(layout)
