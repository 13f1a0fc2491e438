"""Stage ``replay``: ask one arm every query of one data set, twice."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import engines
from engines import registry as arms
from engines.registry import Arm
from harness.core.digest import of_files
from harness.core.engine import Manifest
from harness.core.errors import InvalidArm
from harness.core.progress import progress
from harness.core.run import Run, Status
from harness.corpus.prepared import Prepared
from harness.corpus.runs import write_run
from harness.replay.drive import drive
from harness.replay.fresh import Advance
from harness.stages.custody.freshness import asked_since, index_files, note_replayed
from harness.stages.custody.proof import check_corpus, check_same, note_run, read_manifest
from harness.stages.index import check_index, sources
from harness.stages.layout import Layout
from harness.stages.params import ReplayParams
from harness.stages.replay.ahead import ahead
from harness.stages.replay.attribution import check_served
from harness.stages.replay.opened import OpenedIndex
from harness.stages.replay.tally import Tally, check_depth

AGAIN_SEED_STEP = 1
"""The second replay asks in another order."""


def replay(
    layout: Layout, arm_name: str, cache: Path, params: ReplayParams, *, keep_parts: bool = False
) -> Run:
    """Write the arm's run and its second run, which tells how steady the arm is by itself.

    With ``keep_parts`` a second call asks nothing again that was answered before; for a caller
    that has more to do and may be killed meanwhile.

    Raises:
        InvalidArm: the arm's index is not the one that stage ``index`` handed on, or was built of
            other documents or with other settings. Or it answered no query at all, or another
            engine answered one for it.
        EvidenceError: another number of hits was requested than ``params`` says.
    """
    began = datetime.now(UTC)
    arm = arms.load(arm_name, cache)
    wanted = read_manifest(layout, arm.name)
    counted = index_files(layout, arm.name)
    queries = len(Prepared.open(layout.data).queries())
    otherwise = params.model_copy(update={"seed": params.seed + AGAIN_SEED_STEP})
    work = partial(_ask_alone, layout, str(arm.path), cache, otherwise)
    with ahead(arm, queries, work) as wait:
        with progress(f"asking {arm.name}", queries) as advance:
            first = _ask(layout, arm, wanted, params, advance, cache=cache)
        if not (first.status == Status.ANSWERED).any():
            raise InvalidArm(
                f"{arm.name}: not one of {len(first)} queries was answered;"
                f" the first error is: {next(filter(None, first.errors), 'none')}"
            )
        done = wait()
    with nullcontext(_untold) if done else progress(f"asking {arm.name} again", queries) as advance:
        again = _ask(layout, arm, wanted, otherwise, advance, cache=cache)
    write_run(again, layout.again(arm.name))
    write_run(first, layout.run(arm.name))
    note_run(layout, arm.name)
    since = asked_since(began, layout.parts(arm.name))
    note_replayed(layout, arm.name, since, index_sha256=counted)
    if not keep_parts:
        shutil.rmtree(layout.parts(arm.name), ignore_errors=True)
    return first


def _ask_alone(
    layout: Layout, arm: str, cache: Path, params: ReplayParams, advance: Advance
) -> None:
    """Do what ``_ask`` does, for the parts that it leaves."""
    wanted = read_manifest(layout, Path(arm).stem)
    _ask(layout, arms.load(arm, cache), wanted, params, advance, cache=cache)


def _untold(_: int) -> None:
    """Tell nobody."""


def _ask(
    layout: Layout,
    arm: Arm,
    wanted: Manifest,
    params: ReplayParams,
    advance: Advance,
    *,
    cache: Path,
) -> Run:
    data = Prepared.open(layout.data)
    queries = data.queries()
    source = {*Path(engines.__path__[0]).rglob("*.py"), *sources(arm)}
    check_index(layout, arm)
    check_corpus(layout, arm.name, wanted, data)
    with arm.open(layout.index(arm.name)) as searcher:
        check_same(layout, arm.name, wanted, searcher.manifest)
        tally = Tally(searcher)
        run = drive(
            arm.name,
            tally,
            queries,
            k=params.k,
            time_limit_s=params.time_limit_s,
            seed=params.seed,
            parts=layout.parts(arm.name) / str(params.seed),
            code_sha256=of_files(source),
            advance=advance,
            opener=OpenedIndex.of(layout, arm.path, cache, wanted) if arm.shared else None,
        )
        check_depth(run, tally, params.k)
        check_served(run, searcher, queries)
        return run
