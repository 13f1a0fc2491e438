"""A synthetic pair of engines with known truth, run and measured by the real code.

Every query has one relevant document, and the intact engine shows it first. A spoilt engine loses
some queries entirely, so every difference is known exactly: the share of those queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from harness.agreement.agree import agree
from harness.core.engine import Answer, Hit, Manifest
from harness.core.evidence import Agreement, ArmResult, Evidence
from harness.core.qrels import Qrels
from harness.core.records import Query
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.measures.quality import score
from harness.policy.model import Step
from harness.replay.ask import observe

SHOWN = 4
"""Hits of an answer: few, because every decision computes them."""
PATIENT_NS = 10**12
CORPUS = "canary"
RBO_P = 0.9
NOTHING = Agreement((), (), {})
WRONG = tuple(Hit(f"wrong {at}", 1 / at, 1 / at) for at in range(2, SHOWN + 1))
PAGE = 100
UNJUDGED = tuple(Hit(f"unjudged {at}", 1 / at, 1 / at) for at in range(1, PAGE + 1))


class Spoil(StrEnum):
    """The fault on the queries for which an engine is spoilt."""

    LOST = "shows other documents, which nobody judged"
    FAILED = "raises"
    REPEATED = "shows one document twice"
    UNSIGNED = "answers in another engine's name"
    TURNED = "shows its list upside down"
    SILENT = "shows nothing"
    JUNK = "fills its page with anything"


@dataclass(frozen=True, slots=True)
class Spoilt:
    """An engine that is spoilt on the first ``count`` queries, and elsewhere on the others."""

    count: int = 0
    how: Spoil = Spoil.LOST
    otherwise: Spoil | None = None

    def at(self, number: int) -> Spoil | None:
        """Give the fault of one query; None without one."""
        return self.how if number < self.count else self.otherwise


class Synthetic:
    """A searcher without an index."""

    def __init__(self, manifest: Manifest, how: Spoil | None) -> None:
        self.manifest = manifest
        self._how = how
        self._signed = manifest.fingerprint

    def search(self, text: str, k: int) -> Answer:
        """Show the relevant document first and others after it, or what the spoil says."""
        how = self._how
        if how is Spoil.FAILED:
            raise ValueError("a canary that fails")
        hits = (Hit(f"right {int(text)}", 1.0, 1.0), *WRONG)
        if how in {Spoil.LOST, Spoil.JUNK, Spoil.SILENT}:
            hits = UNJUDGED[: {Spoil.LOST: SHOWN, Spoil.JUNK: k}.get(how, 0)]
        elif how is Spoil.TURNED:
            hits = hits[::-1]
        elif how is Spoil.REPEATED:
            hits = (*hits[:-1], hits[0])
        return Answer(hits[:k], "" if how is Spoil.UNSIGNED else self._signed)


@dataclass(frozen=True)
class Pair:
    """Queries, judgements, and the results of a control and a candidate."""

    queries: int
    measures: tuple[str, ...]
    """Measures of quality; each is known for a correct answer, and 0 for a lost one."""
    depths: tuple[int, ...]
    """Of Jaccard."""
    answerable: bool = True
    """Whether a document is relevant to each query; else none is to any."""
    k: int = SHOWN
    """Hits requested."""
    rows: dict[tuple[str, int, Spoil | None, int], Row] = field(default_factory=dict)
    """Cached answers by engine, query, spoil and k, shared with other pairs."""
    _asked: dict[tuple[str, Spoilt], ArmResult] = field(default_factory=dict)
    _compared: dict[tuple[Spoilt, Spoilt], Agreement] = field(default_factory=dict)

    @cached_property
    def query_set(self) -> tuple[Query, ...]:
        """Give the queries; a text is the number of its query."""
        return tuple(Query(f"c{at:05}", str(at)) for at in range(self.queries))

    @cached_property
    def qrels(self) -> Qrels:
        """Judge one document of each query relevant, and those beside it not."""
        wrong = {hit.doc_id: 0 for hit in WRONG}
        right = int(self.answerable)
        return Qrels({
            query.query_id: {f"right {at}": right, **wrong}
            for at, query in enumerate(self.query_set)
        })

    def evidence(
        self,
        step: Step,
        control: Spoilt,
        candidate: Spoilt,
        *,
        slices: Iterable[str],
        compared: bool,
    ) -> Evidence:
        """Run and score the two as the arms of a step, each spoilt in its way.

        Each of ``slices`` holds every query. Their agreement is computed where the two are to be
        ``compared``, and is nothing else.
        """
        left = self._side("control", step.control, control)
        right = self._side("candidate", step.candidate, candidate)
        everything = frozenset(query.query_id for query in self.query_set)
        others = dict.fromkeys(arm for gate in step.gates for arm in gate.settings.arms)
        return Evidence(
            dataset=CORPUS,
            control=left,
            candidate=right,
            agreement=self._agreement(left, right, (control, candidate) if compared else None),
            noise=self._agreement(left, left, (control, control) if compared else None),
            others={arm: self._side(f"other {arm}", arm, control) for arm in others},
            slices=dict.fromkeys(slices, everything),
            clusters={},
            race=None,
            qrels=self.qrels,
            complete="made so",
        )

    def _agreement(
        self, left: ArmResult, right: ArmResult, spoilt: tuple[Spoilt, Spoilt] | None
    ) -> Agreement:
        if spoilt is None:
            return NOTHING
        if spoilt not in self._compared:
            self._compared[spoilt] = agree(left.run, right.run, depths=self.depths, p=RBO_P)
        return self._compared[spoilt]

    def _side(self, role: str, arm: str, spoilt: Spoilt) -> ArmResult:
        if (role, spoilt) not in self._asked:
            manifest = Manifest(CORPUS, role, PAGE, CORPUS, "")
            run = self._run(arm, manifest, spoilt)
            self._asked[role, spoilt] = ArmResult(arm, manifest, run, self._scores(run), arm)
        found = self._asked[role, spoilt]
        return replace(found, arm=arm, run=replace(found.run, arm=arm))

    def _run(self, arm: str, manifest: Manifest, spoilt: Spoilt) -> Run:
        engines = {how: Synthetic(manifest, how) for how in (None, *Spoil)}
        rows = []
        for number, query in enumerate(self.query_set):
            how = spoilt.at(number)
            key = (manifest.version, number, how, self.k)
            if key not in self.rows:
                self.rows[key] = observe(engines[how], query, self.k, PATIENT_NS).row
            rows.append(self.rows[key])
        return Run.of(arm, rows)

    def _scores(self, run: Run) -> Mapping[str, Scores]:
        if not (self.measures and run.count(Status.ANSWERED)):
            return {}
        return score(run, self.qrels, self.measures, [query.query_id for query in self.query_set])
