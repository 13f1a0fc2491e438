"""Let a machine judge a pool, and write labels that say who judged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.core.errors import DatasetError, ModelNotReady
from harness.core.folders import check_new
from harness.core.progress import progress
from harness.corpus import judgements
from harness.corpus.judgements import JudgingPair, Label
from harness.judge import machine
from harness_engines.contract import SearchError
from harness_engines.rerank import CrossEncoder

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
    """Of those judged now."""
    retries: int
    lacking: tuple[tuple[str, str, str], ...]
    """Query, document and reason of each pair without a label."""


@dataclass(frozen=True, slots=True)
class Estimated:
    """What judging a pool would cost; nothing was sent."""

    pairs: int
    known: int
    """Pairs that were answered before."""
    tokens: float
    likely: float
    most: float


@contextmanager
def opened(path: Path, cache: Path) -> Iterator[tuple[machine.Judge, machine.AnswerFolder]]:
    """Open the judge of a file, with its answers below ``cache``."""
    found = machine.read(path)
    answers = machine.AnswerFolder(cache / found.name, found.name)
    with _judge(found, path.parent, answers.folder) as judge:
        yield judge, answers


@contextmanager
def _judge(found: machine.Settings, beside: Path, kept: Path) -> Iterator[machine.Judge]:
    match found:
        case machine.WordOverlapSettings():
            yield Overlap(found)
        case machine.EncoderSettings():
            yield Encoder.load(found, beside)
        case machine.EndpointSettings():
            from harness.judge.endpoint import opened as endpoint

            with endpoint(found, beside, kept) as judge:
                yield judge


def estimate(path: Path, judge: machine.Judge, answers: machine.AnswerFolder) -> Estimated:
    """Return what judging a pool costs; nothing is sent."""
    pool = judgements.read_pool(path)
    seen = [machine.PairToJudge.of(pair) for pair in pool.pairs]
    fresh = [
        one for one in dict.fromkeys(seen) if answers.known(machine.key_of(judge, one)) is None
    ]
    bounds = [judge.bound(one) for one in fresh]
    return Estimated(
        pairs=len(seen),
        known=sum(one not in set(fresh) for one in seen),
        tokens=sum(one.tokens for one in bounds),
        likely=sum(one.likely for one in bounds),
        most=sum(one.most for one in bounds),
    )


def label(path: Path, judge: machine.Judge, answers: machine.AnswerFolder, to: Path) -> Labelled:
    """Judge every pair of a pool, whatever people said of it, and write ``to``.

    Each answer is on the disk before the next request, so a command that is cut off goes on where
    it was. ``to`` appears when all pairs are done. A pair without a valid answer has no label.
    """
    check_new(
        to,
        reads=(path, judgements.texts_path(path)),
        ours=lambda file: judgements.only_of(file, {judge.name}),
    )
    pool = judgements.read_pool(path)
    found: list[Label] = []
    lacking: list[tuple[str, str, str]] = []
    fresh: list[machine.JudgeAnswer] = []
    models: set[str] = set()
    row = 0
    with progress(f"judged by {judge.name}", len(pool.pairs)) as advance:
        for pair in pool.pairs:
            seen = machine.PairToJudge.of(pair)
            try:
                answer = answers.ask(
                    machine.key_of(judge, seen), partial(_asked, judge, seen, fresh)
                )
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
                found.append(_label(judge, pair, answer))
            advance(1)
    judgements.write_labels(to, found)
    return Labelled(
        tuple(found),
        len(fresh),
        sum(one.cost for one in fresh),
        sum(one.retries for one in fresh),
        tuple(lacking),
    )


def _asked(
    judge: machine.Judge, seen: machine.PairToJudge, fresh: list[machine.JudgeAnswer]
) -> machine.JudgeAnswer:
    found = judge.judge(seen)
    if len(found.probabilities) != len(seen.scale):
        raise DatasetError(
            f"the judge {judge.name} tells {len(found.probabilities)} grades apart, and the pool"
            f" has {len(seen.scale)}: {', '.join(map(str, seen.scale))}. Change cuts in its file"
        )
    fresh.append(found)
    return found


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


@dataclass(frozen=True, slots=True)
class Overlap:
    """Scores a pair by the share of the query's words that title and text have."""

    settings: machine.WordOverlapSettings
    template: str = ""

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def identity(self) -> str:
        return self.settings.model_dump_json()

    def bound(self, seen: machine.PairToJudge) -> machine.CostBound:  # noqa: ARG002  a rule costs nothing
        return machine.FREE

    def judge(self, seen: machine.PairToJudge) -> machine.JudgeAnswer:
        asked = set(WORD.findall(seen.query.casefold()))
        has = set(WORD.findall(f"{seen.title} {seen.text}".casefold()))
        shared = len(asked & has) / len(asked) if asked else 0.0
        found = machine.cumulative(shared, self.settings.cuts, self.settings.slope)
        note = f"{len(asked & has)} of {len(asked)} words"
        return machine.JudgeAnswer(found, "word overlap", note=note)


@dataclass(frozen=True, slots=True)
class Encoder:
    """Reads query and document together."""

    settings: machine.EncoderSettings
    model: CrossEncoder
    template: str = ""

    @classmethod
    def load(cls, settings: machine.EncoderSettings, beside: Path) -> Encoder:
        """Open the model; nothing is ever fetched."""
        folder = beside / settings.folder
        try:
            model = CrossEncoder.load(folder, settings.max_tokens, settings.sha256)
        except SearchError as exc:
            raise ModelNotReady(f"the judge {settings.name}: {exc}") from exc
        return cls(settings, model)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def identity(self) -> str:
        return f"{self.settings.model_dump_json(exclude={'folder'})} {self.model.identity}"

    def bound(self, seen: machine.PairToJudge) -> machine.CostBound:  # noqa: ARG002  it runs on this machine
        return machine.FREE

    def judge(self, seen: machine.PairToJudge) -> machine.JudgeAnswer:
        try:
            logit = float(self.model.logits(seen.query, [f"{seen.title} {seen.text}".strip()])[0])
        except SearchError as exc:
            raise ModelNotReady(f"the judge {self.name}: {exc}") from exc
        found = machine.cumulative(logit, self.settings.cuts, self.settings.slope)
        return machine.JudgeAnswer(found, self.model.identity, note=f"logit {logit:.4f}")
