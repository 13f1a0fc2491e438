"""What a search function shows of queries, as a run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from traceback import extract_tb
from typing import SupportsFloat, TypeAlias

from harness.api.data import load_run
from harness.core.engine import Hit
from harness.core.errors import RunError
from harness.core.printable import one_line
from harness.core.run import Row, Run, Status

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


def shown_by(search: Search, queries: Mapping[str, str], name: str) -> Run:
    """Run every query on a function; an exception becomes the error of that query."""
    return Run.of(name, [_row(search, query_id, text, name) for query_id, text in queries.items()])


def _row(search: Search, query_id: str, text: str, name: str) -> Row:
    where = f"{name}: query {query_id}"
    try:
        given: object = search(text)
        if isinstance(given, Iterable) and not isinstance(given, Mapping | str | bytes):
            given = list(given)
    except Exception as exc:  # noqa: BLE001  the query failed; the others go on
        frames = extract_tb(exc.__traceback__)
        at = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        said = one_line(f"{type(exc).__name__}: {exc}{at}", ERROR)
        return Row(query_id, Status.FAILED, error=said)
    if isinstance(given, Mapping):
        (row,) = load_run({query_id: given}, name).rows()
        return row
    if not isinstance(given, list):
        raise RunError(f"{where}: gives a {type(given).__name__}. {SHAPES}")
    return Row(query_id, Status.ANSWERED, _hits(given, where))


def _hits(given: Sequence[object], where: str) -> list[Hit]:
    """Read a ranking; ids without scores score by their rank."""
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
