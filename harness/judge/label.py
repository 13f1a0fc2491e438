"""Let a machine judge a pool, and write labels that say who judged."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.core.folders import check_new
from harness.core.progress import progress
from harness.corpus import judgements
from harness.corpus.judgements import JudgingPair, Label
from harness.judge import machine

WORD = re.compile(r"\w+")
IN_A_ROW = 3
"""Pairs without a valid answer, one after the other, that end the command."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """What a machine said of a pool."""

    labels: tuple[Label, ...]
    sent: int
    """Pairs that were judged now; the others were answered before."""
    cost: float
    retries: int
    lacking: tuple[tuple[str, str, str], ...]
    """Query, document and reason of each pair without a label."""


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
        yield machine.AnswerFolder(folder, Overlap(settings))
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
                labels.append(_label(judge, pair, answer))
            advance(1)
    judgements.write_labels(to, labels)
    cost, retries = sum(one.cost for one in sent), sum(one.retries for one in sent)
    return Labelled(tuple(labels), len(sent), cost, retries, tuple(lacking))


def _label(judge: machine.Judge, pair: JudgingPair, answer: machine.JudgeAnswer) -> Label:
    return Label(
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


class Overlap(machine.Judge):
    """Scores a pair by the share of the query's words that title and text have."""

    def __init__(self, settings: machine.WordOverlapSettings) -> None:
        super().__init__(settings.name, settings.model_dump_json())
        self._settings = settings

    def judge(self, seen: machine.PairToJudge) -> machine.JudgeAnswer:
        asked = set(WORD.findall(seen.query.casefold()))
        has = set(WORD.findall(f"{seen.title} {seen.text}".casefold()))
        shared = len(asked & has) / len(asked) if asked else 0.0
        found = machine.cumulative(shared, self._settings.cuts, self._settings.slope)
        note = f"{len(asked & has)} of {len(asked)} words"
        return machine.JudgeAnswer(found, "word overlap", note=note)
