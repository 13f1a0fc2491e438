"""Stage ``replay``: ask one arm every query of one data set, twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import engines
from engines.contract import arms
from engines.contract.arms import Arm
from harness.core.digest import of_files
from harness.core.engine import Manifest
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.run import Run, Status
from harness.corpus.prepared import Prepared
from harness.corpus.runs import write_run
from harness.replay.drive import drive
from harness.stages.layout import Layout
from harness.stages.params import ReplayParams
from harness.stages.progress import progress

AGAIN_SEED_STEP = 1
"""The second replay asks in another order."""


def replay(
    layout: Layout, arm_name: str, cache: Path, params: ReplayParams, *, keep_parts: bool = False
) -> Run:
    """Write the arm's run and its second run, which tells how steady the arm is by itself.

    With ``keep_parts`` a second call asks nothing again that was answered before; for a caller
    that has more to do and may be killed meanwhile.

    Raises:
        InvalidArm: the arm's index is not the one that stage ``index`` handed on, or it answered
            no query at all.
    """
    arm = arms.load(arm_name, cache)
    wanted = read_manifest(layout, arm.name)
    first = _ask(layout, arm, wanted, params, params.seed)
    if not (first.status == Status.ANSWERED).any():
        raise InvalidArm(
            f"{arm.name}: not one of {len(first)} queries was answered;"
            f" the first error is: {next(filter(None, first.errors), 'none')}"
        )
    again = _ask(layout, arm, wanted, params, params.seed + AGAIN_SEED_STEP)
    write_run(again, layout.again(arm.name))
    write_run(first, layout.run(arm.name))
    if not keep_parts:
        shutil.rmtree(layout.parts(arm.name), ignore_errors=True)
    return first


def read_manifest(layout: Layout, arm: str) -> Manifest:
    """Read what stage ``index`` handed on.

    Raises:
        IndexNotReady: the stage did not run for this arm.
    """
    path = layout.manifest(arm)
    if not path.is_file():
        raise IndexNotReady(
            f"{path}: the arm {arm} has no index."
            f" Run: harness index --dataset {layout.root.name} --arm {arm}"
        )
    return Manifest(**json.loads(path.read_text(encoding="utf-8")))


def check_same(layout: Layout, arm: str, wanted: Manifest, opened: Manifest) -> None:
    """Compare an opened index with what stage ``index`` handed on.

    Raises:
        IndexNotReady: it is another index.
    """
    if opened != wanted:
        raise IndexNotReady(
            f"{layout.index(arm)}: is not the index that {layout.manifest(arm)} describes"
            f" ({opened.fingerprint[:12]} instead of {wanted.fingerprint[:12]})."
            f" Run: harness index --dataset {layout.root.name} --arm {arm}"
        )


def _ask(layout: Layout, arm: Arm, wanted: Manifest, params: ReplayParams, seed: int) -> Run:
    queries = Prepared.open(layout.data).queries()
    source = [*Path(engines.__path__[0]).rglob("*.py"), *arm.path.parent.glob(f"{arm.name}.*")]
    with (
        arm.engine.open(layout.index(arm.name)) as searcher,
        progress(f"asking {arm.name}", len(queries)) as advance,
    ):
        check_same(layout, arm.name, wanted, searcher.manifest)
        return drive(
            arm.name,
            searcher,
            queries,
            k=params.k,
            time_limit_s=params.time_limit_s,
            seed=seed,
            parts=layout.parts(arm.name) / str(seed),
            code_sha256=of_files(source),
            advance=advance,
        )
