"""What the stages left, read once: the report that is made of it, and the ground of a plan."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from harness.core import digest
from harness.core.batches import code_sha256
from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement, ArmResult, Evidence, Race
from harness.core.files import scratch
from harness.core.gate import StepDecision
from harness.core.names import ExperimentInputs, Setting
from harness.core.parts import kinds
from harness.core.records import Document, Query
from harness.core.scores import BY_TEXT, Clustering, Dependence, Estimate, Paired, codes
from harness.corpus import tuning
from harness.corpus.prepared import Inventory, Prepared
from harness.corpus.runs import Means, read_run
from harness.corpus.tuning import Leak, leak
from harness.gates.base.rules import Rules
from harness.measures.name import span_of, span_of_difference
from harness.pipeline import experiments
from harness.pipeline.compare import Pair, check_compared, check_drawn, difference, read_agreement
from harness.pipeline.experiments import race_settings
from harness.pipeline.imports import load_folder
from harness.pipeline.layout import Layout
from harness.pipeline.params import CompareParams, ScoreParams
from harness.pipeline.race import read_race
from harness.pipeline.receipts import Replayed, read_manifest, replayed, versions
from harness.pipeline.score import check_scores, slices
from harness.policy.load import for_arms
from harness.policy.model import Policy
from harness.policy.plan import AtHand, Raced
from harness.policy.validity import Pin, add_pin
from harness.replay.machine import machine
from harness.report.inputs import (
    Custody,
    DigestsPart,
    Latency,
    PolicyPart,
    ProvenancePart,
    ReportInput,
)
from harness.stats import times as clock
from harness.stats.bootstrap import FEWEST
from harness.stats.interval import TrafficMean, traffic_mean_each
from harness.stats.sample_size import dependence


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSubject:
    """Which arms are compared with which, and by what policy."""

    pairs: Mapping[str, Pair]
    """Control and candidate by the name of the comparison."""
    arms: tuple[str, ...]
    policy: Policy | None
    policy_file: Path | None
    pin: str = ""

    @property
    def judged_by(self) -> tuple[Policy, Path]:
        """Policy and its file."""
        if self.policy is None or self.policy_file is None:
            raise EvidenceError("there is nothing to judge by; name a policy")
        return self.policy, self.policy_file


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSubject(DecisionSubject):
    """What a report is about, beside what the stages measured."""

    rules: Rules
    licence: str
    source: str
    commands: tuple[str, ...]
    score: ScoreParams
    """What was measured, and how the intervals of means were drawn."""
    compare: CompareParams
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


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """All that the stages left of one data set; what follows takes it from here alone."""

    dataset: str
    data: Prepared
    arms: Mapping[str, ArmResult]
    evidence: Mapping[str, Evidence]
    race: Race | None
    race_settings: Mapping[str, Setting]
    replayed: Mapping[str, Replayed]
    tuned: tuple[Leak, ...]
    """Judged queries that the tuning of an arm has seen."""
    inventory: Inventory
    inputs: ExperimentInputs
    """Digests of all that the policy looks at."""
    means: Means
    slice_means: Mapping[str, Means]
    differences: Means
    """By ``control~candidate``, as they were compared."""


def measured(layout: Layout, wanted: DecisionSubject) -> Measured:
    """Read what the stages left of a data set, and check it against their receipts."""
    policy, file = wanted.policy, wanted.policy_file
    data, arms = Prepared.open(layout.data), sides(layout, wanted.arms)
    race = read_race(layout)
    how = policy.clusters if policy else BY_TEXT
    inventory = experiments.stock(layout)
    judged = [arm for arm in policy.arms if arm in arms] if policy else []
    grades = data.qrels().grades
    judged_queries = [query for query in data.queries() if query.query_id in grades]
    return Measured(
        dataset=layout.root.name,
        data=data,
        arms=arms,
        evidence=gathered(layout, wanted.pairs, arms, race, how),
        race=race,
        race_settings=experiments.race_settings(layout),
        replayed={arm: replayed(layout, arm) for arm in arms},
        tuned=tuple(
            leak(arm, tuning.read(layout.tuning(arm)), judged_queries)
            for arm in judged
            if layout.tuning(arm).is_file()
        ),
        inventory=inventory,
        inputs=experiments.inputs(
            layout,
            judged,
            inventory,
            policy=digest.of_file(file) if file else None,
            seeds={"policy": policy.rules.seed} if policy else {},
            beside=policy.beside if policy else (),
        ),
        means=layout.read(Layout.scores),
        slice_means=layout.read(Layout.slices),
        differences=layout.read(Layout.differences),
    )


def sides(layout: Layout, arms: Sequence[str]) -> dict[str, ArmResult]:
    """Read every arm as it was measured."""
    check_scores(layout, arms)
    scores = layout.read(Layout.per_query)
    for arm in arms:
        if (arm,) not in scores:
            raise EvidenceError(
                f"{layout.per_query}: the arm {arm} has no scores."
                f" Add it to arms in params.yaml, and run:"
                f" harness stage score --dataset {layout.root.name}"
            )
    return {
        arm: ArmResult(
            arm,
            read_manifest(layout, arm),
            read_run(layout.run(arm)),
            scores[arm,],
            replayed(layout, arm).index_sha256,
        )
        for arm in arms
    }


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

    def compared(control: str, candidate: str) -> Agreement:
        if (control, candidate) not in agreement:
            raise EvidenceError(
                f"{layout.classes}: {candidate} was not compared with {control}."
                f" {layout.remedy(Layout.compare_receipt)}"
            )
        return agreement[control, candidate]

    def known(control: ArmResult, candidate: ArmResult) -> Mapping[type, object]:
        found = {one.value: one.collect(layout, control, candidate) for one in kinds()}
        found[Race] = race
        return MappingProxyType({kind: one for kind, one in found.items() if one is not None})

    return {
        name: Evidence(
            dataset=data.manifest.name,
            control=arms[control],
            candidate=arms[candidate],
            agreement=compared(control, candidate),
            noise=compared(control, control),
            others={arm: s for arm, s in arms.items() if arm not in {control, candidate}},
            slices=slices(queries),
            clusters=clusters,
            drawn=all(query.drawn for query in queries),
            parted=data.parted(how),
            qrels=qrels,
            kinds=known(arms[control], arms[candidate]),
            complete=data.manifest.complete,
            unlike_words=data.unlike_words(),
        )
        for name, (control, candidate) in pairs.items()
    }


def pairs_of(policy: Policy) -> dict[str, Pair]:
    """Control and candidate of each step."""
    return {step.name: (step.control, step.candidate) for step in policy.steps}


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
) -> ProvenancePart:
    """Collect what a stranger needs to make the numbers again."""
    about = data.manifest
    expires = None if evidence_days is None else decided_at + timedelta(days=evidence_days)
    digests = {name: getattr(about, f"{name}_sha256") for name in DigestsPart.model_fields}
    return ProvenancePart.model_validate({
        "licence": licence,
        "source": source,
        "sha256": digests,
        "counts": about,
        "fields": about.fields,
        "arms": {arm: side.manifest for arm, side in arms.items()},
        "packages": versions(),
        "python": platform.python_version(),
        "code_version": code_sha256(),
        "seed": seed,
        "settings": settings,
        "commands": tuple(commands),
        "machine": machine(),
        "decided_at": decided_at.isoformat(timespec="seconds"),
        "expires_at": expires.isoformat(timespec="seconds") if expires else None,
        "replayed_at": replayed_at,
    })


PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
RATIOS = {"p50": 50.0, "p95": 95.0}
TextTimes = Mapping[str, clock.Nanoseconds]


def latency(race: Race, pairs: Mapping[str, Pair], rules: Rules) -> Latency:
    """Summarise a race; a pair that did not take part has no ratios."""
    first, sure = race.elapsed_ns, rules.confidence
    several = min(map(len, first.values()), default=0) > 1

    def ratios(of: TextTimes, to: TextTimes) -> dict[str, Estimate]:
        found = {arm: clock.text_ratio(of[arm], to[arm], confidence=sure) for arm in first}
        return {arm: one for arm, one in found.items() if one}

    return Latency(
        race=race,
        percentiles={
            arm: {p: clock.percentile(ns, at, confidence=sure) for p, at in PERCENTILES.items()}
            for arm, ns in first.items()
        },
        ratios={
            name: {
                **{
                    percent: clock.ratio(first[candidate], first[control], at, confidence=sure)
                    for percent, at in RATIOS.items()
                },
                "mean": clock.mean_ratio(first[candidate], first[control], confidence=sure),
            }
            for name, (control, candidate) in pairs.items()
            if {control, candidate} <= first.keys()
        },
        aa={
            arm: {name: clock.aa_ratio(ns, percent) for name, percent in RATIOS.items()}
            for arm, ns in first.items()
            if several
        },
        repeats=ratios(race.repeated_ns, first),
        seen=ratios(first, race.unseen_ns),
    )


def assemble(
    found: Measured,
    subject: ReportSubject,
    decisions: Sequence[StepDecision],
    decided_at: datetime,
    *,
    custody: Custody | None,
) -> ReportInput:
    """Assemble what the report of one data set shows."""
    policy, file = subject.policy, subject.policy_file
    data, evidence, measures = found.data, found.evidence, subject.measures
    named = None
    if policy and file:
        sha256 = digest.of_file(file)
        named = PolicyPart(name=policy.name, version=str(policy.version), sha256=sha256)
    return ReportInput(
        dataset=data.manifest.name,
        provenance=provenance(
            data,
            found.arms,
            licence=subject.licence,
            source=subject.source,
            seed=subject.rules.seed,
            commands=subject.commands,
            decided_at=decided_at,
            evidence_days=policy.evidence_days if policy else None,
            replayed_at={arm: one.at for arm, one in found.replayed.items() if one.at},
            settings=subject.settings,
        ),
        policy=named,
        decisions=tuple(decisions),
        evidence=evidence,
        arms=found.arms,
        means=_in_order(found.means, measures),
        slice_means={name: _in_order(of, measures) for name, of in found.slice_means.items()},
        differences=_differences(found, subject),
        slice_differences=slice_differences(evidence, measures[0], subject.rules),
        latency=latency(found.race, subject.pairs, subject.rules) if found.race else None,
        queries={query.query_id: query for query in data.queries()},
        qrels=data.qrels(),
        documents=cache(partial(_documents, data)),
        measure=measures[0],
        judged_by=policy if file else None,
        place=subject.place,
        custody=custody,
        traffic=traffic(data.queries(), found.arms, evidence, measures[0], subject.rules),
        dependence={name: _dependence(one, measures) for name, one in evidence.items()},
    )


def _differences(found: Measured, subject: ReportSubject) -> dict[str, Mapping[str, Estimate]]:
    """Return how far each pair is apart, and draw one interval of each again."""
    stored = _in_order(found.differences, subject.measures)
    apart = {name: stored["~".join(pair)] for name, pair in subject.pairs.items()}
    first = subject.measures[0]
    for name, one in found.evidence.items():
        scores = one.control.scores[first], one.candidate.scores[first]
        drawn = difference(*scores, subject.rules, one.clusters)
        check_drawn(found.dataset, apart[name].get(first), drawn)
    return apart


def _dependence(one: Evidence, measures: Sequence[str]) -> dict[str, Dependence]:
    """Weigh the clusters of each difference that has two queries or more."""
    every = (Paired.of(one.control.scores[of], one.candidate.scores[of]) for of in measures)
    return {
        paired.measure: dependence(paired.difference, codes(paired.query_ids, one.clusters))
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
    found: dict[str, dict[str, Estimate]] = {}
    for comparison, one in evidence.items():
        control, candidate = one.control.scores[measure], one.candidate.scores[measure]
        each = {
            of: difference(control.only(ids), candidate.only(ids), rules, one.clusters)
            for of, ids in one.slices.items()
        }
        found[comparison] = {of: apart for of, apart in each.items() if apart}
    return found


class BeirFolder(NamedTuple):
    """A folder in BEIR layout, as ``harness run`` takes it."""

    path: Path
    split: str
    forms: bool


@contextmanager
def _opened(of: Layout | BeirFolder) -> Iterator[tuple[str, Prepared]]:
    """Open a data set, or a folder before anything was run on it, with its name."""
    if isinstance(of, Layout):
        yield of.root.name, Prepared.open(of.data)
        return
    with scratch() as place:
        load_folder(of.path, of.split, place / "data", forms=of.forms)
        yield of.path.resolve().name, Prepared.open(place / "data")


def pin(of: Layout | BeirFolder, policy_file: Path, *, at: datetime, by: str) -> Pin:
    """Pin queries, judgements and race settings; a folder has no race yet."""
    race = race_settings(of) if isinstance(of, Layout) else {}
    with _opened(of) as (name, data):
        inventory = Inventory.of(data.queries(), data.qrels())
    return add_pin(policy_file, name, inventory, race, at=at, by=by)


class Ground(NamedTuple):
    """What a policy is planned on."""

    dataset: str
    at_hand: AtHand
    inventory: Inventory
    pilots: Mapping[str, Evidence]


def ground(of: Layout | BeirFolder, policy: Policy, race: Raced | None) -> Ground:
    """Read a query set, and of a data set its race and the runs of steps that were compared."""
    pilots: Mapping[str, Evidence] = {}
    if isinstance(of, Layout):
        race = raced(of) or race
        if of.score_receipt.is_file() and of.compare_receipt.is_file():
            compared = read_agreement(of)
            pairs = {step: pair for step, pair in pairs_of(policy).items() if pair in compared}
            arms = sides(of, [arm for (arm,) in of.read(Layout.per_query)])
            pilots = gathered(of, pairs, arms, None, policy.clusters)
    with _opened(of) as (name, data):
        queries, qrels, clusters = data.queries(), data.qrels(), data.clusters(policy.clusters)
        ids = (query.query_id for query in queries)
        at_hand = AtHand.of(ids, qrels, slices(queries), clusters, race)
        return Ground(name, at_hand, Inventory.of(queries, qrels), pilots)


def raced(layout: Layout) -> Raced | None:
    """Return the size of the race in ``layout``; None where none was run."""
    race = read_race(layout)
    if race is None:
        return None
    return Raced(min(len(times) for times in race.elapsed_ns.values()), len(race.query_ids))


def for_control(layout: Layout, policy: Policy, control: str) -> Policy:
    """Plan the one step of a policy for every arm that was compared with ``control``."""
    others = [two for one, two in read_agreement(layout) if one == control != two]
    return for_arms(policy, others, control)
