"""The table of a paper: systems by measures, from runs and judgements or a run's scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, cast

import numpy as np
from ir_measures import Measure
from numpy.typing import NDArray

from harness.api.comparison import Shown, score
from harness.api.data import QrelsLike, RunLike, load_qrels, load_run
from harness.core.errors import EvidenceError, UnknownName
from harness.core.formats import to_csv
from harness.core.names import checked
from harness.core.printable import many, one_line
from harness.core.run import Run
from harness.core.scores import Estimate, codes
from harness.measures.name import span_of_difference
from harness.report import doc
from harness.report.rounding import MINUS, markdown, number
from harness.stats.inference import Inference
from harness.stats.interval import interval_each
from harness.stats.significance import Codes, adjusted, fdr_adjusted, sign_flip_each

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
T = TypeVar("T")
Test = Literal["permutation", "bootstrap", "t", "wilcoxon", "tukey"]
Correction = Literal["holm", "bh", "none"]
Values = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By system, measure and query."""
Pairs = Sequence[tuple[int, int]]
NAMES: dict[Test, str] = {
    "permutation": "paired sign-flip permutation test",
    "bootstrap": "paired bootstrap test",
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test",
    "tukey": "Tukey's HSD of a two-way layout",
}
CORRECTED: dict[Correction, str] = {
    "holm": "Holm's correction",
    "bh": "Benjamini and Hochberg's correction",
    "none": "no correction",
}
FEWEST = 2
USUAL = Inference(confidence=0.95, resamples=10_000, seed=20_260_101)
"""Of a table that looks around; gates and policies have no default."""
COUNTED = "Judged", "Num"
"""Begin measures that count: no system is best by them, and none is tested."""
TIED = 1e-12
"""Means of the same values may differ by less, for their queries come in another order."""
HIGHER, LOWER = "†", "‡"
SIGNS = str.maketrans({HIGHER: r"$^{\dagger}$", LOWER: r"$^{\ddagger}$", MINUS: "$-$"})
"""Signs of a cell as LaTeX writes them."""
LATEX = SIGNS | str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}",
})  # fmt: skip


class SystemPair(NamedTuple):
    """One system against another by one measure."""

    system: str
    other: str
    measure: str
    queries: int
    difference: float
    low: float | None
    """End of the interval of the difference; None where all pairs are tested."""
    high: float | None
    effect_size: float
    p: float
    p_corrected: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table(Shown):
    """Means of systems by measure, and a test of each pair."""

    values: Values
    """The best system by the first measure comes first."""
    lost: Mapping[str, int]
    """By system, judged queries without a value by the first measure."""
    pairs: tuple[SystemPair, ...]
    baseline: str
    test: Test
    correction: Correction
    sure: Inference

    @classmethod
    def of(
        cls, found: Values, lost: Mapping[str, int], *, baseline: str, test: Test,
        correction: Correction, sure: Inference, clusters: Mapping[str, str] | None = None,
    ) -> Table:  # fmt: skip
        """Order systems and test their differences; queries of one cluster flip together."""
        if baseline and baseline not in found:
            raise UnknownName("baseline", baseline, found)
        first = next(iter(next(iter(found.values()))))
        order = sorted(found, key=lambda one: (-_mean(found[one][first], -np.inf), one))
        against = [(one, baseline) for one in order if one != baseline]
        pairs = against if baseline else [*combinations(order, 2)]
        ordered = {one: found[one] for one in order}
        together = clusters or {}
        tested = _tested(ordered, pairs, test, sure=sure, clusters=together, ends=bool(baseline))
        correction = "none" if test == "tukey" else correction
        corrected = correct(np.array([one.p for one in tested], dtype=np.float64), correction)
        both = zip(tested, corrected.tolist(), strict=True)
        return cls(
            values=ordered,
            lost=lost,
            pairs=tuple(one._replace(p_corrected=p) for one, p in both),
            baseline=baseline,
            test=test,
            correction=correction,
            sure=sure,
        )

    @property
    def systems(self) -> tuple[str, ...]:
        """Names in the order of the table."""
        return tuple(self.values)

    @property
    def measures(self) -> tuple[str, ...]:
        """Names in the order of the table."""
        return tuple(next(iter(self.values.values())))

    def mean(self, system: str, measure: str) -> float | None:
        """Return the mean over queries; None where no query has a value."""
        return _mean(self.values[system][measure], None)

    def best(self, measure: str) -> float | None:
        """Return the highest mean; None for measures of the judgements."""
        if measure.startswith(COUNTED):
            return None
        means = [self.mean(system, measure) for system in self.systems]
        return max((one for one in means if one is not None), default=None)

    def letter(self, system: str) -> str:
        """Return the letter that stands for a system where all pairs are tested."""
        at = self.systems.index(system)
        return ascii_lowercase[at] if at < len(ascii_lowercase) else f"({at + 1})"

    def mark(self, system: str, measure: str) -> str:
        """Return marks of a mean: ``†`` or ``‡`` by the baseline, else letters of lower systems."""
        found = []
        for pair in self.pairs:
            if pair.measure != measure or pair.p_corrected >= self.sure.level:
                continue
            if self.baseline and pair.system == system:
                found.append(HIGHER if pair.difference > 0 else LOWER)
            elif not self.baseline and system in {pair.system, pair.other}:
                higher, lower = pair[:2] if pair.difference > 0 else pair[1::-1]
                found += [self.letter(lower)] if system == higher else []
        return "".join(sorted(found))

    @property
    def note(self) -> str:
        """Explain what marks mean, how they were tested, and what was left out."""
        drawn = self.test in {"permutation", "bootstrap"}
        resamples = f" ({self.sure.resamples:,} resamples, seed {self.sure.seed})"
        how = f"{NAMES[self.test]}{resamples if drawn else ''}, two-sided"
        marks = (
            f"{HIGHER} higher, {LOWER} lower than {self.baseline}"
            if self.baseline
            else "Letters name the systems that a mean is significantly higher than"
        )
        lost = [f"{system} {count:,}" for system, count in self.lost.items() if count]
        left = f" Queries without a value: {', '.join(lost)}." if lost else ""
        family = f"after {CORRECTED[self.correction]} over {many(len(self.pairs), 'test')}"
        if self.test == "tukey":
            family = "over all pairs of each measure, not corrected over measures"
        return f"{marks}: {how}, p below {self.sure.level:.3g} {family}.{left}"

    @property
    def caption(self) -> str:
        """Name what the means are over."""
        counts = sorted({len(of[self.measures[0]]) for of in self.values.values()})
        least = f"{counts[0]:,} to " if len(counts) > 1 else ""
        return f"Means over {least}{many(counts[-1], 'query')}, sorted by {self.measures[0]}"

    def to_frame(self) -> pd.DataFrame:
        """Return the means, a row for each system; ``.to_latex()`` and others are pandas' own."""
        import pandas as pd

        rows = [[self.mean(one, of) for of in self.measures] for one in self.systems]
        index = pd.Index(self.systems, name="system")
        return pd.DataFrame(rows, index=index, columns=list(self.measures))

    def tests(self) -> pd.DataFrame:
        """Return a row for each pair and measure."""
        import pandas as pd

        return pd.DataFrame(self.pairs, columns=SystemPair._fields)

    def to_csv(self) -> str:
        """Write means and pairs, unrounded: a row for each system and measure or pair."""
        means = [
            {"system": one, "measure": of, "queries": len(self.values[one][of]),
             "mean": self.mean(one, of), "mark": self.mark(one, of)}
            for one in self.systems for of in self.measures
        ]  # fmt: skip
        rows = [*means, *(one._asdict() for one in self.pairs)]
        return to_csv([*dict.fromkeys((*means[0], *SystemPair._fields))], rows)

    def _rows(self, bold: str = "{}", letters: str = " {}") -> list[list[str]]:
        """Write a row for each system: its name, and means with their marks."""
        best = {of: self.best(of) for of in self.measures}

        def cell(system: str, of: str) -> str:
            mean, mark = self.mean(system, of), self.mark(system, of)
            if mean is None:
                return "no value"
            top = best[of]
            is_best = top is not None and math.isclose(mean, top, rel_tol=TIED, abs_tol=TIED)
            shown = bold.format(number(mean)) if is_best else number(mean)
            return shown + (letters.format(mark) if mark and mark.isascii() else mark)

        return [
            [
                system if self.baseline else f"{self.letter(system)} {system}",
                *(cell(system, of) for of in self.measures),
            ]
            for system in self.systems
        ]

    def to_markdown(self) -> str:
        """Write the table; the best mean of each measure is bold."""
        rows = [
            ["", *map(markdown, self.measures)],
            ["---", *["---:"] * len(self.measures)],
            *([markdown(name), *cells] for name, *cells in self._rows("**{}**")),
        ]
        body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        return f"{markdown(self.caption)}\n\n{body}\n\n{markdown(self.note)}\n"

    def to_latex(self) -> str:
        """Write a ``table`` for the package booktabs; the best mean of each measure is bold."""

        def escaped(text: str) -> str:
            return one_line(text).translate(LATEX)

        rows = (
            " & ".join([escaped(name), *(cell.translate(SIGNS) for cell in cells)])
            for name, *cells in self._rows(r"\textbf{{{}}}", "$^{{{}}}$")
        )
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

    def blocks(self) -> Iterable[doc.Block]:
        """Return the table and what its marks mean."""
        yield doc.table(self.caption, ("", *self.measures), self._rows())
        yield doc.Text(self.note)

    def __repr__(self) -> str:
        return self.to_markdown()


def table(
    runs: Mapping[str, RunLike | Sequence[RunLike]] | Sequence[RunLike],
    qrels: QrelsLike,
    measures: Sequence[str | Measure] = ("nDCG@10", "RR@10"),
    *,
    baseline: str = "",
    test: Test = "permutation",
    correction: Correction = "holm",
    missing: str = "left out",
    sure: Inference = USUAL,
) -> Table:
    """Score runs and test their differences.

    ``runs`` are runs as ``load_run`` reads them, or a mapping of names to a run or to several runs
    of one system. Seeds are averaged query by query, and folds are joined. ``measures`` are names
    as ir-measures writes them, or its objects. Without ``baseline`` all pairs are tested. A judged
    query that a run does not have is left out of its means and tests, or counts as answered with
    nothing where ``missing`` is ``"empty"``, as ``trec_eval -c`` does. ``correction`` is over all
    tests of the table; Tukey's test corrects for all pairs of one measure instead.

    Raises:
        UnknownName: a measure, test, correction or the baseline is unknown.
        EvidenceError: two systems have one name, or fewer than two queries are shared.
        BadFile, RunError, DatasetError, InvalidArm: as ``load_run``, ``load_qrels`` and ``score``.
    """
    for what, given, known in (
        ("test", test, NAMES),
        ("correction", correction, CORRECTED),
        ("rule of missing queries", missing, ("left out", "empty")),
    ):
        if given not in known:
            raise UnknownName(what, given, known)
    judged = load_qrels(qrels)
    empty = judged.query_ids if missing == "empty" else ()
    names = tuple(dict.fromkeys(map(str, measures)))
    systems = [*_systems(runs, empty)]
    if not names or not systems:
        raise EvidenceError("a table needs a run and a measure; name them")
    found: dict[str, dict[str, dict[str, float]]] = {}
    lost: dict[str, int] = {}
    for name, several in systems:
        if name in found:
            raise EvidenceError(f"two systems are named {name}. Name them: NAME=FILE")
        each = [score(run, judged, names).scores for run in several]
        found[name] = {m: _together([one[m].by_query for one in each]) for m in names}
        undefined = {q for one in each for q in one[names[0]].unanswered}
        lost[name] = len(undefined - found[name][names[0]].keys())
    return Table.of(found, lost, baseline=baseline, test=test, correction=correction, sure=sure)


def _systems(
    runs: Mapping[str, RunLike | Sequence[RunLike]] | Sequence[RunLike], empty: Iterable[str]
) -> Iterable[tuple[str, list[Run]]]:
    """Read the runs of each system."""
    if isinstance(runs, str | Path | Run):
        runs = [runs]
    if not isinstance(runs, Mapping):
        for run in runs:
            found = load_run(run, empty=empty)
            yield found.arm, [found]
        return
    for name, given in runs.items():
        yield checked("a system", name), [load_run(one, name, empty=empty) for one in _each(given)]


def _each(given: RunLike | Sequence[RunLike]) -> Sequence[RunLike]:
    """Return the runs of one system; a sequence may also hold the lines of a single one."""
    if isinstance(given, list | tuple):
        several = [one for one in given if isinstance(one, str | Path | Run | Mapping)]
        if len(several) == len(given):
            return several
    return [cast("RunLike", given)]


def _together(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Average values of seeds by query; a query of one fold alone keeps its value."""
    by: dict[str, list[float]] = {}
    for one in each:
        for query_id, value in one.items():
            by.setdefault(query_id, []).append(value)
    return {query_id: sum(values) / len(values) for query_id, values in by.items()}


def _mean(values: Mapping[str, float], without: T) -> float | T:
    return float(np.mean([*values.values()])) if values else without


def _tested(
    found: Values, pairs: Sequence[tuple[str, str]], test: Test, *,
    sure: Inference, clusters: Mapping[str, str], ends: bool,
) -> list[SystemPair]:  # fmt: skip
    """Test every pair by every measure over the queries that both have; Tukey's, that all have."""
    tested: list[SystemPair] = []
    systems = tuple(found)
    for measure in (one for one in found[systems[0]] if not one.startswith(COUNTED)):
        of, span = {one: found[one][measure] for one in systems}, span_of_difference(measure)
        alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        for pair in pairs:
            known = (of[one].keys() for one in (systems if test == "tukey" else pair))
            alike.setdefault(tuple(sorted(set.intersection(*map(set, known)))), []).append(pair)
        for shared, some in alike.items():
            named = systems if test == "tukey" else tuple(dict.fromkeys(chain(*some)))
            values = np.array([[of[one][q] for one in named] for q in shared])
            at = [(named.index(one), named.index(other)) for one, other in some]
            together = codes(shared, clusters)
            try:
                p = p_values(values, at, test, sure, together).tolist()
            except EvidenceError as exc:
                raise EvidenceError(f"{measure} of {', '.join(named)}: {exc}") from exc
            apart = np.column_stack([values[:, left] - values[:, right] for left, right in at])
            sides: Sequence[Estimate | None] = [None] * len(some)
            if ends:
                sides = interval_each(apart, span=span, inference=sure, clusters=together)
            for pair, column, value, side in zip(some, apart.T, p, sides, strict=True):
                low, high = (side.low, side.high) if side else (None, None)
                mean, size = float(column.mean()), effect_size(column)
                tested.append(
                    SystemPair(*pair, measure, len(shared), mean, low, high, size, value, value)
                )
    return tested


def p_values(
    values: Floats, pairs: Pairs, test: Test, sure: Inference, clusters: Codes | None = None
) -> Floats:
    """Compute the two-sided p-value of each pair of systems, shape (pairs,), uncorrected.

    ``values`` has shape (queries, systems), without gaps. Tukey's test corrects for all pairs of
    systems by itself. Queries of one code in ``clusters`` flip together in the permutation test.
    """
    if len(values) < FEWEST:
        raise EvidenceError(
            "a test needs two queries that all have a value for. Leave one of them out"
        )
    if test == "tukey":
        return tukey(values, pairs)
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    differences = values[:, columns[:, 0]] - values[:, columns[:, 1]]
    if test == "bootstrap":
        return bootstrap(differences, sure)
    if test == "permutation":
        how = {"resamples": sure.resamples, "seed": sure.seed}
        return np.array(sign_flip_each(differences, **how, clusters=clusters))
    from scipy.stats import ttest_1samp, wilcoxon

    if test == "wilcoxon":
        return np.array([
            wilcoxon(column).pvalue if np.any(column) else 1.0 for column in differences.T
        ])
    moved = np.ptp(differences, axis=0) > 0
    found = np.where(differences.mean(0) == 0, 1.0, 0.0)
    if moved.any():
        found[moved] = ttest_1samp(differences[:, moved], 0.0).pvalue
    return found


def correct(found: Floats, correction: Correction) -> Floats:
    """Adjust p-values of one family, shape (tests,)."""
    if correction == "holm":
        return adjusted(found)
    return fdr_adjusted(found) if correction == "bh" else found


def effect_size(differences: Floats) -> float:
    """Compute the mean difference in standard deviations of the differences (Cohen's d_z).

    0 where all differences are 0; infinite where all are equal and not 0.
    """
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if spread == 0:
        return float(np.copysign(np.inf, mean)) if mean else 0.0
    return mean / spread


def tukey(values: Floats, pairs: Pairs) -> Floats:
    """Compute p-values of Tukey's honestly significant differences, systems by queries.

    The error is that of a two-way layout without replication, as each system answers a query once.
    Carterette, "Multiple testing in statistical analysis of systems-based information retrieval
    experiments", TOIS 30, 2012.
    """
    from scipy.stats import studentized_range

    queries, systems = values.shape
    residual = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
    freedom = (queries - 1) * (systems - 1)
    error = float((residual**2).sum()) / freedom
    means = values.mean(0)
    apart = np.array([abs(means[one] - means[other]) for one, other in pairs])
    if error == 0:
        return np.where(apart == 0, 1.0, 0.0)
    found: Floats = studentized_range.sf(apart / np.sqrt(error / queries), systems, freedom)
    return np.clip(found, 0.0, 1.0)


def bootstrap(differences: Floats, sure: Inference) -> Floats:
    """Compute p-values of the studentized paired bootstrap test, shape (pairs,).

    Sakai, "Evaluating evaluation metrics based on the bootstrap", SIGIR 2006. Differences are
    shifted to mean 0 and resampled by query. The p-value is the share of resamples whose t is at
    least as large as that observed, with one added to both counts.
    """
    count = len(differences)
    mean, spread = differences.mean(0), differences.std(0, ddof=1)
    shifted = differences - mean
    constant = spread <= np.finfo(float).eps * np.abs(differences).max(0)
    observed = np.abs(mean) / np.where(constant, 1.0, spread)
    rng = np.random.default_rng(sure.seed)
    beyond, left = np.zeros(differences.shape[1]), sure.resamples
    while left:
        some = min(left, max(1, (1 << 22) // count))
        times = rng.multinomial(count, np.full(count, 1 / count), size=some).astype(np.float64)
        sums, squares = times @ shifted / count, times @ shifted**2 / count
        deviation = np.sqrt(np.maximum(squares - sums**2, 0.0) * count / (count - 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = np.where(
                deviation > 0, np.abs(sums) / deviation, np.where(sums == 0, 0, np.inf)
            )
        beyond += (drawn >= observed).sum(0)
        left -= some
    found = (beyond + 1) / (sure.resamples + 1)
    return np.where(constant, np.where(mean == 0, 1.0, 1 / (sure.resamples + 1)), found)
