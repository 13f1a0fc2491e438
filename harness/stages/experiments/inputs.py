"""What an experiment rests on, by digest; and the note of one that rests on no policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.core import digest
from harness.core.batches.source import code_sha256
from harness.core.errors import BadFile
from harness.core.experiment import Clocked, Inputs, Setting
from harness.core.formats import json_file
from harness.corpus.inventory import Inventory
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.stages.experiments import log as experiment_log
from harness.stages.layout import Layout
from harness.stages.load.files import trials_of


def stock(layout: Layout) -> Inventory:
    """Take stock of the queries and judgements in ``layout``."""
    data = Prepared.open(layout.data)
    return Inventory.of(data.queries(), data.qrels())


def race_settings(layout: Layout) -> dict[str, Setting]:
    """Give how the race at hand was run, as its receipt says; nothing where none was.

    Raises:
        BadFile: the receipt is not one.
    """
    if not layout.race_receipt.is_file():
        return {}
    try:
        receipt: dict[str, Any] = json_file(layout.race_receipt)
        return {key: value for key, value in receipt.items() if isinstance(value, Setting)}
    except (ValueError, AttributeError) as exc:
        hint = f"Run: harness race --dataset {layout.root.name}"
        raise BadFile(layout.race_receipt, f"is not a receipt of a race ({exc})", hint) from exc


def inputs(
    layout: Layout,
    arms: Iterable[str],
    inventory: Inventory,
    *,
    policy: str | None,
    seeds: Mapping[str, int],
    raced: bool = True,
    loaded: bool = False,
) -> Inputs:
    """Give the digests of all that an experiment with ``arms`` rests on.

    ``policy`` is the digest of its file, ``seeds`` are those drawn by, beside the race's.
    ``raced`` and ``loaded`` tell whether it rests on the last race and the last load test.
    """
    arms = tuple(arms)
    data = Prepared.open(layout.data).manifest
    runs = {arm: digest.of_file(layout.run(arm)) for arm in arms}
    settings = race_settings(layout) if raced else {}
    seed, trials = settings.get("seed"), trials_of(layout)
    return Inputs(
        corpus=data.corpus_sha256,
        queries=data.queries_sha256,
        qrels=data.qrels_sha256,
        inventory=inventory.sha256,
        runs=runs,
        shown={arm: _shown(layout.run(arm), sha256) for arm, sha256 in runs.items()},
        manifests={
            arm: digest.of_file(layout.manifest(arm))
            for arm in runs
            if layout.manifest(arm).is_file()
        },
        times=digest.of_file(layout.times) if settings and layout.times.is_file() else None,
        load=digest.of_file(trials) if loaded and trials.is_file() else None,
        policy=policy,
        code=code_sha256(),
        seeds={**seeds, "race": seed} if isinstance(seed, int) else dict(seeds),
    )


@lru_cache(maxsize=256)
def _shown(path: Path, sha256: str) -> str:  # noqa: ARG001  the same for the same bytes
    """Digest of what the run in a file with this digest shows; an experiment is noted often."""
    return read_run(path).shown_sha256


def note_timed(layout: Layout, kind: Clocked, arms: Sequence[str], at: datetime) -> None:
    """Add the race or the load test at hand to the log, whether a gate will judge it or not.

    A race that begins or goes on has no times yet; those at hand are of another.
    """
    inventory = stock(layout)
    found = inputs(
        layout,
        arms,
        inventory,
        policy=None,
        seeds={},
        raced=kind in {"race", "load"},
        loaded=kind == "load",
    )
    with experiment_log.writing(layout):
        experiment_log.add(layout, kind, at, inputs=found, inventory=inventory)
