"""Second opinions: results of this machine beside the recorded ones, and answers of now."""

import math
import random
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any, NamedTuple

from harness.core.engine import IMPORTED
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import replacing_folder, write_json
from harness.core.formats import json_file
from harness.core.printable import many
from harness.core.records import Query
from harness.core.run import Row, Status
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.pipeline import receipts
from harness.pipeline.index import opened
from harness.pipeline.layout import Layout
from harness.replay.drive import observe
from harness.replay.machine import processor, vector_flags
from harness_engines import registry

ABOUT, FINDINGS = "about.json", "findings.json"
REPRODUCE_HINT = "Bring it back from git, or record anew: harness reproduce --record"


@dataclass(frozen=True, slots=True)
class Reproduced:
    """How one data set's results compare with its record."""

    dataset: str
    compared: int
    differ: tuple[str, ...]
    """``stage: path`` of each output with other bytes, in the order of the pipeline."""
    decisions: tuple[str, ...]
    """Each step or untimed gate whose verdict differs, in words; empty where all are equal."""
    environment: tuple[str, ...]
    """What of processor, packages and SQLite differs from where the record was made."""

    @property
    def exact(self) -> bool:
        """Whether every output is byte-identical."""
        return not self.differ


def record(root: Path, layout: Layout) -> Path:
    """Write what a later comparison needs beside ``dvc.lock``, and return that folder."""
    folder = root / receipts.RECORD / layout.root.name
    with replacing_folder(folder) as beside:
        write_json(beside / ABOUT, _environment())
        copyfile(layout.findings, beside / FINDINGS)
    return folder


def reproduce(root: Path, layout: Layout) -> Reproduced:
    """Compare the files below ``layout`` with the project's record of the data set."""
    folder, name = root / receipts.RECORD / layout.root.name, layout.root.name
    try:
        about, findings = json_file(folder / ABOUT), json_file(folder / FINDINGS)
    except OSError as exc:
        raise BadFile(folder, f"cannot be read ({exc.strerror})", REPRODUCE_HINT) from exc
    known = receipts.outputs(root, name)
    return Reproduced(
        dataset=name,
        compared=len(known),
        differ=tuple(f"{stage}: {path}" for stage, path, same in known if not same),
        decisions=tuple(_decisions(findings, json_file(layout.findings))),
        environment=tuple(_differs(about, _environment())),
    )


def _environment() -> dict[str, Any]:
    return {
        "processor": processor(),
        "processor features": list(vector_flags()),
        "sqlite": sqlite3.sqlite_version,
        "packages": receipts.versions(),
    }


def _differs(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Name what differs; the processor's name alone moves no bit, its features may."""
    old, new = set(then["processor features"]), set(now["processor features"])
    if old != new:
        lacks, has = ", ".join(sorted(old - new)), ", ".join(sorted(new - old))
        yield "processor features: " + "; ".join(
            part for part in (lacks and f"here without {lacks}", has and f"here with {has}") if part
        )
    if then["sqlite"] != now["sqlite"]:
        yield f"SQLite {then['sqlite']} when recorded, {now['sqlite']} here"
    for name, was in then["packages"].items():
        if (here := now["packages"].get(name)) != was:
            yield f"{name} {was} when recorded, {here} here"


def _decisions(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Compare the verdict of every gate that rests on no clock, step by step."""
    old, new = _verdicts(then), _verdicts(now)
    for key in dict.fromkeys((*old, *new)):
        was, here = old.get(key, "not judged"), new.get(key, "not judged")
        if was != here:
            yield f"{key}: {was} when recorded, {here} here"


def _verdicts(findings: Mapping[str, Any]) -> dict[str, str]:
    return {
        f"step {step['step']}, gate {found['gate']}": found["verdict"]
        for step in findings["steps"]
        for found in step["findings"]
        if not found["timed"]
    }


NO_LIMIT_NS = 1 << 62
"""A busy machine is not a reason to call an answer another one."""
CLOSE = 1e-6
"""Two scores of one model may differ by so much, relatively, where threads add up otherwise."""


class Requeried(NamedTuple):
    """Outcome of one arm."""

    arm: str
    same: int
    unanswered: int
    """Queries that failed or timed out in the run, and were not compared."""
    imported: bool
    """Whether its run came as a file, so that no engine can be queried."""


def requery(
    layout: Layout, arms: Mapping[str, str], cache: Path, *, count: int, seed: int
) -> tuple[Requeried, ...]:
    """Run some queries of each arm (by name: its name or path) again, and compare the hits."""
    queries = Prepared.open(layout.data).queries()
    drawn = random.Random(seed).sample(list(queries), min(count, len(queries)))
    return tuple(_of_arm(layout, name, file, cache, drawn) for name, file in arms.items())


def _of_arm(layout: Layout, name: str, file: str, cache: Path, drawn: list[Query]) -> Requeried:
    run = read_run(layout.run(name))
    if receipts.read_manifest(layout, name).engine == IMPORTED:
        return Requeried(name, 0, 0, imported=True)
    if file == name and name not in registry.names():
        raise EvidenceError(
            f"{name}: is an arm from a file. Name its TOML file beside --requery, with --arm"
        )
    arm = registry.load(file, cache)
    noted = receipts.replayed(layout, name).index_sha256
    if noted is not None and noted != receipts.index_files(layout, name):
        raise EvidenceError(
            f"{layout.index(name)}: its files are not those that the run of {name} was made from."
            f" Run: harness stage replay --dataset {layout.root.name} --arm {name}, and decide"
            " anew"
        )
    rows = {row.query_id: row for row in run.rows()}
    own = Prepared.open(layout.data).ids().own
    depth = run.conditions.k if run.conditions else int(run.lengths.max(initial=1))
    answered = [query for query in drawn if rows[query.query_id].status == Status.ANSWERED]
    with opened(layout, arm) as searcher:
        for query in answered:
            found = observe(searcher, query, depth, NO_LIMIT_NS).row
            if query.query_id in own:
                others = tuple(hit for hit in found.hits if hit.doc_id != query.query_id)
                found = found._replace(hits=others)
            if why := _answer_difference(rows[query.query_id], found):
                raise EvidenceError(
                    f"{layout.run(name)}: query {query.query_id} of {name}: {why}. Run:"
                    f" harness stage replay --dataset {layout.root.name} --arm {name}, and decide"
                    " anew"
                )
    return Requeried(name, len(answered), len(drawn) - len(answered), imported=False)


def _answer_difference(stored: Row, row: Row) -> str:
    """Describe how an answer differs from the one in the run; empty where it does not."""
    if row.status != Status.ANSWERED:
        return f"the run has an answer, and the engine says {row.error}"
    if stored.served_by != row.served_by:
        return f"was served by {stored.served_by[:12]}, and now by {row.served_by[:12]}"
    shown = list({hit.doc_id: hit for hit in row.hits}.values())
    if len(stored.hits) != len(shown):
        return f"the run has {many(len(stored.hits), 'hit')}, and the engine shows {len(shown)}"
    for rank, (old, new) in enumerate(zip(stored.hits, shown, strict=True), start=1):
        if old.doc_id != new.doc_id:
            return f"hit {rank} is {old.doc_id} in the run, and the engine shows {new.doc_id}"
        if not math.isclose(old.raw_score, new.raw_score, rel_tol=CLOSE, abs_tol=CLOSE):
            return (
                f"hit {rank}, {old.doc_id}, has the score {old.raw_score:g} in the run, and the"
                f" engine gives {new.raw_score:g}"
            )
    return ""
