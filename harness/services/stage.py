"""A comparison of two services: sampled, asked, written, and what a verdict takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.agreement import agree
from harness.core.errors import HarnessError
from harness.core.evidence import ArmResult, Evidence
from harness.core.files import replacing_folder, scratch, write_text
from harness.core.progress import progress
from harness.core.reading import text_of
from harness.core.records import Document, Judgement, Qrels
from harness.corpus import beir, judgements
from harness.corpus.card import toml_text
from harness.corpus.judgements import JudgingPair, Pool
from harness.corpus.prepared import Prepared
from harness.gates.base.differences import asked_means
from harness.logs import stage as logs
from harness.logs.querylog import Fields
from harness.measures.quality import score
from harness.pipeline.evidence import provenance
from harness.pipeline.imports import NOT_STATED, load_folder
from harness.pipeline.score import slices
from harness.policy.load import for_arms, load_policy
from harness.policy.model import Policy
from harness.policy.plan import AtHand, plan
from harness.report.explorer import to_explorer
from harness.report.html import PAGE
from harness.report.inputs import ReportInput
from harness.services import asking

TRAFFIC, SPLIT = "traffic", "test"
"""Folder of queries, documents and judgements, in BEIR layout, and its split."""
RELEVANT = 0.3
"""Share of the shown documents that are taken for relevant, of both services alike, in a plan."""
PERSISTENCE = 0.9
MEASURE = "nDCG@10"
LARGEST = 1


class Price(NamedTuple):
    """What it takes to show that the candidate keeps a margin."""

    measure: str
    margin: float
    queries: int | None
    pairs: int
    decides: tuple[float, float] | None
    """Measured differences from which the queries at hand pass, and below which they fail."""


@dataclass(frozen=True, slots=True, eq=False)
class ServicesFound:
    """All that a comparison found."""

    log: str
    sample: logs.LogSample
    services: tuple[asking.SearchService, ...]
    answers: asking.PairedAnswers
    evidence: Evidence
    data: Path
    """Queries, documents and the pool, as ``harness run --dataset`` takes them."""
    policy: Policy
    pairs: int
    judged: int
    prices: tuple[Price, ...] = ()
    """One for each measure that the policy asks for; none where all answers are the same."""
    needed: int = 0
    """Queries of the log that all gates of the policy take; 0 where all answers are the same."""

    @property
    def pool(self) -> Path:
        """File of the pairs to judge."""
        return pool_in(self.data)

    @property
    def differs(self) -> NDArray[np.bool_]:
        """Shape (queries,): whether the two show other documents, or another order."""
        same = {"exact", "both_empty"}
        return np.array([name not in same for name in self.evidence.agreement.classes])


def compare(
    addresses: Sequence[str],
    log: Path,
    out: Path,
    *,
    kind: str,
    fields: Fields,
    size: int,
    given: str,
    policy_file: Path,
    seed: int,
) -> ServicesFound:
    """Sample the log, ask both services, write what is needed for a verdict, and plan it."""
    with scratch() as work:
        file = work / "queries.jsonl"
        sampled = logs.from_log(log, file, kind=kind, fields=fields, size=size, seed=seed)
        queries, card = tuple(beir.queries(file)), text_of(logs.beside(file))
        named = [
            asking.SearchService.of(address, arm, addresses[0], out, work)
            for arm, address in zip(asking.ARMS, addresses, strict=True)
        ]
    if named[0].file == named[1].file:
        raise HarnessError(f"{named[0].file}: is both services. Name another file, or --out")
    services = asking.look(named, [asking.given_shape(given, arm) for arm in asking.ARMS], queries)
    with progress("asking both services", len(queries)) as advance:
        answers = asking.ask(services, queries, seed=seed, advance=advance)
    for one in services:
        if one.learned:
            summary = f"The {one.arm} of a comparison by log"
            settings = one.settings.model_dump(exclude_defaults=True)
            arm = {"summary": summary, "stack": "http", "settings": settings}
            write_text(one.file, toml_text(arm))
    data = out / TRAFFIC
    pool = _written(data, answers, card, seed)
    policy = for_arms(load_policy(policy_file), asking.ARMS[1:], asking.ARMS[0])
    with scratch() as work:
        load_folder(data, SPLIT, work / TRAFFIC)
        prepared = Prepared.open(work / TRAFFIC)
        evidence = _evidence(answers, prepared)
        report = _report(answers, evidence, prepared, seed)
    write_text(out / PAGE, to_explorer([report]))
    count = len(pool.pairs)
    found = ServicesFound(
        log.name, sampled, services, answers, evidence, data, policy, count,
        judged=count - len(pool.open),
    )  # fmt: skip
    return _planned(found, seed) if found.differs.any() else found


def pool_in(data: Path) -> Path:
    """Return the file of the pairs to judge in a folder of queries and documents."""
    return data / "qrels" / f"{SPLIT}.qrels"


def _written(data: Path, answers: asking.PairedAnswers, card: str, seed: int) -> Pool:
    """Write queries in a drawn order, documents and the pool; earlier grades stay."""
    before = pool_in(data)
    old = judgements.read_pool(before) if before.is_file() else Pool((), ())
    graded = {
        (pair.query_id, pair.doc_id): (pair, grade)
        for pair, grade in zip(old.pairs, old.grades, strict=True)
        if grade is not None
    }
    by_id = {query.query_id: query for query in answers.queries}
    documents = answers.documents
    shown = _to_judge(answers)
    chosen: dict[tuple[str, str], tuple[JudgingPair, int | None]] = {
        (query_id, doc_id): (logs.pair_of(by_id[query_id], documents[doc_id], LARGEST), None)
        for query_id in logs.drawn_order(set(by_id), seed, TRAFFIC)
        for doc_id in logs.drawn_order(shown[query_id], seed, query_id)
    }
    chosen |= graded
    pairs, grades = zip(*chosen.values(), strict=True) if chosen else ((), ())
    pool = Pool(pairs, grades)
    of_pairs = {one.doc_id: Document(one.doc_id, one.title, one.snippet) for one in pairs}
    every = {**of_pairs, **documents}
    with replacing_folder(data) as beside:
        beir.write_documents(beside / "corpus.jsonl", (every[one] for one in sorted(every)))
        beir.write_queries(beside / "queries.jsonl", answers.queries)
        write_text(logs.beside(beside / "queries.jsonl"), card)
        (beside / "qrels").mkdir()
        judgements.begin(pool_in(beside), pool)
    return pool


def _to_judge(answers: asking.PairedAnswers) -> dict[str, set[str]]:
    """List what is to be judged: all of two lists that differ, the first hit of two that do not."""
    control, candidate = answers.runs
    found = {}
    for query in answers.queries:
        one, other = (run.ranking(query.query_id, asking.DEPTH) for run in (control, candidate))
        found[query.query_id] = {*one[:1]} if one == other else {*one, *other}
    return found


def _evidence(answers: asking.PairedAnswers, data: Prepared) -> Evidence:
    """Collect what a gate may look at without a judgement."""
    control, candidate = (
        ArmResult(one.arm, answers.manifests[one.arm], one, {}) for one in answers.runs
    )
    noise = answers.again.query_ids
    return Evidence(
        dataset=data.manifest.name,
        control=control,
        candidate=candidate,
        agreement=agree(control.run, candidate.run, depths=(asking.DEPTH,), p=PERSISTENCE),
        noise=agree(control.run.only(noise), answers.again, depths=(asking.DEPTH,), p=PERSISTENCE),
        others={},
        slices=slices(answers.queries),
        clusters=data.clusters(),
        parted=data.parted(),
    )


def _report(
    answers: asking.PairedAnswers, evidence: Evidence, data: Prepared, seed: int
) -> ReportInput:
    """Assemble what the explorer shows; nothing is judged, so no measure has a value."""
    arms = {one.arm: one for one in (evidence.control, evidence.candidate)}
    return ReportInput(
        dataset=data.manifest.name,
        provenance=provenance(
            data, arms, licence=NOT_STATED, source="answers of two services", seed=seed,
            commands=(), decided_at=datetime.now(UTC), evidence_days=None, replayed_at={},
            settings={},
        ),
        evidence={asking.ARMS[1]: evidence},
        arms=arms,
        queries={query.query_id: query for query in answers.queries},
        qrels=Qrels({}),
        documents=lambda ids: {one: answers.documents[one] for one in ids},
        measure=MEASURE,
    )  # fmt: skip


def _planned(found: ServicesFound, seed: int) -> ServicesFound:
    """Plan the policy with judgements drawn alike for both: ``RELEVANT`` of what is shown."""
    evidence, queries = found.evidence, found.answers.queries
    control, candidate = evidence.control, evidence.candidate
    asked = tuple(query.query_id for query in queries)
    shown = {q: sorted({*control.run.ranking(q), *candidate.run.ranking(q)}) for q in asked}
    rng = Random(seed)
    drawn = Qrels.of(
        Judgement(q, doc_id, int(rng.random() < RELEVANT)) for q in asked for doc_id in shown[q]
    )
    (step,) = found.policy.steps
    wanted = [(gate, mean) for gate in step.gates for mean in asked_means(gate.settings, {})]
    measures = tuple(dict.fromkeys(mean.settings.measure for _, mean in wanted))
    sides = (
        replace(one, scores=score(one.run, drawn, measures, asked)) for one in (control, candidate)
    )
    pilot = replace(evidence, control=next(sides), candidate=next(sides), qrels=drawn)
    at_hand = AtHand.of(asked, drawn, evidence.slices, evidence.clusters, None)
    (planned,) = plan(found.policy, at_hand, {step.name: pilot})
    answerable = max(at_hand.count(at_hand.answerable).queries, 1) / len(asked)
    pairs = sum(map(len, _to_judge(found.answers).values())) / len(asked)
    prices, needed = [], 0
    for one in planned.needs:
        mean = next((mean for gate, mean in wanted if gate is one.gate), None)
        of_log = math.ceil(max(one.least, one.alone or 0) / (answerable if mean else 1.0))
        needed = max(needed, of_log)
        if mean is not None:
            queries_ = None if one.alone is None else of_log
            cost = math.ceil((queries_ or 0) * pairs)
            decides = one.decides(found.policy.rules)
            prices.append(Price(mean.settings.measure, -mean.limit, queries_, cost, decides))
    return replace(found, prices=tuple(prices), needed=needed)
