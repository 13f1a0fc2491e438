"""Runs scored, and compared by measure with intervals and p-values, as tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.api.data import QrelsLike, RunLike, load_qrels, load_run, named_run
from harness.core.errors import DatasetError, EvidenceError, UnknownName
from harness.core.printable import counted, one_line
from harness.core.records import Qrels, Query
from harness.core.run import Run
from harness.core.scores import Estimate, Paired, Scores, codes, independent
from harness.corpus import clusters
from harness.corpus.cells import written_otherwise
from harness.measures import quality
from harness.measures.name import span_of_difference
from harness.measures.quality import summarise
from harness.report.doc import Block, Num, Text, table
from harness.report.html import fragment
from harness.report.rounding import MINUS, interval, markdown, number, p_value, signed
from harness.stats.bootstrap import FEWEST
from harness.stats.inference import Inference
from harness.stats.significance import adjusted, sign_flip

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["Difference", "Inference", "compare", "difference"]


class Shown(ABC):
    """A result that a notebook shows as ``blocks`` of a report."""

    __slots__ = ()

    @abstractmethod
    def blocks(self) -> Iterable[Block]: ...

    def _repr_html_(self) -> str:
        return fragment(self.blocks())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scored(Shown):
    """Scores of one run, query by query."""

    arm: str
    scores: Mapping[str, Scores]
    """Scores by measure name, as given."""

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each query, a column for each measure; NaN if undefined."""
        import pandas as pd

        columns = {name: pd.Series(dict(of.by_query)) for name, of in self.scores.items()}
        return pd.DataFrame(columns).rename_axis("query_id")

    def __repr__(self) -> str:
        means = (f"{name} {number(of.mean)}" for name, of in self.scores.items())
        return f"{self.arm}: {', '.join(means)}"

    def blocks(self) -> Iterable[Block]:
        """Return a table of means."""
        yield table(
            f"{self.arm}: means over queries",
            ("measure", "mean", "queries", "without a value"),
            (
                (name, Num(of.mean), len(of.query_ids), ", ".join(
                    f"{len(ids):,} {why.replace('_', ' ')}" for why, ids in of.undefined.items()
                ) or "none")
                for name, of in self.scores.items()
            ),
        )  # fmt: skip


def score(
    run: RunLike, qrels: QrelsLike, measures: Sequence[str], *, queries: Sequence[str] | None = None
) -> Scored:
    """Score a run by measures in ir-measures notation, e.g. ``nDCG@10``.

    Accepts every form of runs and judgements that ``load_run`` and ``load_qrels`` read. ``queries``
    are those that the arm ran; by default the judged ones. An empty answer scores 0. A query that
    failed, or is missing from the run, has no value (method, section "Quality"); ``load_run(...,
    empty=queries)`` reads a run in which such a query found nothing.

    Raises:
        UnknownName: a measure is unknown.
        EvidenceError: ``queries`` is empty, or repeats one.
        InvalidArm: the run answers none of them.
        BadFile, RunError, DatasetError: as ``load_run`` and ``load_qrels``; or the two write the
            same ids in two ways.
    """
    loaded, judged = load_run(run), load_qrels(qrels)
    check_ids(loaded, judged)
    asked = judged.query_ids if queries is None else queries
    return Scored(loaded.arm, quality.score(loaded, judged, measures, asked))


def check_ids(run: Run, qrels: Qrels) -> None:
    """Refuse a run and judgements that write the same ids in two ways."""
    judged = {doc_id for of in qrels.grades.values() for doc_id in of}
    found = {
        "query": written_otherwise(frozenset(run.query_ids), frozenset(qrels.grades)),
        "document": written_otherwise(frozenset(run.vocabulary), judged),
    }
    for what, pair in found.items():
        if pair:
            raise DatasetError(
                f"the run has the {what} {pair[0]!r}, and the judgements have {pair[1]!r}. Read ids"
                " as text (pandas: dtype=str)"
            )


def near_duplicates(queries: Mapping[str, str]) -> Mapping[str, str]:
    """Return the cluster of each near-duplicate query, by its id.

    ``queries`` are texts by id. Give it to ``compare`` and ``leaderboard`` as ``intents``: the
    gates of a policy do the same for queries without an intent.
    """
    asked = tuple(Query(query_id, text) for query_id, text in queries.items())
    return clusters.of_queries(asked, clusters.near_duplicates(asked))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Difference(Shown):
    """Candidate minus control by one measure."""

    control: str
    candidate: str
    paired: Paired
    estimate: Estimate
    """Mean difference with its interval."""
    p_value: float
    """Two-sided p-value of the sign-flip test of "no difference"."""

    @property
    def measure(self) -> str:
        """Name of the measure, as it was given."""
        return self.paired.measure

    @property
    def better(self) -> tuple[str, ...]:
        """Ids of queries that the candidate answers better, the largest gain first."""
        return tuple(q for q, apart in reversed(self._sorted()) if apart > 0)

    @property
    def worse(self) -> tuple[str, ...]:
        """Ids of queries that the candidate answers worse, the largest loss first."""
        return tuple(q for q, apart in self._sorted() if apart < 0)

    def frame(self) -> pd.DataFrame:
        """Return a pandas frame with a row for each query, the largest loss first."""
        import pandas as pd

        columns = {
            "control": self.paired.control,
            "candidate": self.paired.candidate,
            "difference": self.paired.difference,
        }
        index = pd.Index(self.paired.query_ids, name="query_id")
        return pd.DataFrame(columns, index=index).sort_values("difference", kind="stable")

    def _sorted(self) -> list[tuple[str, float]]:
        apart = self.paired.difference
        order = np.argsort(apart, kind="stable")
        return [(self.paired.query_ids[at], float(apart[at])) for at in order]

    def __repr__(self) -> str:
        found = self.estimate
        return (
            f"{self.candidate} against {self.control}, {self.measure}: {signed(found.value)}"
            f" {interval(found)}, p {p_value(self.p_value)}, {counted(found.n, 'query')}"
        )

    def blocks(self) -> Iterable[Block]:
        """Return a table of one row, and how many queries were lost."""
        yield table(
            f"{self.candidate} compared with {self.control}",
            (
                "measure", self.control, self.candidate, "difference", "p", "queries", "better",
                "worse",
            ),
            [(
                self.measure,
                Num(float(self.paired.control.mean())),
                Num(float(self.paired.candidate.mean())),
                Num.of(self.estimate, signed=True),
                Num(self.p_value, "p"),
                self.estimate.n,
                len(self.better),
                len(self.worse),
            )],
        )  # fmt: skip
        if lost := len(self.paired.unpaired):
            yield Text(f"{lost:,} lost: only one of the two has a value")


def compare(
    control: RunLike,
    candidate: RunLike,
    qrels: QrelsLike,
    measure: str,
    *,
    sure: Inference,
    queries: Sequence[str] | None = None,
    intents: Mapping[str, str] | None = None,
) -> Difference:
    """Compare two runs by one measure, query by query.

    Accepts every form of runs and judgements that ``load_run`` and ``load_qrels`` read. A run
    without a name is called ``control`` or ``candidate``. ``queries`` are as in ``score``.
    ``intents`` has the intent of a query by its id; queries of one intent are resampled together.
    The result is not a verdict; policies give verdicts.

    Raises:
        UnknownName: ``measure`` is unknown.
        EvidenceError: fewer than two queries, or intents, have a value in both runs.
        InvalidArm: a run answers none of the queries.
        BadFile, RunError, DatasetError: as ``load_run`` and ``load_qrels``.
    """
    runs = named_run(control, "", "control"), named_run(candidate, "", "candidate")
    judged = load_qrels(qrels)
    left, right = (score(run, judged, [measure], queries=queries) for run in runs)
    paired = Paired.of(left.scores[measure], right.scores[measure])
    return difference(paired, (left.arm, right.arm), sure, intents or {})


def difference(
    paired: Paired, arms: tuple[str, str], sure: Inference, intents: Mapping[str, str]
) -> Difference:
    """Return the mean difference with interval and p-value; ``arms`` are control and candidate."""
    estimate = summarise(
        Scores(paired.measure, paired.query_ids, paired.difference, {}),
        span=span_of_difference(paired.measure),
        inference=sure,
        clusters=intents,
    )
    p = sign_flip(
        paired.difference,
        resamples=sure.resamples,
        seed=sure.seed,
        clusters=codes(paired.query_ids, intents),
    )
    return Difference(*arms, paired, estimate, p)


HIGHER, LOWER = "†", "‡"
LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", HIGHER: r"$^{\dagger}$", LOWER: r"$^{\ddagger}$",
    MINUS: "$-$",
})  # fmt: skip


class MarkedMean(NamedTuple):
    """A mean, what stands beside it, and whether no other one is higher."""

    value: float | None
    mark: str
    best: bool

    @property
    def is_letters(self) -> bool:
        """Whether its mark names other systems."""
        return bool(self.mark) and self.mark.isascii()


class PaperTable(NamedTuple):
    """Means by measure as a paper shows them; the best one of each measure is bold."""

    caption: str
    measures: Sequence[str]
    rows: Mapping[str, Sequence[MarkedMean]]
    """By what the first column says."""
    note: str
    absent: str
    """What stands where a mean is missing."""

    def cell(self, mean: MarkedMean, before: str = "", after: str = "") -> str:
        """Write a mean and its mark; a letter stands apart."""
        if mean.value is None:
            return self.absent
        shown = number(mean.value)
        shown = f"{before}{shown}{after}" if mean.best else shown
        return f"{shown} {mean.mark}" if mean.is_letters else shown + mean.mark

    def to_markdown(self) -> str:
        """Write the table in Markdown."""
        rows = [
            ["", *map(markdown, self.measures)],
            ["---", *["---:"] * len(self.measures)],
            *([markdown(name), *(self.cell(mean, "**", "**") for mean in means)]
              for name, means in self.rows.items()),
        ]  # fmt: skip
        body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return f"{markdown(self.caption)}\n\n{body}\n\n{markdown(self.note)}\n"

    def to_latex(self) -> str:
        """Write a ``table`` for the package booktabs."""

        def escaped(text: str) -> str:
            return one_line(text).translate(LATEX)

        def cell(mean: MarkedMean) -> str:
            if mean.value is None:
                return self.absent
            shown = escaped(number(mean.value))
            mark = f"$^{{{mean.mark}}}$" if mean.is_letters else escaped(mean.mark)
            return (rf"\textbf{{{shown}}}" if mean.best else shown) + mark

        rows = (" & ".join([escaped(name), *map(cell, means)]) for name, means in self.rows.items())
        return "\n".join([
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escaped(self.caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * len(self.measures)}}}",
            r"\toprule",
            " & ".join(["", *map(escaped, self.measures)]).strip() + r" \\",
            r"\midrule",
            *(row + r" \\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            rf"\par\smallskip{{\footnotesize {escaped(self.note)}}}",
            r"\end{table}",
            "",
        ])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Leaderboard(Shown):
    """Means of every run, and how each differs from the control."""

    control: str
    measures: tuple[str, ...]
    scores: Mapping[str, Mapping[str, Scores]]
    """By run and measure; the best run by the first measure comes first."""
    differences: Mapping[tuple[str, str], Difference]
    """By run and measure; absent for the control, and where fewer than two queries are paired."""
    corrected: Mapping[tuple[str, str], float]
    """p-values after Holm's correction over all of ``differences``."""
    level: float
    """Significance level: a mark needs a corrected p-value below it."""

    def mean(self, arm: str, measure: str) -> float | None:
        """Mean of a run; None where no query has a value."""
        return self.scores[arm][measure].mean

    def mark(self, arm: str, measure: str) -> str:
        """Return the mark of a mean: significantly higher or lower than the control, or empty."""
        at = arm, measure
        if at not in self.corrected or self.corrected[at] >= self.level:
            return ""
        return HIGHER if self.differences[at].estimate.value > 0 else LOWER

    def best(self, measure: str) -> float | None:
        """Highest mean of any run; None where no run has one."""
        found = [self.mean(arm, measure) for arm in self.scores]
        return max((value for value in found if value is not None), default=None)

    @property
    def caption(self) -> str:
        """Caption of the table, with the number of queries scored by the first measure."""
        counts = sorted({len(of[self.measures[0]].query_ids) for of in self.scores.values()})
        over = "queries" if counts[-1] != 1 else "query"
        least = f"{counts[0]:,} to " if counts[0] != counts[-1] else ""
        return f"Means over queries ({least}{counts[-1]:,} {over} for {self.measures[0]})"

    @property
    def note(self) -> str:
        """Meaning of the marks, and the number of unpaired queries."""
        lost = len({q for found in self.differences.values() for q in found.paired.unpaired})
        said = f" Queries missing because one of two runs failed: {lost:,}." if lost else ""
        return (
            f"{HIGHER} higher, {LOWER} lower than {self.control}: paired sign-flip test,"
            f" two-sided, p below {self.level:.3g} after Holm's correction over the whole table"
            f" (comparisons: {len(self.corrected)}). No mark does not mean that two are"
            f" alike.{said}"
        )

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each run and measure; NaN if nothing was compared."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def rows(self) -> list[dict[str, object]]:
        """Return a row for each run and measure, by the names of columns."""
        rows: list[dict[str, object]] = []
        for (arm, of), measure in product(self.scores.items(), self.measures):
            found, scores = self.differences.get((arm, measure)), of[measure]
            apart = found.estimate if found else None
            rows.append({
                "arm": arm, "measure": measure, "queries": len(scores.query_ids),
                "mean": scores.mean,
                "difference": apart.value if apart else None,
                "low": apart.low if apart else None,
                "high": apart.high if apart else None,
                "p": found.p_value if found else None,
                "p_holm": self.corrected.get((arm, measure)),
                "mark": self.mark(arm, measure),
            })  # fmt: skip
        return rows

    def __repr__(self) -> str:
        paper, rows = self.paper(), []
        for arm, means in paper.rows.items():
            cells = zip(self.measures, map(paper.cell, means), strict=True)
            rows.append(f"{arm}: {', '.join(map(' '.join, cells))}")
        return "\n".join([*rows, self.note])

    def blocks(self) -> Iterable[Block]:
        """Return the table and what its marks mean."""
        paper = self.paper()
        rows = ((arm, *map(paper.cell, means)) for arm, means in paper.rows.items())
        yield table(self.caption, ("", *self.measures), rows)
        yield Text(self.note)

    def paper(self) -> PaperTable:
        """Return the table as a paper shows it."""
        best = {measure: self.best(measure) for measure in self.measures}
        rows: dict[str, list[MarkedMean]] = {}
        for arm, measure in product(self.scores, self.measures):
            mean = self.mean(arm, measure)
            marked = MarkedMean(mean, self.mark(arm, measure), mean == best[measure])
            rows.setdefault(arm, []).append(marked)
        return PaperTable(self.caption, self.measures, rows, self.note, "not measured")


def leaderboard(
    control: RunLike,
    candidates: Sequence[RunLike],
    qrels: QrelsLike,
    measures: Sequence[str],
    *,
    sure: Inference,
    queries: Sequence[str] | None = None,
    intents: Mapping[str, str] | None = None,
) -> Leaderboard:
    """Score every run, and compare every candidate with the control by every measure.

    Accepts every form of runs and judgements that ``load_run`` and ``load_qrels`` read. A run
    without a name is called ``control``, ``candidate-1``, ``candidate-2`` and so on.

    Raises:
        EvidenceError: two runs have one name, or a candidate or measure is missing.
        UnknownName, InvalidArm, BadFile, RunError, DatasetError: as ``score``.
    """
    first, judged = named_run(control, "", "control"), load_qrels(qrels)
    others = [named_run(run, "", f"candidate-{at}") for at, run in enumerate(candidates, start=1)]
    names = [run.arm for run in (first, *others)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise EvidenceError(f"two runs are named {twice[0]}; load one of them with another arm=")
    found = {
        run.arm: score(run, judged, measures, queries=queries).scores for run in (first, *others)
    }
    return ranked(found, first.arm, measures, sure, intents or {})


def ranked(
    scores: Mapping[str, Mapping[str, Scores]],
    control: str,
    measures: Sequence[str],
    sure: Inference,
    intents: Mapping[str, str],
) -> Leaderboard:
    """Make a leaderboard from existing scores; ``scores`` is by run and measure.

    Raises:
        UnknownName: the control or a measure is not among ``scores``.
        EvidenceError: a candidate or a measure is missing.
        MismatchedQueries: two runs have different queries.
    """
    if control not in scores:
        raise UnknownName("arm to be the control", control, scores)
    if len(scores) < FEWEST or not measures:
        raise EvidenceError("a table needs a control, another run and a measure; name them")
    for measure in measures:
        if lacking := [arm for arm in scores if measure not in scores[arm]]:
            raise UnknownName(f"measure of {lacking[0]}", measure, scores[lacking[0]])
    found: dict[tuple[str, str], Difference] = {}
    for arm in scores:
        for measure in measures:
            paired = Paired.of(scores[control][measure], scores[arm][measure])
            if arm != control and independent(paired.query_ids, intents) >= FEWEST:
                found[arm, measure] = difference(paired, (control, arm), sure, intents)
    p_values = adjusted(np.array([one.p_value for one in found.values()], dtype=np.float64))

    def place(arm: str) -> tuple[float, str]:
        mean = scores[arm][measures[0]].mean
        return (-mean if mean is not None else np.inf, arm)

    return Leaderboard(
        control=control,
        measures=tuple(measures),
        scores={arm: scores[arm] for arm in sorted(scores, key=place)},
        differences=found,
        corrected=dict(zip(found, p_values.tolist(), strict=True)),
        level=sure.level,
    )
