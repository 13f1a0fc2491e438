"""Xapian as an arm: shards behind servers, searched as one database with BM25."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.contract import manifest
from engines.lexical.terms import clause_terms, indexed
from engines.lexical.typed import Clause, Occur, clauses
from engines.ranking.order import by_best
from engines.stacks.xapian import shards
from engines.stacks.xapian.debian import LEASH, SERVER, binding, program
from engines.stacks.xapian.serving import HOST, served
from engines.stacks.xapian.settings import Settings
from harness.core.engine import Answer, Engine, Manifest, Searcher
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.files import write_text
from harness.core.formats import MAX_INDEX_BYTES, json_file
from harness.core.records import Document

ENGINE = "xapian"
RULES = "terms of clauses, 1"
"""Version of what stands here; another one ranks otherwise."""
IDS = "ids.json"
"""Ids in the order of Xapian's own numbers, which begin at 1."""
K2, K3, SHORTEST = 0.0, 1000.0, 0.0
"""Constants of Xapian's BM25 that make it the usual one: a word typed twice counts twice, and a
short document is as short as it is."""
TIMEOUT_MS = 60_000
DIGITS = 12
"""Of a weight; the sum of a few hundred words is as sure as that."""
MORE = 10


@dataclass(frozen=True, slots=True)
class Xapian:
    settings: Settings
    cache: Path

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        def fill(passing: Iterable[Document]) -> None:
            found = sorted((one.doc_id, one.title, one.text) for one in passing)
            rows = [(indexed(title), indexed(text)) for _, title, text in found]
            shards.build(self.settings, rows, index, self.cache)
            write_text(index / IDS, json.dumps([doc_id for doc_id, _, _ in found]))

        return manifest.record(index, documents, fill, **self._made_by())

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Start a server for each shard, and connect to all as one database.

        Raises:
            IndexNotReady: a file is missing, damaged, or of another build; InvalidArm: a shard was
                lost while queries ran.
        """
        xapian = binding()
        made = manifest.read(index)
        manifest.check_made_by(index, made, **self._made_by())
        files = [index / name for name in shards.names(self.settings.shards)]
        with served(files) as ports:
            joined = xapian.Database()
            try:
                ids = tuple(json_file(index / IDS, most=MAX_INDEX_BYTES))
                for port in ports:
                    joined.add_database(xapian.remote_open(HOST, port, TIMEOUT_MS, TIMEOUT_MS))
                held = int(joined.get_doccount())
            except (OSError, ValueError, TypeError, xapian.Error) as exc:
                raise IndexNotReady(f"{index}: {exc}. Build it again: harness index") from exc
            manifest.check_count(index, made, held)
            manifest.check_count(index, made, len(ids))
            searcher = XapianSearcher(joined, ids, made, QueryMaker(self.settings))
            try:
                yield searcher
            finally:
                joined.close()
        if searcher.lost:
            raise InvalidArm(
                f"a shard was lost while queries ran: {searcher.lost[0]}. Nothing is scored. Replay"
            )

    def _made_by(self) -> dict[str, Any]:
        return {
            "engine": ENGINE,
            "version": f"Xapian {binding().version_string()}, {RULES}",
            "settings": self.settings.model_dump(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class XapianSearcher:
    database: Any
    ids: tuple[str, ...]
    manifest: Manifest
    making: QueryMaker
    lost: list[str] = field(default_factory=list)
    """What a lost connection said; whatever was answered besides does not count."""

    def search(self, text: str, k: int) -> Answer:
        """Rank the documents of all shards.

        Raises:
            ConnectionError: a shard is lost.
        """
        asked = self.making.query(clauses(text))
        if asked is None:
            return Answer((), self.manifest.fingerprint, "no word to search for")
        xapian = binding()
        enquire = xapian.Enquire(self.database)
        enquire.set_query(asked)
        enquire.set_weighting_scheme(self.making.weighting())
        enquire.set_docid_order(xapian.Enquire.ASCENDING)
        try:
            found = _best(enquire, k)
        except xapian.NetworkError as exc:
            self.lost.append(str(exc))
            raise ConnectionError(str(exc)) from exc
        hits = by_best(((self.ids[number - 1], weight) for number, weight in found), k)
        return Answer(hits, self.manifest.fingerprint)


def _best(enquire: Any, k: int) -> list[tuple[int, float]]:  # noqa: ANN401  of a module without types
    """Give the best documents, and those that score as the last of them, with rounded weights.

    Each shard adds the weights of words in an order of its own, so the last bits of equal sums
    differ.
    """
    depth = k
    while True:
        found = [
            (one.docid, float(f"{one.weight:.{DIGITS}g}")) for one in enquire.get_mset(0, depth)
        ]
        if len(found) < depth or (depth > k and found[-1][1] < found[k - 1][1]):
            return found
        depth += max(depth, MORE)


class QueryMaker:
    """Makes queries as the shards were written."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._query = binding().Query
        self._stem = shards.stem_of(settings)

    def weighting(self) -> Any:  # noqa: ANN401  of a module without types
        """Give the BM25 of the settings."""
        return binding().BM25Weight(self._settings.k1, K2, K3, self._settings.b, SHORTEST)

    def query(self, wanted: Iterable[Clause]) -> Any | None:  # noqa: ANN401
        """Make a query of all clauses; None where no word is left to search for."""
        groups: dict[Occur, list[Any]] = {occur: [] for occur in Occur}
        for clause in wanted:
            if (made := self._clause(clause)) is not None:
                groups[clause.occur].append(made)
        of = self._query
        should, must = groups[Occur.SHOULD], groups[Occur.MUST]
        if not should and not must:
            return None
        asked = of(of.OP_OR, should)
        if must:
            every = of(of.OP_AND, must)
            asked = of(of.OP_AND_MAYBE, every, asked) if should else every
        if groups[Occur.NOT]:
            asked = of(of.OP_AND_NOT, asked, of(of.OP_OR, groups[Occur.NOT]))
        return asked

    def _clause(self, clause: Clause) -> Any | None:  # noqa: ANN401
        of = self._query
        looked_for = clause_terms(clause, self._settings.joined)
        whole, each = (shards.terms_of(self._stem, one) for one in looked_for)
        options = [of(term) for term in each]
        if len(whole) > 1:
            options.append(of(of.OP_PHRASE, whole, len(whole)))
        elif whole and not each:
            options.append(of(whole[0]))
        return of(of.OP_OR, options) if options else None


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:
    """Make the engine from an arm's settings; shards lie below ``cache`` until all are built.

    Raises:
        ModelNotReady: Xapian's binding or a program is missing.
    """
    given = Settings.model_validate(settings)
    binding()
    for name in (SERVER, LEASH):
        program(name)
    return Xapian(given, cache)
