"""Typesense as an arm: a collection on every node, and answers only of nodes that hold it whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines import contract
from engines.lexical.grammar import parse
from engines.lexical.terms import Clause, Occur
from engines.stacks.http.settings import Headers, filled
from engines.stacks.typesense import cluster
from engines.stacks.typesense import nodes as typesense_nodes
from engines.stacks.typesense.nodes import Holding, Nodes, Refused, Settings, connected
from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.errors import HarnessError, IndexNotReady, InvalidArm
from harness.core.files import write_json, write_text
from harness.core.formats import json_file
from harness.core.reading import numbered
from harness.core.records import Document, Scalar

ENGINE = "typesense"
RULES = "rules 1"
"""Version of how a text becomes a query; another one ranks otherwise."""
ABOUT, SENT = "typesense.json", "documents.jsonl"
HEADER = "X-TYPESENSE-API-KEY"
PAGE = 250
"""Hits that Typesense gives at once."""
MAX_MUST = 10
"""Required words that a query may have: a filter of Typesense takes a hundred operators."""


class UnknownParam(Exception):
    """No document has this member of the metadata; leaving it out would be another query."""


@dataclass(frozen=True, slots=True)
class Typesense:
    """Typesense under the settings of an arm."""

    settings: Settings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Load the documents, and wait until every node holds them.

        Raises:
            IndexNotReady: a node refuses, is not reached, or lags.
        """
        with self._nodes() as nodes:

            def fill(passing: Iterable[Document]) -> None:
                found = tuple(passing)
                sent = typesense_nodes.lines(found)
                digest = typesense_nodes.digest_of(sent)
                name = f"harness_{of_json([digest, self.settings.model_dump()])[:16]}"
                what = Holding(name, len(sent), digest)
                typesense_nodes.load(nodes, what, sent)
                typesense_nodes.prove(nodes, what, self.settings.replicas_s)
                names = sorted({name for one in found for name in one.metadata})
                write_json(index / ABOUT, {"holds": what._asdict(), "names": names})
                if not self.settings.nodes:
                    write_text(index / SENT, "\n".join(sent))

            return contract.record(
                index, documents, fill, **self._made_by(typesense_nodes.version(nodes))
            )

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Connect to nodes of which each holds each document, and ask again after the queries.

        Raises:
            IndexNotReady: a node is missing, lags, or holds other documents.
            InvalidArm: the collection moved, or was lost, while queries ran.
        """
        made = contract.read(index)
        what, names = _about(index)
        contract.check_count(index, made, what.documents)
        with self._nodes() as nodes:
            version = typesense_nodes.version(nodes)
            contract.check_made_by(index, made, **self._made_by(version))
            if not self.settings.nodes:
                typesense_nodes.load(nodes, what, _sent(index, what))
            typesense_nodes.prove(nodes, what, self.settings.replicas_s)
            yield TypesenseSearcher(nodes, made, what, self.settings, names)
            if nodes.lost:
                raise InvalidArm(
                    f"Typesense was lost while queries ran: {nodes.lost}. Nothing is scored."
                    " Start the nodes, and replay"
                )
            try:
                typesense_nodes.prove_rest(nodes, what, version)
            except IndexNotReady as exc:
                raise InvalidArm(
                    f"the collection moved while queries ran: {exc}. Nothing is scored"
                ) from exc

    @contextmanager
    def _nodes(self) -> Iterator[Nodes]:
        given = self.settings
        if given.nodes:
            headers = filled({HEADER: f"${{{given.key_env}}}"})
            with connected(given.nodes, headers, given) as nodes:
                yield nodes
            return
        with cluster.started(given.start) as own:
            headers = Headers({HEADER: own.key}, (own.key,))
            with connected(own.addresses, headers, given) as nodes:
                yield nodes

    def _made_by(self, version: str) -> dict[str, Any]:
        return {
            "engine": ENGINE,
            "version": f"Typesense {version}, {RULES}",
            "settings": self.settings.model_dump(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class TypesenseSearcher:
    """A collection that is open."""

    nodes: Nodes
    manifest: Manifest
    what: Holding
    settings: Settings
    names: frozenset[str]
    """Members that the documents' metadata have."""

    def search(self, text: str, k: int) -> Answer:
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Show the nodes' hits; a param is a member of the metadata and the value it must have.

        Raises:
            UnknownParam: no document has the member.
            TimeoutError, Refused, Lost: the query failed.
        """
        tree = parse(text)
        wanted = [part for part in tree.parts if isinstance(part, Clause) and not part.begun]
        if len(wanted) < len(tree.parts) or tree.refuses:
            raise Refused(
                "Typesense does not take parentheses, parts of words or refusals alone."
                " Leave them out of the query"
            )
        words = query(wanted)
        if not words:
            return Answer((), self.manifest.fingerprint, "no word to search for")
        asked = self._asked(words, filters(wanted, self.settings, self._tags(params)))
        found: list[tuple[str, int]] = []
        retries = 0
        for page in range(1, -(-k // PAGE) + 1):
            answer, failed = self.nodes.search({**asked, "page": page}, self.what.documents)
            retries += failed
            rows = _rows(answer)
            found += rows
            if len(rows) < asked["per_page"]:
                break
        return Answer(_hits(found[:k]), self.manifest.fingerprint, retries=retries)

    def _asked(self, words: str, filter_by: str) -> dict[str, Any]:
        given = self.settings
        return {
            "collection": self.what.collection,
            "q": words,
            "query_by": ",".join(given.fields),
            "query_by_weights": ",".join(map(str, given.fields.values())),
            "num_typos": given.num_typos,
            "prefix": given.prefix,
            "drop_tokens_threshold": given.drop_tokens_threshold,
            "typo_tokens_threshold": given.typo_tokens_threshold,
            "sort_by": "_text_match:desc,place:asc",
            "filter_by": filter_by,
            "include_fields": "id",
            "highlight_fields": "none",
            "per_page": PAGE,
        }

    def _tags(self, params: Mapping[str, Scalar]) -> list[str]:
        given = {name: value for name, value in params.items() if value is not None}
        if strange := sorted(given.keys() - self.names):
            raise UnknownParam(
                f"no document has {strange[0]} in its metadata. Leave out the param, or index it"
            )
        return [typesense_nodes.tag(name, value) for name, value in sorted(given.items())]


def engine(settings: Mapping[str, Any], _cache: Path) -> Engine:
    """Make the engine from an arm's settings; nothing is kept between runs.

    Raises:
        ModuleNotFoundError: the extra typesense is not installed.
    """
    given = Settings.model_validate(settings)
    if not given.nodes:
        cluster.check_installed()
    return Typesense(given)


def query(wanted: Iterable[Clause]) -> str:
    """Write clauses as Typesense reads them; empty where no word is looked for."""
    parts, any_word = [], False
    for clause in wanted:
        words = " ".join(word for word in clause.words if any(map(str.isalnum, word)))
        if not words:
            continue
        phrase = f'"{words}"' if " " in words else words
        if clause.occur is Occur.NOT:
            parts.append(f"-{phrase}")
        else:
            parts.append(phrase if clause.quoted else words)
            any_word = True
    return " ".join(parts) if any_word else ""


def filters(wanted: Iterable[Clause], settings: Settings, tags: Iterable[str]) -> str:
    """Write what every hit must have: words with a plus or AND, and members of the metadata."""
    must = [" ".join(one.words) for one in wanted if one.occur is Occur.MUST][:MAX_MUST]
    each = [" || ".join(f"{name}:`{words}`" for name in settings.fields) for words in must]
    return " && ".join([*(f"about:={one}" for one in tags), *(f"({one})" for one in each)])


def _rows(answer: Mapping[str, Any]) -> list[tuple[str, int]]:
    try:
        return [(str(one["document"]["id"]), int(one["text_match"])) for one in answer["hits"]]
    except (KeyError, TypeError, ValueError) as exc:
        raise Refused(f"a hit is not one of Typesense ({exc!r})") from exc


def _hits(found: Iterable[tuple[str, int]]) -> tuple[Hit, ...]:
    """Score by place, because a score of Typesense has more digits than a float.

    Hits that Typesense scores alike share a place.
    """
    hits: list[Hit] = []
    before: int | None = None
    for at, (doc_id, match) in enumerate(found, start=1):
        score = hits[-1].score if match == before else 1 / at
        hits.append(Hit(doc_id, score, score))
        before = match
    return tuple(hits)


def _about(index: Path) -> tuple[Holding, frozenset[str]]:
    try:
        told = json_file(index / ABOUT)
        return Holding(**told["holds"]), frozenset(told["names"])
    except (OSError, ValueError, TypeError, KeyError) as exc:
        raise IndexNotReady(f"{index / ABOUT}: {exc!r}. Build again: harness index") from exc


def _sent(index: Path, what: Holding) -> list[str]:
    try:
        found = [line.rstrip("\n") for _, line in numbered(index / SENT)]
    except (OSError, HarnessError) as exc:
        raise IndexNotReady(f"{index / SENT}: {exc}. Build again: harness index") from exc
    if typesense_nodes.digest_of(found) != what.digest:
        raise IndexNotReady(f"{index / SENT}: was changed. Build again: harness index")
    return found
