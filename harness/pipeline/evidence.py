"""What the stages left, put together for a decision and for its report."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from harness.core import digest
from harness.core.batches import code_sha256
from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement, ArmResult, Evidence, Race
from harness.core.gate import StepDecision
from harness.core.parts import kinds
from harness.core.records import Document, Query
from harness.core.scores import BY_TEXT, Clustering, Dependence, Estimate, Paired, Scores, codes
from harness.corpus.prepared import Prepared
from harness.corpus.runs import Key, Means, read_run
from harness.gates.base.rules import Rules
from harness.measures.name import span_of, span_of_difference
from harness.pipeline.compare import Pair, check_compared, check_drawn, difference, read_agreement
from harness.pipeline.layout import Layout
from harness.pipeline.params import CompareParams, ScoreParams
from harness.pipeline.race import read_race
from harness.pipeline.receipts import read_manifest, replayed_at, replayed_index, versions
from harness.pipeline.score import check_scores, slices
from harness.policy.model import Policy
from harness.replay.machine import machine
from harness.report.inputs import Latency, PolicyName, Provenance, ReportInput, Trust
from harness.report.page.custody import Custody
from harness.stats.bootstrap import FEWEST
from harness.stats.interval import TrafficMean, traffic_mean_each
from harness.stats.sample_size import dependence
from harness.stats.times import (
    Nanoseconds,
    aa_ratio,
    mean_ratio,
    percentile,
    ratio,
    repeat_ratio,
    seen_ratio,
)


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
    """Assemble the evidence of each comparison; ``pairs`` is control and candidate by name."""
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
    arms: tuple[str, ...]
    rules: Rules
    licence: str
    source: str
    commands: tuple[str, ...]
    score: ScoreParams
    """What was measured, and how the intervals of means were drawn."""
    compare: CompareParams
    policy: Policy | None
    policy_file: Path | None
    pin: str = ""
    place: str = ""

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


def provenance(
    data: Prepared,
    arms: Mapping[str, ArmResult],
    *,
    licence: str,
    source: str,
    seed: int,
    commands: Sequence[str],
    decided_at: datetime,
    evidence_days: int | None,
    replayed_at: Mapping[str, str],
    settings: Mapping[str, Mapping[str, Any]],
) -> Provenance:
    """Collect what a stranger needs to make the numbers again."""
    about = data.manifest
    expires = None if evidence_days is None else decided_at + timedelta(days=evidence_days)
    return Provenance(
        dataset=about.name,
        licence=licence,
        source=source,
        corpus_sha256=about.corpus_sha256,
        queries_sha256=about.queries_sha256,
        qrels_sha256=about.qrels_sha256,
        documents=about.documents,
        fields=about.fields,
        queries=about.queries,
        judgements=about.judgements,
        manifests={arm: side.manifest for arm, side in arms.items()},
        packages=versions(),
        python=platform.python_version(),
        code_version=code_sha256(),
        seed=seed,
        commands=tuple(commands),
        machine=machine(),
        decided_at=decided_at.isoformat(timespec="seconds"),
        expires_at=expires.isoformat(timespec="seconds") if expires else None,
        replayed_at=replayed_at,
        settings=settings,
    )


PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
RATIOS = {"p50": 50.0, "p95": 95.0}


def latency(race: Race, pairs: Mapping[str, Pair], rules: Rules) -> Latency:
    """Summarise a race; a pair that did not take part has no ratios."""
    several = min(map(len, race.elapsed_ns.values()), default=0) > 1
    return Latency(
        race=race,
        percentiles={
            arm: {
                name: percentile(times, percent, confidence=rules.confidence)
                for name, percent in PERCENTILES.items()
            }
            for arm, times in race.elapsed_ns.items()
        },
        ratios={
            name: _ratios(race.elapsed_ns[candidate], race.elapsed_ns[control], rules)
            for name, (control, candidate) in pairs.items()
            if {control, candidate} <= race.elapsed_ns.keys()
        },
        aa={
            arm: {name: aa_ratio(times, percent) for name, percent in RATIOS.items()}
            for arm, times in race.elapsed_ns.items()
            if several
        },
        repeats={
            arm: estimate
            for arm, times in race.elapsed_ns.items()
            if (estimate := repeat_ratio(times, race.repeated_ns[arm], confidence=rules.confidence))
        },
        seen={
            arm: estimate
            for arm, times in race.elapsed_ns.items()
            if (estimate := seen_ratio(times, race.unseen_ns[arm], confidence=rules.confidence))
        },
    )


def _ratios(candidate: Nanoseconds, control: Nanoseconds, rules: Rules) -> dict[str, Estimate]:
    """Compute ratios of percentiles, which gates judge, and of means, which none does."""
    sure = rules.confidence
    return {
        **{name: ratio(candidate, control, at, confidence=sure) for name, at in RATIOS.items()},
        "mean": mean_ratio(candidate, control, confidence=sure),
    }


def assemble(
    layout: Layout,
    subject: ReportSubject,
    evidence: Mapping[str, Evidence],
    decisions: Sequence[StepDecision],
    decided_at: datetime,
    *,
    custody: Custody | None,
) -> ReportInput:
    """Assemble what the report of one data set shows."""
    data = Prepared.open(layout.data)
    arms = measured(layout, subject, evidence)
    race = raced(layout, evidence)
    policy, file = subject.policy, subject.policy_file
    name = (
        PolicyName(policy.name, str(policy.version), digest.of_file(file))
        if policy and file
        else None
    )
    by_slice = slice_differences(evidence, subject.measures[0], subject.rules)
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
            settings=subject.settings,
        ),
        policy=name,
        decisions=tuple(decisions),
        evidence=evidence,
        arms=arms,
        means=_in_order(layout.read(Layout.scores), subject.measures),
        slice_means={
            name: _in_order(means, subject.measures)
            for name, means in layout.read(Layout.slices).items()
        },
        differences=_differences(layout, subject, evidence),
        slice_differences=by_slice,
        latency=latency(race, subject.pairs, subject.rules) if race else None,
        queries={query.query_id: query for query in data.queries()},
        qrels=data.qrels(),
        documents=cache(partial(_documents, data)),
        measure=subject.measures[0],
        trust=Trust(policy) if policy and file else None,
        place=subject.place,
        custody=custody,
        traffic=traffic(data.queries(), arms, evidence, subject.measures[0], subject.rules),
        dependence={name: _dependence(one, subject.measures) for name, one in evidence.items()},
    )


def _differences(
    layout: Layout, subject: ReportSubject, evidence: Mapping[str, Evidence]
) -> dict[str, Mapping[str, Estimate]]:
    """Read how far each pair is apart, and draw one interval of each again."""
    stored = _in_order(layout.read(Layout.differences), subject.measures)
    apart = {name: stored["~".join(pair)] for name, pair in subject.pairs.items()}
    first = subject.measures[0]
    for name, one in evidence.items():
        scores = one.control.scores[first], one.candidate.scores[first]
        drawn = difference(*scores, subject.rules, one.clusters)
        check_drawn(layout, apart[name].get(first), drawn)
    return apart


def _dependence(evidence: Evidence, measures: Sequence[str]) -> dict[str, Dependence]:
    """Weigh the clusters of each difference that has two queries or more."""
    control, candidate = evidence.control.scores, evidence.candidate.scores
    every = (Paired.of(control[measure], candidate[measure]) for measure in measures)
    return {
        paired.measure: dependence(paired.difference, codes(paired.query_ids, evidence.clusters))
        for paired in every
        if len(paired.query_ids) >= FEWEST
    }


def _documents(data: Prepared, ids: frozenset[str]) -> dict[str, Document]:
    return {document.doc_id: document for document in data.documents() if document.doc_id in ids}


def _in_order(means: Means, measures: Sequence[str]) -> Means:
    """Sort the measures of each arm as requested."""
    return {
        arm: {measure: row[measure] for measure in measures if measure in row}
        for arm, row in means.items()
    }


def traffic(
    queries: Sequence[Query],
    arms: Mapping[str, ArmResult],
    evidence: Mapping[str, Evidence],
    measure: str,
    rules: Rules,
) -> dict[str, TrafficMean]:
    """Mean of each arm by its name, and of candidate - control by ``control~candidate``."""
    sampled = [query for query in queries if query.drawn]
    if not sampled:
        return {}
    if len(sampled) < len(queries):
        raise EvidenceError(
            f"{len(sampled)} of {len(queries)} queries have a place in a sample (drawn) and the"
            " others have none; give the queries of one sample"
        )
    found = {arm: side.scores[measure].by_query for arm, side in arms.items()}
    for one in evidence.values():
        paired = Paired.of(one.control.scores[measure], one.candidate.scores[measure])
        found[name(one)] = dict(zip(paired.query_ids, paired.difference.tolist(), strict=True))
    columns = np.array([[of.get(q.query_id, np.nan) for of in found.values()] for q in sampled])
    drawn = [query.drawn for query in sampled if query.drawn]
    spans = [span_of(measure) if key in arms else span_of_difference(measure) for key in found]
    means = traffic_mean_each(columns, drawn, spans=spans, inference=rules)
    return {key: mean for key, mean in zip(found, means, strict=True) if mean is not None}


def name(evidence: Evidence) -> str:
    """Name a comparison by its arms."""
    return f"{evidence.control.arm}~{evidence.candidate.arm}"


def slice_differences(
    evidence: Mapping[str, Evidence], measure: str, rules: Rules
) -> dict[str, dict[str, Estimate]]:
    """Mean of candidate - control with its interval, by comparison and slice."""
    found: dict[tuple[str, str], dict[str, Estimate]] = {}
    for one in evidence.values():
        pair = one.control.arm, one.candidate.arm
        if pair not in found:
            found[pair] = _by_slice(one, measure, rules)
    return {name: found[one.control.arm, one.candidate.arm] for name, one in evidence.items()}


def _by_slice(evidence: Evidence, measure: str, rules: Rules) -> dict[str, Estimate]:
    control, candidate = evidence.control.scores[measure], evidence.candidate.scores[measure]
    found = {
        name: difference(control.only(ids), candidate.only(ids), rules, evidence.clusters)
        for name, ids in evidence.slices.items()
    }
    return {name: one for name, one in found.items() if one}
