"""Judge a pool, by keys or by a machine; add it to a data set; estimate a difference by it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.core import digest
from harness.core.errors import DatasetError, EvidenceError, UnknownName
from harness.core.folders import changing, check_new
from harness.core.gate import Verdict
from harness.core.printable import many
from harness.core.progress import progress
from harness.core.reading import text_of
from harness.core.records import Judgement, Qrels
from harness.core.scores import Estimate, codes
from harness.corpus import card, judgements, trec
from harness.corpus.card import DatasetCard
from harness.corpus.judgements import Label, Overtaken, Pool
from harness.gates.base.rules import TOUCH
from harness.judge import machine
from harness.judge.pool import Compared, following, read_runs
from harness.measures.name import parse
from harness.pipeline.layout import Layout
from harness.stats.inference import Inference
from harness.stats.prediction import Assisted, Codes, Flags, UniqueHits, assisted
from harness.stats.raters import kappa

SKIP, BACK, QUIT = "s", "u", "q"
HIGHEST_KEY = 9

Show = Callable[[Pool, int, str], None]
"""Shows the pair at a place, and a word on the key before, empty where that was understood."""


def judge(path: Path, keys: Iterable[str], show: Show) -> Pool:
    """Ask for the grades of a pool, and write each before the next is requested.

    A key is a grade, ``s`` leaves the pair open, ``u`` takes the last grade back, ``q`` stops.
    Others may judge the same pool meanwhile: what they judged stays, and is told.
    """
    pool, pressed = _with_more(path, judgements.read_pool(path)), iter(keys)
    if max(pool.pairs[0].scale) > HIGHEST_KEY:
        raise DatasetError(f"{path}: grades above {HIGHEST_KEY} have no key; write them in by hand")
    at, said = min(pool.open, default=len(pool.pairs)), ""
    while at < len(pool.pairs):
        known = pool.grades[at]
        show(pool, at, said or (f"judged {known} already" if known is not None else ""))
        said = ""
        match next(pressed, QUIT):
            case key if key.isdecimal() and int(key) in pool.pairs[at].scale:
                pool, said = _regraded(path, pool, at, int(key))
                at += not said
                pool = _with_more(path, pool)
            case str(key) if key == SKIP:
                at += 1
            case str(key) if key == BACK and at:
                at -= 1
                pool, said = _regraded(path, pool, at, None)
            case str(key) if key == QUIT:
                break
            case key:
                said = f"{key!r} is not a key"
    return pool


def _with_more(path: Path, pool: Pool) -> Pool:
    """Return the pool with the next pairs, where all are judged and the sample is not whole."""
    seen = None if pool.open else following(path)
    return pool if seen is None else seen.pool


def _regraded(path: Path, pool: Pool, at: int, grade: int | None) -> tuple[Pool, str]:
    """Return the pool as it is then, and what came between, if anything did."""
    try:
        return judgements.regrade(path, pool.pairs[at], pool.grades[at], grade), ""
    except Overtaken as exc:
        return judgements.read_pool(path), str(exc)


IN_A_ROW = 3
"""Pairs without a valid answer, one after the other, that end the command."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """What a machine said of a pool."""

    labels: tuple[Label, ...]
    sent: int
    cost: float
    retries: int
    lacking: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Estimated:
    """What judging a pool would cost; nothing was sent."""

    pairs: int
    known: int
    tokens: float
    likely: float
    most: float


@contextmanager
def opened(path: Path, cache: Path) -> Iterator[machine.AnswerFolder]:
    """Open the judge of a file, with its answers below ``cache``."""
    settings = machine.read(path)
    folder = cache / settings.name
    if isinstance(settings, machine.WordOverlapSettings):
        yield machine.AnswerFolder(folder, machine.Overlap(settings))
        return
    from harness.judge.endpoint import opened as endpoint

    with endpoint(settings, path.parent, folder) as judge:
        yield machine.AnswerFolder(folder, judge)


def estimate(path: Path, answers: machine.AnswerFolder) -> Estimated:
    """Return what judging a pool costs; nothing is sent."""
    seen = [machine.PairToJudge.of(pair) for pair in judgements.read_pool(path).pairs]
    fresh = {one: None for one in seen if answers.known(one) is None}
    bounds = [answers.judge.bound(one) for one in fresh]
    return Estimated(
        pairs=len(seen),
        known=sum(one not in fresh for one in seen),
        tokens=sum(one.tokens for one in bounds),
        likely=sum(one.likely for one in bounds),
        most=sum(one.most for one in bounds),
    )


def label(path: Path, answers: machine.AnswerFolder, to: Path) -> Labelled:
    """Judge every pair of a pool and write ``to``; each answer is kept before the next request."""
    judge = answers.judge
    check_new(
        to,
        reads=(path, judgements.texts_path(path)),
        ours=lambda file: judgements.only_of(file, {judge.name}),
    )
    pool = judgements.read_pool(path)
    labels: list[Label] = []
    lacking: list[tuple[str, str, str]] = []
    sent: list[machine.JudgeAnswer] = []
    models: set[str] = set()
    row = 0
    with progress(f"judged by {judge.name}", len(pool.pairs)) as advance:
        for pair in pool.pairs:
            try:
                answer, is_new = answers.ask(machine.PairToJudge.of(pair))
            except machine.Unlabelled as exc:
                lacking.append((pair.query_id, pair.doc_id, str(exc)))
                row += 1
                if row == min(IN_A_ROW, len(pool.pairs)):
                    raise
            else:
                row = 0
                if answer.model not in models:
                    answers.check_model(answer.model)
                    models.add(answer.model)
                sent += [answer] * is_new
                labels.append(
                    Label(
                        query_id=pair.query_id,
                        doc_id=pair.doc_id,
                        grade=answer.grade(tuple(sorted(pair.scale))),
                        kind="machine",
                        by=judge.name,
                        model=answer.model,
                        template=judge.template,
                        probabilities=answer.probabilities,
                        cost=answer.cost,
                        note=answer.note,
                    )
                )
            advance(1)
    judgements.write_labels(to, labels)
    cost, retries = sum(one.cost for one in sent), sum(one.retries for one in sent)
    return Labelled(tuple(labels), len(sent), cost, retries, tuple(lacking))


class Merged(NamedTuple):
    """Pairs of a pool that were added to a data set, were in there already, or are not judged."""

    added: int
    known: int
    open: int


def merge(path: Path, dataset: Path, qrels: Path, *, by: str, at: str) -> Merged:
    """Add what was judged to ``<split>.qrels``, and say on the card by whom and when.

    It is also kept apart, in ``<split>.judged.jsonl``. The three files change together; a merge
    that was killed is completed by the next command that reads or changes the data set.
    """
    with changing(dataset, within=(dataset, qrels), what="judge --merge") as change:
        about = card.read(dataset)
        if about.kind != "files":
            raise DatasetError(
                f"{about.name}: its judgements are made from its card, so none can be added;"
                " import its data as files, and merge into that"
            )
        pool, sha256 = judgements.read_pool(path), digest.of_file(path)
        judged = qrels / f"{about.split}.qrels"
        grades = {q: dict(docs) for q, docs in trec.qrels(judged).grades.items()}
        fresh = _added(grades, pool, path, judged)
        if fresh:
            record = {"at": at, "by": by, "pool_sha256": sha256, "judgements": fresh}
            kept = qrels / f"{about.split}.judged.jsonl"
            said = f"{many(len(fresh), 'judgement was')} added on {at} by {by}, from a pool."
            change.write(kept, _with_line(kept, record))
            change.write(judged, trec.qrels_text(_qrels(grades)))
            change.write(dataset / card.FILE, card.text_of(_noted(about, _qrels(grades), said)))
    return Merged(len(fresh), len(pool.judgements) - len(fresh), len(pool.open))


def _added(
    grades: dict[str, dict[str, int]], pool: Pool, path: Path, judged: Path
) -> list[Judgement]:
    """Add what was judged to ``grades``, and return what was not there."""
    fresh = []
    for found in pool.judgements:
        of = grades.setdefault(found.query_id, {})
        before = of.get(found.doc_id)
        if before not in {None, found.grade}:
            raise DatasetError(
                f"{judged}: {found.doc_id} has grade {before} for query {found.query_id}, and"
                f" grade {found.grade} in {path}; settle it in one of the two"
            )
        if before is None:
            of[found.doc_id] = found.grade
            fresh.append(found)
    return fresh


def _noted(about: DatasetCard, qrels: Qrels, said: str) -> DatasetCard:
    """Return the card of the judgements as they are now."""
    return about.model_copy(
        update={
            "judgements": sum(1 for _ in qrels.rows()),
            "sha256": about.sha256.model_copy(update={"qrels": card.of_qrels(qrels)}),
            "warnings": [*about.warnings, said],
        }
    )


def _with_line(path: Path, record: Mapping[str, object]) -> str:
    before = text_of(path) if path.is_file() else ""
    gap = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{gap}{json.dumps(record, ensure_ascii=False, sort_keys=True)}\n"


def _qrels(grades: dict[str, dict[str, int]]) -> Qrels:
    return Qrels({q: dict(sorted(grades[q].items())) for q in sorted(grades)})


MEASURE = "P"


@dataclass(frozen=True, slots=True)
class AssistedDifference:
    """What the judgements say."""

    found: Assisted
    agreement: Estimate
    """Kappa of people and machine, over the documents that both judged."""
    grades: tuple[int | None, ...]
    """Grade of the machine by its code; None for documents that it did not judge."""
    queries: int
    judged: int
    verdict: Verdict
    """Of "the candidate loses less than the margin", by the judgements of people alone."""


def difference(  # noqa: PLR0917  all of it is needed
    layout: Layout,
    compared: Compared,
    human: Path,
    machine: Path,
    margin: float,
    inference: Inference,
) -> AssistedDifference:
    """Estimate candidate - control over queries that both answered and people drew and judged."""
    measure = parse(compared.measure)
    if measure.NAME != MEASURE:
        measures = ("P@5", "P@10", "P(rel=2)@10")
        raise UnknownName(
            "measure to which each document adds by itself", compared.measure, measures
        )
    depth, relevant = int(measure.params["cutoff"]), int(measure.params.get("rel", 1))
    control, candidate, data, _, ids = read_runs(layout, *compared[:2])
    signs = {q: one_sided(control.ranking(q, depth), candidate.ranking(q, depth)) for q in ids}
    people = judgements.judgements(human, "person")
    by_machine = judgements.judgements(machine, "machine")
    shown, grades = _shown(signs, (people, by_machine), depth, relevant)
    clusters = codes(ids, data.clusters())
    whole = judged_queries(signs, people, human, inference.seed)
    found = assisted(shown, whole, clusters=clusters, inference=inference)
    alike = _agreement(shown, grades, whole[shown.query], relevant, clusters, inference)
    used, verdict = found.human, Verdict.INCONCLUSIVE
    if used.low > TOUCH - margin:
        verdict = Verdict.PASS
    elif used.high < -margin - TOUCH:
        verdict = Verdict.FAIL
    return AssistedDifference(found, alike, grades, len(ids), int(whole.sum()), verdict)


def one_sided(control: Sequence[str], candidate: Sequence[str]) -> dict[str, int]:
    """Return 1 for each document of the candidate alone, -1 for each of the control alone."""
    both = set(control) & set(candidate)
    found = dict.fromkeys(control, -1) | dict.fromkeys(candidate, 1)
    return {doc_id: sign for doc_id, sign in found.items() if doc_id not in both}


def judged_queries(
    signs: Mapping[str, Mapping[str, int]], people: Qrels, path: Path, seed: int
) -> Flags:
    """Return which queries people judged; a like share of those without a difference is drawn."""
    lacking = {
        query_id: [d for d in docs if d not in people.grades.get(query_id, {})]
        for query_id, docs in signs.items()
    }
    begun = [q for q, left in lacking.items() if left and q in people.grades]
    if begun:
        pairs = sum(len(lacking[q]) for q in begun)
        raise EvidenceError(
            f"{path}: {many(len(begun), 'query is')} judged in part, for example {begun[0]};"
            f" judge their {many(pairs, 'missing document')}, or leave these queries out"
        )
    apart = np.array([bool(docs) for docs in signs.values()])
    judged: Flags = np.array([q in people.grades for q in signs]) & apart
    alike = np.flatnonzero(~apart)
    share = float(judged.sum()) / max(1, int(apart.sum()))
    rng = np.random.Generator(np.random.Philox(key=seed))
    judged[rng.permutation(alike)[: round(share * len(alike))]] = True
    return judged


def _shown(
    signs: Mapping[str, Mapping[str, int]],
    judged_by: tuple[Qrels, Qrels],
    depth: int,
    relevant: int,
) -> tuple[UniqueHits, tuple[int | None, ...]]:
    ids = tuple(signs)
    people, machine = judged_by
    rows = [(at, doc_id, sign) for at, q in enumerate(ids) for doc_id, sign in signs[q].items()]
    by_people = [people.grades.get(ids[at], {}).get(doc_id) for at, doc_id, _ in rows]
    by_machine = [machine.grades.get(ids[at], {}).get(doc_id) for at, doc_id, _ in rows]
    named = sorted({grade for grade in by_machine if grade is not None})
    grades: tuple[int | None, ...] = (*named, None)
    code = {grade: at for at, grade in enumerate(grades)}
    shown = UniqueHits(
        np.array([at for at, _, _ in rows], dtype=np.int64),
        np.array([sign / depth for _, _, sign in rows]),
        np.array([np.nan if g is None else float(g >= relevant) for g in by_people]),
        np.array([code[grade] for grade in by_machine], dtype=np.int64),
    )
    return shown, grades


def _agreement(  # noqa: PLR0917  all of it is needed
    shown: UniqueHits,
    grades: Sequence[int | None],
    known: Flags,
    relevant: int,
    clusters: Codes | None,
    inference: Inference,
) -> Estimate:
    both = known & (shown.machine < len(grades) - 1)
    if not both.any():
        raise EvidenceError("no document was judged by people and by the machine")
    yes = np.array([float(grade is not None and grade >= relevant) for grade in grades])
    groups = shown.query if clusters is None else clusters[shown.query]
    return kappa(
        shown.human[both], yes[shown.machine[both]], groups[both], confidence=inference.confidence
    )
