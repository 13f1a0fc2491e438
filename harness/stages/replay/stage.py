"""Stage ``replay``: ask one arm every query of one data set, twice."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
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
from harness.stages.custody.freshness import asked_since, index_files, note_replayed
from harness.stages.custody.proof import check_corpus, check_same, note_run, read_manifest
from harness.stages.index import check_settings, sources
from harness.stages.layout import Layout
from harness.stages.params import ReplayParams
from harness.stages.replay.attribution import check_served
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
            other documents or with other settings; or it answered no query at all, or another
            engine answered one for it.
        EvidenceError: it was asked for another number of hits than ``params`` says.
    """
    began = datetime.now(UTC)
    arm = arms.load(arm_name, cache)
    wanted = read_manifest(layout, arm.name)
    counted = index_files(layout, arm.name)
    first = _ask(layout, arm, wanted, params, params.seed)
    if not (first.status == Status.ANSWERED).any():
        raise InvalidArm(
            f"{arm.name}: not one of {len(first)} queries was answered;"
            f" the first error is: {next(filter(None, first.errors), 'none')}"
        )
    again = _ask(layout, arm, wanted, params, params.seed + AGAIN_SEED_STEP)
    write_run(again, layout.again(arm.name))
    write_run(first, layout.run(arm.name))
    note_run(layout, arm.name)
    since = asked_since(began, layout.parts(arm.name))
    note_replayed(layout, arm.name, since, index_sha256=counted)
    if not keep_parts:
        shutil.rmtree(layout.parts(arm.name), ignore_errors=True)
    return first


def _ask(layout: Layout, arm: Arm, wanted: Manifest, params: ReplayParams, seed: int) -> Run:
    data = Prepared.open(layout.data)
    queries = data.queries()
    source = {*Path(engines.__path__[0]).rglob("*.py"), *sources(arm)}
    check_settings(layout, arm)
    check_corpus(layout, arm.name, wanted, data)
    with (
        arm.open(layout.index(arm.name)) as searcher,
        progress(f"asking {arm.name}", len(queries)) as advance,
    ):
        check_same(layout, arm.name, wanted, searcher.manifest)
        tally = Tally(searcher)
        run = drive(
            arm.name,
            tally,
            queries,
            k=params.k,
            time_limit_s=params.time_limit_s,
            seed=seed,
            parts=layout.parts(arm.name) / str(seed),
            code_sha256=of_files(source),
            advance=advance,
        )
        check_depth(run, tally, params.k)
        check_served(run, searcher, queries)
        return run
