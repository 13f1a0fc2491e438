"""Second opinions: what the engines show now, and what ir-measures computes."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness.core.engine import IMPORTED
from harness.core.errors import EvidenceError
from harness.core.printable import many
from harness.core.records import Query
from harness.core.run import Row, Status
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.pipeline.index import check_index
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import check_same, index_files, read_manifest, replayed_index
from harness.replay.drive import observe
from harness_engines import registry

NO_LIMIT_NS = 1 << 62
"""A busy machine is not a reason to call an answer another one."""
CLOSE = 1e-6
"""Two scores of one model may differ by so much, relatively, where threads add up otherwise."""


class Requeried(NamedTuple):
    """Outcome of one arm."""

    arm: str
    same: int
    """Queries whose hits are those of the run."""
    unanswered: int
    """Queries that failed or timed out in the run, and were not compared."""
    imported: bool
    """Whether its run came as a file, so that no engine can be queried."""


@dataclass(frozen=True, slots=True)
class QuerySample:
    """Which queries are run again."""

    count: int
    """Of each arm."""
    seed: int


def requery(
    layout: Layout, arms: Mapping[str, str], cache: Path, sample: QuerySample
) -> tuple[Requeried, ...]:
    """Run some queries of each arm again, and compare the hits with those of its run.

    ``arms`` gives, by name, what ``harness_engines.registry`` loads each by: its name, or a path.
    """
    queries = Prepared.open(layout.data).queries()
    drawn = random.Random(sample.seed).sample(list(queries), min(sample.count, len(queries)))
    return tuple(_of_arm(layout, name, file, cache, drawn) for name, file in arms.items())


def _of_arm(layout: Layout, name: str, file: str, cache: Path, drawn: list[Query]) -> Requeried:
    wanted, run = read_manifest(layout, name), read_run(layout.run(name))
    if wanted.engine == IMPORTED:
        return Requeried(name, 0, 0, imported=True)
    if file == name and name not in registry.names():
        raise EvidenceError(
            f"{name}: is an arm from a file. Name its TOML file beside --requery, with --arm"
        )
    arm = registry.load(file, cache)
    check_index(layout, arm)
    noted = replayed_index(layout, name)
    if noted is not None and noted != index_files(layout, name):
        raise EvidenceError(
            f"{layout.index(name)}: its files are not those that the run of {name} was made from."
            f" Run: harness stage replay --dataset {layout.root.name} --arm {name}, and decide"
            " anew"
        )
    rows = {row.query_id: row for row in run.rows()}
    own = Prepared.open(layout.data).ids().own
    depth = run.conditions.k if run.conditions else int(run.lengths.max(initial=1))
    answered = [query for query in drawn if rows[query.query_id].status == Status.ANSWERED]
    with arm.open(layout.index(name)) as searcher:
        check_same(layout, name, wanted, searcher.manifest)
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
