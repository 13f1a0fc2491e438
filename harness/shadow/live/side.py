"""One arm's side of a pair, in values that a file can hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.core.engine import Answer, Hit, Searcher, TakesParams
from harness.core.records import Query, Scalar
from harness.core.run import Status
from harness.replay.ask import BrokenAnswer, copied, observe
from harness.shadow.live.pair import Served
from harness.shadow.log.record import LoggedAnswer

LONGEST = 2_000
"""Characters of a note or of an error that are kept."""


def clean(text: str) -> str:
    """Give the text itself, or, where it holds half of a character, one that can be written."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def told(exc: BaseException) -> str:
    """Name an exception and what it says."""
    return clean(f"{type(exc).__name__}: {exc}")[:LONGEST]


class _Noted:
    """A searcher whose last note is kept."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self.manifest = searcher.manifest
        self.note = ""

    def search(self, text: str, k: int) -> Answer:
        return self._kept(self._searcher.search(text, k))

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        if isinstance(self._searcher, TakesParams):
            return self._kept(self._searcher.search_with(text, k, params))
        return self.search(text, k)

    def _kept(self, answer: Answer) -> Answer:
        note = getattr(answer, "note", "")
        self.note = note if isinstance(note, str) else ""
        return answer


def asked(
    searcher: Searcher,
    generation: Callable[[], str],
    question: tuple[str, int, Mapping[str, Scalar]],
    late_ns: int,
) -> LoggedAnswer:
    """Ask the candidate text, k and params on its own clock; whatever it does is a side.

    An arm that tells its generation with its answers only has none before the first one; then it
    is that of the answer.
    """
    text, k, params = question
    noted = _Noted(searcher)
    before = generation()
    seen = observe(noted, Query("", text, params=params), k, late_ns)
    after = generation()
    return LoggedAnswer(
        status=seen.row.status,
        hits=_written(seen.row.hits),
        served_by=clean(seen.row.served_by),
        note=clean(noted.note)[:LONGEST],
        error=clean(seen.row.error)[:LONGEST],
        elapsed_ns=seen.elapsed_ns,
        before=before or after,
        after=after,
    )


def not_asked(why: str) -> LoggedAnswer:
    """Give the side of a candidate that could not be queried."""
    return LoggedAnswer(Status.NOT_ASKED, (), "", "", why[:LONGEST], 0, "", "")


def given_up(status: Status, why: str, elapsed_ns: int) -> LoggedAnswer:
    """Give the side of a candidate that was lost over a query; its index is not known."""
    return LoggedAnswer(status, (), "", "", why[:LONGEST], elapsed_ns, "", "")


def of_control(served: Served, after: str) -> LoggedAnswer:
    """Give the control's side of what was served; an answer that breaks the contract failed."""
    shown, error = Answer((), ""), served.error
    try:
        shown = shown if error else copied(served.answer, served.k)
    except BrokenAnswer as exc:
        error = str(exc)
    return LoggedAnswer(
        status=Status.FAILED if error else Status.ANSWERED,
        hits=_written(shown.hits),
        served_by=clean(shown.served_by),
        note=clean(shown.note)[:LONGEST],
        error=clean(error)[:LONGEST],
        elapsed_ns=served.elapsed_ns,
        before=served.generation,
        after=after,
    )


def _written(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Give hits whose ids a file can hold."""
    return tuple(hit._replace(doc_id=clean(hit.doc_id)) for hit in hits)
