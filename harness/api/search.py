"""Search functions compared on queries, and lists of several interleaved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, SupportsFloat, TypeAlias

from harness.api.comparison import Difference, difference, near_duplicates, score, table
from harness.api.data import QrelsLike, load_qrels, load_run
from harness.clicks.credit import (
    Click,
    ClickLog,
    ListMixer,
    Preferences,
    ShownList,
    preferences,
    read,
)
from harness.core.engine import Hit
from harness.core.errors import EvidenceError, InvalidArm, RunError
from harness.core.folders import CLICKS, claim
from harness.core.names import checked
from harness.core.printable import one_line
from harness.core.run import Row, Run, Status
from harness.core.scores import Paired
from harness.migrate.ledger import Switch
from harness.report.rounding import interval, number, p_value, signed
from harness.stats.inference import Inference

if TYPE_CHECKING:
    import pandas as pd


Ranked: TypeAlias = (
    Iterable[str] | Iterable[tuple[str, SupportsFloat]] | Mapping[str, SupportsFloat]
)
"""Document ids, best first, with or without scores, or scores by document id."""
Search: TypeAlias = Callable[[str], Ranked]
ERROR = 300
"""Characters kept of a function's exception."""
SHAPES = (
    "Return document ids with the best first, (id, score) pairs with the best first, or a mapping"
    " of id to score"
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EngineComparison:
    """Results of two search functions, and their differences by each measure.

    The numbers are those that gates use: per-query values, paired differences and their intervals.
    No gate is judged, because functions cannot prove which engine answered.
    """

    control: Run
    candidate: Run
    differences: Mapping[str, Difference]
    """Candidate minus control, by measure as it was named."""

    @property
    def failures(self) -> Mapping[str, Mapping[str, str]]:
        """Exceptions of each function, by its name and the query's id."""
        return {
            run.arm: {q: error for q, error in zip(run.query_ids, run.errors, strict=True) if error}
            for run in (self.control, self.candidate)
        }

    def worse(self, measure: str) -> tuple[str, ...]:
        """Return the ids of queries that the candidate answers worse, the largest loss first.

        Raises:
            KeyError: the measure was not compared.
        """
        return self.differences[measure].worse

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each measure: means, difference, interval, p-value."""
        import pandas as pd

        rows = [
            {
                "measure": measure,
                "control": float(found.paired.control.mean()),
                "candidate": float(found.paired.candidate.mean()),
                "difference": found.estimate.value,
                "low": found.estimate.low,
                "high": found.estimate.high,
                "p": found.p_value,
                "queries": found.estimate.n,
                "better": len(found.better),
                "worse": len(found.worse),
                "unpaired": len(found.paired.unpaired),
            }
            for measure, found in self.differences.items()
        ]
        return pd.DataFrame(rows).set_index("measure")

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.differences.values())) + self._failed(". ", "\n")

    def _repr_html_(self) -> str:
        rows = [
            (
                measure,
                number(float(found.paired.control.mean())),
                number(float(found.paired.candidate.mean())),
                f"{signed(found.estimate.value)} {interval(found.estimate)}",
                p_value(found.p_value),
                f"{found.estimate.n:,}",
                f"{len(found.better):,} / {len(found.worse):,}",
            )
            for measure, found in self.differences.items()
        ]
        names = self.control.arm, self.candidate.arm
        header = ("measure", *names, "difference", "p", "queries", "better/worse")
        return table(f"{names[1]} compared with {names[0]}", header, rows, self._failed("; ", ""))

    def _failed(self, between: str, before: str) -> str:
        """Count the queries that failed or showed a document twice; empty where none did."""
        said = [f"{name} failed on {len(of):,}" for name, of in self.failures.items() if of]
        twice = {run.arm: int((run.duplicates > 0).sum()) for run in (self.control, self.candidate)}
        said.extend(
            f"{name} showed a document twice on {count:,}, and only the first place counts"
            for name, count in twice.items()
            if count
        )
        return before + between.join(said) if said else ""


def compare_engines(
    control: Search,
    candidate: Search,
    queries: Mapping[str, str],
    qrels: QrelsLike,
    measures: Sequence[str],
    *,
    sure: Inference,
    names: tuple[str, str] = ("control", "candidate"),
    intents: Mapping[str, str] | None = None,
) -> EngineComparison:
    """Run every query on two functions, and compare their results by every measure.

    A function takes the text of a query and gives document ids with the best first, ``(id, score)``
    pairs with the best first, or a mapping of id to score. ``queries`` are texts by id; ``qrels``
    is anything that ``load_qrels`` reads. A query on which a function raises has no value for it.
    ``intents`` is as in ``compare``; without it, near-duplicate queries count once. Times are not
    measured: for that, and for gates, bring an engine (``harness run``).

    Raises:
        RunError: a function returns another form, a score is not finite, or the order is wrong.
        BadName: one of ``names`` is invalid.
        EvidenceError: queries or measures are missing, or fewer than two queries have a value in
            both.
        InvalidArm: a function raises on every query.
        UnknownName: a measure is unknown.
        BadFile, DatasetError: as ``load_qrels``.
    """
    if not isinstance(queries, Mapping):
        raise EvidenceError(
            f"queries is a {type(queries).__name__}; give a mapping of query id to text"
        )
    measures = [measures] if isinstance(measures, str) else measures
    if not queries or not measures:
        raise EvidenceError("nothing to compare: give a query in `queries` and one in `measures`")
    if names[0] == names[1]:
        raise EvidenceError(f"two engines are named {names[0]}; give two `names`")
    judged = load_qrels(qrels)
    if queries.keys().isdisjoint(judged.query_ids):
        raise EvidenceError(
            f"none of the {len(queries)} queries has a judgement: queries are named as"
            f" {min(queries)!r}, judgements as {min(judged.query_ids)!r}"
        )
    first, second = (checked("an arm", name) for name in names)
    runs = shown_by(control, queries, first), shown_by(candidate, queries, second)
    left, right = (score(run, judged, measures, queries=tuple(queries)).scores for run in runs)
    together = near_duplicates(queries) if intents is None else intents
    found = {
        measure: difference(Paired.of(left[measure], right[measure]), names, sure, together)
        for measure in measures
    }
    return EngineComparison(*runs, found)


def shown_by(search: Search, queries: Mapping[str, str], name: str) -> Run:
    """Run every query on a function; an exception becomes the error of that query.

    Raises:
        RunError: it returns anything but documents in order.
    """
    return Run.of(name, [_row(search, query_id, text, name) for query_id, text in queries.items()])


def _row(search: Search, query_id: str, text: str, name: str) -> Row:
    where = f"{name}: query {query_id}"
    try:
        given: object = search(text)
        if isinstance(given, Iterable) and not isinstance(given, Mapping | str | bytes):
            given = list(given)
    except Exception as exc:  # noqa: BLE001  the query failed; the others go on
        return Row(query_id, Status.FAILED, error=one_line(_raised(exc), ERROR))
    if isinstance(given, Mapping):
        (row,) = load_run({query_id: given}, name).rows()
        return row
    if not isinstance(given, list):
        raise RunError(f"{where}: gives a {type(given).__name__}. {SHAPES}")
    return Row(query_id, Status.ANSWERED, _hits(given, where))


def _raised(exc: Exception) -> str:
    """Describe what a function raised, and on which line."""
    frames = extract_tb(exc.__traceback__)
    at = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(exc).__name__}: {exc}{at}"


def _hits(given: Sequence[object], where: str) -> list[Hit]:
    """Read a ranking; ids without scores score by their rank.

    Raises:
        RunError: an item is neither an id nor a pair, or scores more than the one before it.
    """
    hits: list[Hit] = []
    for rank, item in enumerate(given, start=1):
        pair = (item, 1.0 / rank) if isinstance(item, str) else item
        if not (isinstance(pair, tuple) and len(pair) == len(("id", "score"))):
            raise RunError(f"{where}: rank {rank} is a {type(item).__name__}. {SHAPES}")
        doc_id, score = pair
        if isinstance(doc_id, int):
            raise RunError(f"{where}: rank {rank} has the number {doc_id}. Give str({doc_id})")
        if not isinstance(doc_id, str) or not isinstance(score, Real) or isinstance(score, bool):
            raise RunError(f"{where}: rank {rank} is {item!r}. {SHAPES}")
        value = float(score)
        if hits and value > hits[-1].raw_score:
            raise RunError(
                f"{where}: rank {rank} scores {score}, more than the rank before it. Sort by score,"
                " or return a mapping of id to score, which is sorted here"
            )
        hits.append(Hit(doc_id, 1.0 / rank, value))
    return hits


class Interleaver:
    """Search functions by name, the one that serves first.

    ``search`` gives that function's list, or one mixed by team draft while the switch is on: the
    last ``harness migrate interleave`` in the folder ``ledger`` named these very arms. Every list
    and click is written into the folder ``log``. A function that raises costs no user a list, if it
    is not the one that serves. May be used by several threads.

    Raises:
        EvidenceError: fewer than two functions are given.
        BadName: one has an invalid name.
        NotOurs: the folder ``log`` holds something else.
    """

    def __init__(
        self, arms: Mapping[str, Search], *, log: str | Path, ledger: str | Path, seed: int
    ) -> None:
        if len(arms) < len(("control", "candidate")):
            raise EvidenceError("give two search functions or more, the one that serves first")
        self._arms = {checked("an arm", name): search for name, search in arms.items()}
        self._names = tuple(self._arms)
        claim(Path(log), CLICKS, reads=[Path(ledger)])
        self._log = ClickLog(Path(log))
        self._mixer = ListMixer(self._log, seed)
        self._switch = Switch(Path(ledger), self._names)

    def search(self, text: str, k: int = 10, *, user: str = "") -> ShownList:
        """Return the list to show, of at most ``k`` documents; its ``id`` is for ``click``.

        ``user`` is the same in all sessions of one user. Lists without it support no preference.

        Raises:
            InvalidArm: the function that serves raised, or gives something else.
        """
        names = self._names if self._switch() else self._names[:1]
        rankings: list[tuple[str, ...]] = []
        failed = ""
        for name in names:
            ranking, error = self._ranking(name, text)
            if error and not rankings:
                raise InvalidArm(error)
            failed = failed or error
            rankings.append(ranking)
        return self._mixer.show(names, rankings, k, query=text, user=user, failed=failed)

    def _ranking(self, name: str, text: str) -> tuple[tuple[str, ...], str]:
        """Return the ranking of a function, or what is wrong with it."""
        try:
            (row,) = shown_by(self._arms[name], {"shown": text}, name).rows()
        except RunError as exc:
            return (), str(exc)
        ranking = tuple(dict.fromkeys(hit.doc_id for hit in row.hits))
        return ranking, f"{name}: {row.error}" if row.error else ""

    def click(self, shown_id: str, document: str) -> None:
        """Note that a document of a list was clicked."""
        self._log.add(Click(shown_id, document))

    def close(self) -> None:
        """Close the log."""
        self._log.close()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Interleaving:
    """What users preferred, by candidate."""

    found: Preferences

    def frame(self) -> pd.DataFrame:
        """Return a frame with a row for each candidate, unrounded."""
        import pandas as pd

        rows = [
            {
                "candidate": arm, "wins": one.wins, "losses": one.losses, "ties": one.ties,
                "preference": one.estimate.value, "low": one.estimate.low,
                "high": one.estimate.high,
            }
            for arm, one in self.found.candidates.items()
        ]  # fmt: skip
        return pd.DataFrame(rows).set_index("candidate")

    def __repr__(self) -> str:
        return "\n".join(
            f"{arm} against {self.found.control}: {signed(one.estimate.value)}"
            f" {interval(one.estimate)} of users, {one.wins:,} to {one.losses:,},"
            f" {one.ties:,} ties"
            for arm, one in self.found.candidates.items()
        )

    def _repr_html_(self) -> str:
        rows = [
            (
                arm,
                f"{one.wins:,}",
                f"{one.losses:,}",
                f"{one.ties:,}",
                f"{signed(one.estimate.value)} {interval(one.estimate)}",
            )
            for arm, one in self.found.candidates.items()
        ]
        header = ("candidate", "wins", "losses", "ties", "preference")
        return table(f"Users who prefer to {self.found.control}", header, rows)


def load_clicks(folder: str | Path, *, confidence: float) -> Interleaving:
    """Read what an ``Interleaver`` wrote, and say which engine users preferred.

    Raises:
        BadFile: the log is missing or malformed.
        EvidenceError: no list was mixed, lists of different arms were, or too few users are known.
    """
    return Interleaving(preferences(read(Path(folder)), confidence=confidence))
