"""One data set as a report wants it: everything measured, nothing left to compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.core import digest
from harness.core.evidence import Evidence
from harness.core.gate import StepDecision
from harness.core.records import Document
from harness.corpus.prepared import Prepared
from harness.gates.base.rules import Rules
from harness.policy.model import Policy
from harness.report.inputs import PolicyName, ReportInput
from harness.report.trust import Trust
from harness.stages.compare import Pair
from harness.stages.evidence import gathered, sides
from harness.stages.latency import latency
from harness.stages.layout import Layout
from harness.stages.means import Means, read_means, read_slices
from harness.stages.provenance import provenance
from harness.stages.race import read_race
from harness.stages.replayed import replayed_at
from harness.stages.selftest import read_selftest
from harness.stages.slice_differences import slice_differences


@dataclass(frozen=True, slots=True)
class Subject:
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
    measures: tuple[str, ...]
    """What was measured, in the order in which people look at it."""
    policy: Policy | None
    policy_file: Path | None
    selftest: str
    """What to type for a selftest of the policy on these data."""
    place: str = ""
    """Options that name these data on a command line."""
    over_ties: bool = False
    """Whether a gate must hold over every order of equal scores of an imported run."""


def evidence_of(layout: Layout, subject: Subject) -> dict[str, Evidence]:
    """Everything that the gates may look at, by comparison."""
    return gathered(layout, subject.pairs, sides(layout, subject.arms), read_race(layout))


def assemble(
    layout: Layout,
    subject: Subject,
    evidence: Mapping[str, Evidence],
    decisions: Sequence[StepDecision],
    decided_at: datetime,
) -> ReportInput:
    """Put together what the report of one data set shows."""
    data = Prepared.open(layout.data)
    arms = sides(layout, subject.arms)
    race = read_race(layout)
    policy, file = subject.policy, subject.policy_file
    name = (
        PolicyName(policy.name, str(policy.version), digest.of_file(file))
        if policy and file
        else None
    )
    apart = _in_order(read_means(layout.differences), subject.measures)
    return ReportInput(
        provenance=provenance(
            data,
            arms,
            licence=subject.licence,
            source=subject.source,
            seed=subject.rules.seed,
            commands=subject.commands,
            decided_at=decided_at,
            evidence_days=policy.evidence_days if policy else None,
            replayed_at={arm: at for arm in arms if (at := replayed_at(layout, arm))},
        ),
        policy=name,
        decisions=tuple(decisions),
        evidence=evidence,
        arms=arms,
        means=_in_order(read_means(layout.scores), subject.measures),
        slice_means={
            name: _in_order(means, subject.measures)
            for name, means in read_slices(layout.slices).items()
        },
        differences={name: apart["~".join(pair)] for name, pair in subject.pairs.items()},
        slice_differences=slice_differences(evidence, subject.measures[0], subject.rules),
        latency=latency(race, subject.pairs, subject.rules) if race else None,
        queries={query.query_id: query for query in data.queries()},
        qrels=data.qrels(),
        documents=lambda ids: _documents(data, ids),
        measure=subject.measures[0],
        trust=Trust(policy, read_selftest(layout, file), subject.selftest)
        if policy and file
        else None,
        place=subject.place,
    )


def _documents(data: Prepared, ids: frozenset[str]) -> dict[str, Document]:
    return {document.doc_id: document for document in data.documents() if document.doc_id in ids}


def _in_order(means: Means, measures: Sequence[str]) -> Means:
    """Put the measures of each arm in the order asked for."""
    return {
        arm: {measure: row[measure] for measure in measures if measure in row}
        for arm, row in means.items()
    }
