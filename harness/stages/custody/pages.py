"""Files beside a decision that people and tools read, rebuilt from what was verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from harness.core import digest
from harness.core.batches.source import code_sha256
from harness.core.durable.owned import RUN, mark
from harness.core.engine import IMPORTED
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import json_text
from harness.core.formats import json_file
from harness.core.printable import many
from harness.corpus import trec
from harness.corpus.prepared import QUERIES
from harness.corpus.runs import read_run
from harness.report.decision.write import texts
from harness.report.inputs import Links, ReportInput
from harness.stages.compare.ties import ties
from harness.stages.custody import receipt
from harness.stages.custody.proof import read_manifest
from harness.stages.custody.rederive import policy_of, subject_of
from harness.stages.layout import Layout
from harness.stages.oneshot import TIES
from harness.stages.report.stage import as_decided

DECISION = "decision.json"
OWN = (".", mark(Path(), RUN).name)
"""What the program keeps for itself."""
SHOWN = 5
"""Files that were not checked and are named; the others are counted."""


def check_exports(out: Path, layout: Layout, hint: str) -> tuple[str, str]:
    """Make what ``harness run`` put into ``out`` again; say what was compared, and what was not.

    Raises:
        EvidenceError: a file is gone, or says something else.
        BadFile: it cannot be read.
    """
    arms = json_file(layout.decision)["datasets"][0]["provenance"]["arms"]
    copies = {
        out / "scores.json": layout.scores,
        out / "per_query.parquet": layout.per_query,
        out / QUERIES: layout.data / QUERIES,
        **{out / "runs" / f"{arm}.parquet": layout.run(arm) for arm in arms},
    }
    for copy, of in copies.items():
        if not copy.is_file() or digest.of_file(copy) != digest.of_file(of):
            raise EvidenceError(f"{copy}: is gone or no copy of {of}. {hint}")
    runs = {out / "runs" / f"{arm}.trec": layout.run(arm) for arm in arms}
    for file, of in runs.items():
        _same(file, trec.run_text(read_run(of)), f"{of} gives.", hint)
    pages = check_pages(out, [layout], hint)
    tied = _check_ties(out / TIES, layout, [*arms], hint)
    checked = {*copies, *runs, *pages, *tied}
    return f"{many(len(checked), 'file')} in {out}, rebuilt and compared", _others(out, checked)


def check_pages(out: Path, layouts: Sequence[Layout], hint: str) -> tuple[Path, ...]:
    """Write the pages of these decisions again, and compare them with those in ``out``.

    Whatever was left beside a page after it was written (a load, a history) is tried both ways.

    Raises:
        EvidenceError: a page is gone, or is another; or ``out`` is of another decision.
    """
    reports = [_decided(layout, out) for layout in layouts]
    found: dict[str, str] = {}
    for one in _as_linked(reports):
        written = texts(one)
        found = found or written
        missing = [name for name in written if not _says(out / name, written[name])]
        found |= {name: written[name] for name in written if name not in missing}
        if not missing:
            break
    stated = {one.provenance.code_version for one in reports}
    why = "" if stated == {code_sha256()} else " The code changed since, so this may be why."
    for name, text in found.items():
        _same(out / name, text, f"the decision gives.{why}", hint)
    return tuple(out / name for name in found)


def shown_in(out: Path) -> tuple[str, ...]:
    """Name the data sets of which ``out`` has pages; empty without pages.

    Raises:
        BadFile: the decision beside them is gone or cannot be read.
    """
    file = out / DECISION
    if not any((out / name).exists() for name in ("index.html", "report.md", DECISION)):
        return ()
    try:
        return tuple(str(one["dataset"]) for one in json_file(file)["datasets"])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise BadFile(file, f"cannot be read ({exc})", "Write it again: harness report") from exc


def _decided(layout: Layout, out: Path) -> ReportInput:
    (about,) = json_file(layout.decision)["datasets"]
    hint = f"Decide anew: harness gate --dataset {layout.root.name}"
    beside = receipt.check_all(layout.decision_receipt, hint)
    policy = policy_of(layout, beside, about["policy"]["sha256"], hint)
    return as_decided(layout, subject_of(layout, about, policy, 1), out)


def _as_linked(reports: Sequence[ReportInput]) -> Iterator[list[ReportInput]]:
    """Give the reports with all that was left beside them, and then with less of it."""
    left = (
        any(one.load for one in reports),
        any(one.apart for one in reports),
        any(one.links.load for one in reports),
        any(one.links.history for one in reports),
    )
    for load, apart, loads, history in product(
        *((True, False) if is_ else (True,) for is_ in left)
    ):
        yield [
            replace(
                one,
                load=one.load if load else None,
                apart=one.apart if apart else (),
                links=Links(one.links.load if loads else "", one.links.history if history else ""),
            )
            for one in reports
        ]


def _check_ties(file: Path, layout: Layout, arms: Sequence[str], hint: str) -> tuple[Path, ...]:
    """Count the ties of imported runs again, where their counts were written."""
    if not file.is_file():
        return ()
    imported = [arm for arm in arms if read_manifest(layout, arm).engine == IMPORTED]
    about: Mapping[str, Any] = json_file(layout.decision)["datasets"][0]["provenance"]
    _, written = ties(layout, imported, about["settings"]["score"]["measures"])
    _same(file, json_text(written), "the runs give.", hint)
    return (file,)


def _others(out: Path, checked: set[Path]) -> str:
    """Name the files in ``out`` that nothing here makes again."""
    own = (path for path in sorted(out.rglob("*")) if path.is_file() and path not in checked)
    names = [path.relative_to(out).as_posix() for path in own]
    left = [name for name in names if not name.startswith(("work/", *OWN))]
    more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    return f"{', '.join(left[:SHOWN])}{more}" if left else "nothing"


def _says(file: Path, text: str) -> bool:
    return file.is_file() and digest.of_file(file) == digest.of_bytes(text.encode())


def _same(file: Path, text: str, gives: str, hint: str) -> None:
    if not file.is_file():
        raise EvidenceError(f"{file}: is gone. {hint}")
    if not _says(file, text):
        raise EvidenceError(f"{file}: is not what {gives} {hint}")
