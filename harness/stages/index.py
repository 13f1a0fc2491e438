"""Stage ``index``: build one arm's index of one data set and hand on its manifest."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from engines.contract import arms
from harness.core.engine import Manifest
from harness.core.files import replacing_folder, write_json
from harness.corpus.prepared import Prepared
from harness.stages.layout import Layout


def index(layout: Layout, arm_name: str, cache: Path) -> Manifest:
    """Build the index beside, put it in place, and write its manifest."""
    arm = arms.load(arm_name, cache)
    documents = Prepared.open(layout.data).documents()
    with replacing_folder(layout.index(arm.name)) as folder:
        manifest = arm.engine.build(documents, folder)
    write_json(layout.manifest(arm.name), asdict(manifest))
    return manifest
