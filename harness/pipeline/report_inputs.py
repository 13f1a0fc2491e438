"""One data set as a gate and a report want it: everything measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, partial

import numpy as np

from harness.core import digest
from harness.core.errors import EvidenceError
from harness.core.evidence import ArmResult, Evidence, Race
from harness.core.gate import StepDecision
from harness.core.records import Document, Query
from harness.core.scores import Dependence, Estimate, Paired, codes
from harness.corpus.prepared import Prepared
from harness.corpus.runs import Means
from harness.gates.base.rules import Rules
from harness.measures.name import span_of, span_of_difference
from harness.pipeline.compare import Pair, check_drawn, difference
from harness.pipeline.evidence import ReportSubject, measured, raced
from harness.pipeline.layout import Layout
from harness.pipeline.provenance import provenance
from harness.pipeline.receipts import replayed_at
from harness.report.inputs import Latency, PolicyName, ReportInput, Trust
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
    """Assemble what the report of one data set shows.

    ``custody`` is ``None`` where no policy judged.
    """
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
    """Mean of each arm by its name, and of candidate - control by ``control~candidate``.

    Empty where the queries are not a sample of a log, or the measure has no greatest value.
    """
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
    columns = np.array([_column(of, sampled) for of in found.values()]).T
    drawn = [query.drawn for query in sampled if query.drawn]
    spans = [span_of(measure) if key in arms else span_of_difference(measure) for key in found]
    means = traffic_mean_each(columns, drawn, spans=spans, inference=rules)
    return {key: mean for key, mean in zip(found, means, strict=True) if mean is not None}


def name(evidence: Evidence) -> str:
    """Name a comparison by its arms."""
    return f"{evidence.control.arm}~{evidence.candidate.arm}"


def _column(of: Mapping[str, float], queries: Iterable[Query]) -> list[float]:
    return [of.get(query.query_id, np.nan) for query in queries]


def slice_differences(
    evidence: Mapping[str, Evidence], measure: str, rules: Rules
) -> dict[str, dict[str, Estimate]]:
    """Mean of candidate - control with its interval, by comparison and slice.

    A slice is left out where fewer than two queries, or clusters, have a value in both arms.
    """
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
