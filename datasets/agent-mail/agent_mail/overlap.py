"""How many words of a query stand in what answers it: whether words alone decide a slice."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from agent_mail.terms import terms
from harness.core.records import Document, Qrels, Query


class Overlap(NamedTuple):
    """Means over the answerable queries of a slice; words are ``terms.terms``, sets of them.

    Documents of the best grade of a query count as its answers.
    """

    slice: str
    queries: int
    covered: float
    """Share of a query's words in an answer, mean over its answers."""
    jaccard: float
    """Words that query and answer share, over words of either, mean over the answers."""
    without: float
    """Share of queries that share no word with any of their answers."""
    contrast: float | None
    """``covered``, of documents judged not relevant; None where there are none."""


def measure(
    documents: Iterable[Document], queries: Iterable[Query], qrels: Qrels
) -> tuple[Overlap, ...]:
    """Measure each slice, by name; only the words of judged documents are kept."""
    judged = {row.doc_id for row in qrels.rows()}
    words = {d.doc_id: _words(f"{d.title}\n{d.text}") for d in documents if d.doc_id in judged}
    rows: dict[str, list[_Row]] = {}
    for query in queries:
        row = _row(_words(query.text), qrels.grades.get(query.query_id, {}), words)
        if row is not None:
            for name in query.slices:
                rows.setdefault(name, []).append(row)
    return tuple(_overlap(name, rows[name]) for name in sorted(rows))


def table(overlaps: Sequence[Overlap]) -> str:
    """Write the rows as a Markdown table."""
    lines = [
        "| slice | queries | words in answers | Jaccard | no word shared | in non-answers |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in overlaps:
        contrast = "" if row.contrast is None else f"{row.contrast:.2f}"
        lines.append(
            f"| {row.slice} | {row.queries} | {row.covered:.2f} | {row.jaccard:.3f} |"
            f" {row.without:.2f} | {contrast} |"
        )
    return "\n".join(lines) + "\n"


class _Row(NamedTuple):
    covered: float
    jaccard: float
    without: bool
    contrast: float | None


def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def _row(
    asked: frozenset[str], grades: Mapping[str, int], words: Mapping[str, frozenset[str]]
) -> _Row | None:
    best = max(grades.values(), default=0)
    answers = [words[d] for d, grade in grades.items() if grade == best and d in words]
    others = [words[d] for d, grade in grades.items() if grade <= 0 and d in words]
    if best <= 0 or not answers or not asked:
        return None
    shares = [len(asked & answer) / len(asked) for answer in answers]
    return _Row(
        fmean(shares),
        fmean(len(asked & answer) / len(asked | answer) for answer in answers),
        max(shares) == 0,
        fmean(len(asked & other) / len(asked) for other in others) if others else None,
    )


def _overlap(name: str, rows: list[_Row]) -> Overlap:
    contrasts = [row.contrast for row in rows if row.contrast is not None]
    return Overlap(
        name,
        len(rows),
        fmean(row.covered for row in rows),
        fmean(row.jaccard for row in rows),
        fmean(row.without for row in rows),
        fmean(contrasts) if contrasts else None,
    )
