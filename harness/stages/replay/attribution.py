"""Every answer of a run is the arm's own: what another engine answered is not scored as its."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.engine import Searcher, TakesParams
from harness.core.errors import InvalidArm
from harness.core.records import Query
from harness.core.run import Run, Status

PREFIX = 12


def check_served(run: Run, searcher: Searcher, queries: Sequence[Query]) -> None:
    """Hold the fingerprint of each answer against that of the open index.

    An engine that falls back is not a crash, and its answers look like any other; so one that says
    that it fell back has not run (stacks, decision 18). It is called once more to learn why.

    Raises:
        InvalidArm: another engine answered, or no one known.
    """
    own = searcher.manifest.fingerprint
    strange = [
        (query_id, who)
        for query_id, who, status in zip(run.query_ids, run.served_by, run.status, strict=True)
        if status == Status.ANSWERED and who != own
    ]
    if not strange:
        return
    query_id, who = strange[0]
    first = next(query for query in queries if query.query_id == query_id)
    raise InvalidArm(
        f"{run.arm}: {len(strange)} of {len(run)} answers were served by another engine than its"
        f" own, the first, of {query_id}, by {who[:PREFIX] or 'an unknown one'}:"
        f" {_why(searcher, first) or 'it does not say why'}. Nothing is scored. Fix that, build"
        f" the index again (harness index), and replay"
    )


def _why(searcher: Searcher, query: Query) -> str:
    """Ask once more, for the note."""
    try:
        if query.params and isinstance(searcher, TakesParams):
            return searcher.search_with(query.text, 1, query.params).note
        return searcher.search(query.text, 1).note
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001  a panic of a Rust engine is no Exception
        return f"{type(exc).__name__}: {exc}"
