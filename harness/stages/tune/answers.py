"""Answers of candidates: an index each, or one index and a repeated last step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.contract.settings import value_keys
from engines.registry import Arm
from harness.core.digest import of_json
from harness.core.engine import Answer, Manifest, Recombines, Searcher
from harness.core.files import replacing_folder
from harness.core.qrels import Qrels
from harness.core.records import Query
from harness.core.run import Row, Status
from harness.corpus.prepared import Prepared
from harness.replay.ask import observe

NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Collection:
    """Judged queries of one split."""

    data: Prepared
    queries: tuple[Query, ...]
    """Those for which the measure is defined."""
    qrels: Qrels

    @property
    def sha256(self) -> str:
        """Digest of documents, queries and judgements."""
        of = self.data.manifest
        return of_json([of.corpus_sha256, of.queries_sha256, of.qrels_sha256])


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Runs queries on candidates.

    A stack that can repeat its last step is queried once for all candidates that differ in nothing
    else; any other is indexed and queried for each.
    """

    arms: Sequence[Arm]
    """One for each candidate: the same stack under other settings."""
    k: int
    time_limit_s: float
    folder: Path
    """Where indexes are kept."""
    code: str
    """Digest of the code that indexes are built by."""
    _legs: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """What the last step starts from: by settings before it and collection, by query."""

    def of(self, candidate: int, at: Collection, queries: Sequence[Query]) -> Iterator[Row]:
        """Yield the answer to each query.

        Raises:
            InvalidArm: the index cannot be built or opened.
        """
        arm = self.arms[candidate]
        if not isinstance(arm.engine, Recombines):
            with self._open(arm, at) as searcher:
                yield from (self._row(searcher, query) for query in queries)
            return
        legs = self._legs.setdefault((before_last_step(arm), at.sha256), {})
        lacking = [query for query in queries if query.query_id not in legs]
        failed: dict[str, Row] = {}
        if lacking:
            with self._open(self._first_of(arm), at) as searcher:
                for query in lacking:
                    noting = _Noting(arm.engine, searcher, searcher.manifest)
                    row = self._row(noting, query)
                    if row.status is Status.ANSWERED:
                        legs[query.query_id] = noting.found[0]
                    else:
                        failed[query.query_id] = row
        for query in queries:
            if query.query_id in failed:
                yield failed[query.query_id]
            else:
                hits = arm.engine.combined(legs[query.query_id], self.k)
                yield Row(query.query_id, Status.ANSWERED, hits)

    def _row(self, searcher: Searcher, query: Query) -> Row:
        return observe(searcher, query, self.k, round(self.time_limit_s * NS)).row

    def _first_of(self, arm: Arm) -> Arm:
        """Give the first candidate that differs from ``arm`` in the last step at most."""
        wanted = before_last_step(arm)
        return next(one for one in self.arms if before_last_step(one) == wanted)

    @contextmanager
    def _open(self, arm: Arm, at: Collection) -> Iterator[Searcher]:
        """Open an index; build it first where it is not there as a whole."""
        name = of_json([self.code, settings_of(arm.settings), at.data.manifest.corpus_sha256])
        index = self.folder / name[:16]
        if not index.is_dir():
            with replacing_folder(index) as beside:
                arm.build(at.data.documents(), beside)
        with arm.open(index) as searcher:
            yield searcher


def before_last_step(arm: Arm) -> str:
    """Digest of the settings that the last step does not depend on alone."""
    last = arm.engine.last_step if isinstance(arm.engine, Recombines) else frozenset()
    return of_json({k: v for k, v in settings_of(arm.settings).items() if k not in last})


def settings_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Give each value by its dotted key."""
    found = {}
    for key in value_keys(settings):
        value: Any = settings
        for part in key.split("."):
            value = value[part]
        found[key] = value
    return found


@dataclass(frozen=True, slots=True)
class _Noting:
    """Answers as a searcher does, and notes what its last step started from."""

    engine: Recombines
    searcher: Searcher
    manifest: Manifest
    found: list[Any] = field(default_factory=list)

    def search(self, text: str, k: int) -> Answer:
        self.found.append(self.engine.candidates(self.searcher, text, k))
        return Answer(self.engine.combined(self.found[-1], k), self.manifest.fingerprint)
