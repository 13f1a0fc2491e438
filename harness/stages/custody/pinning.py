"""Pin the evidence at hand beside a policy: of a pipeline, a ``harness run``, or a BEIR folder."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from harness.core.durable.scratch import scratch
from harness.corpus.inventory import Inventory
from harness.corpus.prepared import Prepared
from harness.policy.pins import Pin
from harness.policy.pins import pin as pin_beside
from harness.stages.experiments.inputs import race_settings, stock
from harness.stages.imports.collections import load_folder
from harness.stages.layout import Layout


def pin(layout: Layout, policy_file: Path, *, at: datetime, by: str) -> Pin:
    """Pin queries, judgements and race settings in ``layout``.

    Raises:
        BadFile: the data were not prepared, or a file cannot be read.
    """
    name = layout.root.name
    return pin_beside(policy_file, name, stock(layout), race_settings(layout), at=at, by=by)


class Folder(NamedTuple):
    """A folder in BEIR layout, as ``harness run`` takes it."""

    path: Path
    split: str
    forms: bool


def pin_folder(folder: Folder, policy_file: Path, *, at: datetime, by: str) -> Pin:
    """Pin queries and judgements of a folder in BEIR layout, before anything was run on it.

    Raises:
        BadFile, DatasetError: it is not one.
    """
    with scratch() as place:
        load_folder(folder.path, folder.split, place / "data", forms=folder.forms)
        data = Prepared.open(place / "data")
        inventory = Inventory.of(data.queries(), data.qrels())
    return pin_beside(policy_file, folder.path.resolve().name, inventory, {}, at=at, by=by)
