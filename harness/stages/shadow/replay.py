"""Ask the arms of one data set, as they are now, what diverged in a live comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from engines import registry as arms
from harness.agreement.classes import Class
from harness.core.engine import Searcher
from harness.core.errors import EvidenceError, InvalidArm
from harness.core.progress import progress
from harness.core.run import Row, Status
from harness.corpus.prepared import Prepared
from harness.shadow.log import streams
from harness.shadow.log.record import query_key
from harness.shadow.watch.again import Again, Now, Question, again, questions
from harness.shadow.watch.suppressions import BLOCKING, Standing, Suppressions
from harness.stages.custody.proof import check_corpus, check_same, read_manifest
from harness.stages.index import check_index
from harness.stages.layout import Layout


@dataclass(frozen=True, slots=True)
class Replayed:
    """Every query that diverged, and what the suppression list says of how it ends now."""

    found: tuple[tuple[Again, Standing | None], ...]
    """None where it is fixed. In the order in which they were queried."""

    @property
    def blocking(self) -> tuple[Again, ...]:
        """Those that still diverge and that no one has accepted."""
        return tuple(one for one, standing in self.found if standing in BLOCKING)


def shadow_replay(
    folders: Sequence[Path],
    layout: Layout,
    control: str,
    candidate: str,
    cache: Path,
    *,
    suppressions: Suppressions,
    today: date,
    time_limit_s: float,
    limit: int | None = None,
) -> Replayed:
    """Ask both arms each query that diverged, at most ``limit`` of them.

    Raises:
        EvidenceError: the arms are the same.
        InvalidArm: an arm's index is not the one that stage ``index`` handed on, or was built of
            other documents or with other settings. Or it answers none, though queries diverged
            that it had answered.
        BadFile: a folder holds no log, or a line of it is not a record.
    """
    if control == candidate:
        raise EvidenceError(f"{control} was compared with itself; name two different arms")
    asked = questions(streams.read(folders[0], *folders[1:]).divergences)[:limit]
    with ExitStack() as stack:
        ours, theirs = (
            stack.enter_context(opened(layout, name, cache)) for name in (control, candidate)
        )
        advance = stack.enter_context(progress("asking again", len(asked)))
        limit_ns = round(time_limit_s * 1e9)
        found = []
        for one in again(asked, ours, theirs, time_limit_ns=limit_ns):
            found.append((one, _standing(one, suppressions, today)))
            advance(1)
    for name, rows in (
        (control, [one.control for one, _ in found]),
        (candidate, [one.candidate for one, _ in found]),
    ):
        _check_answering(name, rows, asked)
    return Replayed(tuple(found))


def _check_answering(name: str, rows: Sequence[Row], asked: Sequence[Question]) -> None:
    """Refuse an engine that answers nothing: that is a failure of it, and says nothing of hits."""
    answered = any(row.status is Status.ANSWERED for row in rows)
    if not answered and any(one.latest.outcome is not Class.ERROR for one in asked):
        error = next((row.error for row in rows if row.error), "none")
        raise InvalidArm(
            f"{name}: not one of {len(rows)} queries was answered; the first error is: {error}"
        )


@contextmanager
def opened(layout: Layout, name: str, cache: Path) -> Iterator[Searcher]:
    """Open an arm that is the one that its manifest describes.

    Raises:
        InvalidArm: its index is not the one that stage ``index`` handed on, or was built of other
            documents or with other settings.
    """
    arm = arms.load(name, cache)
    wanted = read_manifest(layout, arm.name)
    check_index(layout, arm)
    check_corpus(layout, arm.name, wanted, Prepared.open(layout.data))
    with arm.open(layout.index(arm.name)) as searcher:
        check_same(layout, arm.name, wanted, searcher.manifest)
        yield searcher


def _standing(one: Again, suppressions: Suppressions, today: date) -> Standing | None:
    if one.now is Now.FIXED:
        return None
    latest = one.question.latest
    key = query_key(latest.text, latest.params)
    return suppressions.standing(one.outcome, latest.slices, key, today=today)
