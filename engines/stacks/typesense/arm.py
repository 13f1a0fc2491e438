"""Typesense as an arm: a collection on every node, and answers only of nodes that hold it whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from pydantic import Field, field_validator

from engines import contract
from engines.contract import StackSettings
from engines.lexical.grammar import parse
from engines.lexical.terms import Clause, Occur
from engines.stacks.http.settings import address, filled
from engines.stacks.typesense.nodes import Holding, Nodes, Refused, digest_of, line_of
from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.records import Document

ENGINE, RULES = "typesense", "rules 2"
"""The rules say how a text becomes a query; others rank otherwise."""
ABOUT = "typesense.json"
PAGE = 250
"""Hits that Typesense gives at once."""
MAX_MUST = 10
"""Required words that a query may have: a filter of Typesense takes a hundred operators."""
UNTAKEN = (
    "Typesense does not take parentheses, parts of words or refusals alone: nothing was looked for"
)
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")


class Settings(StackSettings):
    """Which nodes, and how they match and rank."""

    nodes: list[str] = Field(min_length=1)
    key_env: str = Field(pattern=r"^[A-Za-z_]\w*$")
    """Variable of the environment with the API key of these nodes."""
    title_weight: int = Field(default=2, ge=1, le=127)
    text_weight: int = Field(default=1, ge=1, le=127)
    num_typos: int = Field(default=2, ge=0, le=2)
    """Letters in which a word of a document may differ from the query's."""
    prefix: bool = True
    """Whether the last word may be the beginning of a longer one."""
    drop_tokens_threshold: int = Field(default=1, ge=0, le=10_000)
    """Words are dropped from a query until it has this many hits; 0 drops none."""
    timeout_s: float = Field(ge=0.001, le=86_400)
    """For a query with all its attempts; each node has an equal part of it."""
    replicas_s: float = Field(default=60.0, gt=0, le=86_400)
    """How long every node may take to hold every document."""
    retries: int = Field(default=5, ge=0, le=20)
    """Attempts at one query after the first."""

    @field_validator("nodes")
    @classmethod
    def _addresses(cls, given: list[str]) -> list[str]:
        if len(set(given)) != len(given):
            raise ValueError("a node stands here twice. Name each once")
        return [address(one).rstrip("/") for one in given]


@dataclass(frozen=True, slots=True)
class Typesense:
    settings: Settings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Load the documents, and wait until every node holds them."""
        with self._nodes() as nodes:

            def fill(passing: Iterable[Document]) -> None:
                sent = lines(passing)
                digest = digest_of(sent)
                name = f"harness_{of_json([digest, self.settings.model_dump()])[:16]}"
                what = Holding(name, len(sent), digest)
                nodes.load(what, sent)
                nodes.prove(what, self.settings.replicas_s)
                write_json(index / ABOUT, what._asdict())

            return contract.record(index, documents, fill, **self._made_by(nodes.version()))

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Connect to nodes of which each holds each document, and ask again after the queries."""
        made = contract.read(index)
        try:
            what = Holding(**json_file(index / ABOUT))
        except (OSError, ValueError, TypeError) as exc:
            raise IndexNotReady(
                f"{index / ABOUT}: {exc!r}. Build again: harness stage index"
            ) from exc
        contract.check_count(index, made, what.documents)
        with self._nodes() as nodes:
            version = nodes.version()
            contract.check_made_by(index, made, **self._made_by(version))
            nodes.prove(what, self.settings.replicas_s)
            yield TypesenseSearcher(nodes, made, what, self.settings)
            if nodes.lost:
                raise InvalidArm(
                    f"Typesense was lost while queries ran: {nodes.lost}. Nothing is scored."
                    " Start the nodes, and replay"
                )
            try:
                nodes.prove_rest(what, version)
            except IndexNotReady as exc:
                raise InvalidArm(
                    f"the collection moved while queries ran: {exc}. Nothing is scored"
                ) from exc

    @contextmanager
    def _nodes(self) -> Iterator[Nodes]:
        given = self.settings
        headers = filled({"X-TYPESENSE-API-KEY": f"${{{given.key_env}}}"})
        with httpx.Client(headers=headers.values, trust_env=False, follow_redirects=False) as to:
            yield Nodes(to, given.nodes, headers, f"the variable {given.key_env}")

    def _made_by(self, version: str) -> dict[str, Any]:
        version = f"Typesense {version}, {RULES}"
        return {"engine": ENGINE, "version": version, "settings": self.settings.model_dump()}


@dataclass(frozen=True, slots=True, eq=False)
class TypesenseSearcher:
    nodes: Nodes
    manifest: Manifest
    what: Holding
    settings: Settings

    def search(self, text: str, k: int) -> Answer:
        """Show the nodes' hits."""
        tree, given = parse(text), self.settings
        wanted = [part for part in tree.parts if isinstance(part, Clause) and not part.begun]
        if len(wanted) < len(tree.parts) or tree.refuses:
            return Answer((), self.manifest.fingerprint, UNTAKEN)
        words = query(wanted)
        if not words:
            return Answer((), self.manifest.fingerprint, "no word to search for")
        asked = {
            "collection": self.what.collection,
            "q": words,
            "query_by": "title,text",
            "query_by_weights": f"{given.title_weight},{given.text_weight}",
            "num_typos": given.num_typos,
            "prefix": given.prefix,
            "drop_tokens_threshold": given.drop_tokens_threshold,
            "typo_tokens_threshold": 1,
            "sort_by": "_text_match:desc,place:asc",
            "filter_by": required(wanted),
            "include_fields": "id",
            "highlight_fields": "none",
            "per_page": PAGE,
        }
        found: list[tuple[str, int]] = []
        retries = 0
        for page in range(1, -(-k // PAGE) + 1):
            answer, failed = self.nodes.search(
                {**asked, "page": page}, self.what, given.timeout_s, given.retries
            )
            retries += failed
            rows = _rows(answer)
            found += rows
            if len(rows) < PAGE:
                break
        return Answer(_hits(found[:k]), self.manifest.fingerprint, retries=retries)


def lines(documents: Iterable[Document]) -> list[str]:
    """Write documents in the order of their ids, each with its place in it."""
    found = sorted((one.doc_id, one.title, one.text) for one in documents)
    return [
        line_of({
            "id": doc_id,
            "title": _NO_CHARACTER.sub(" ", title),
            "text": _NO_CHARACTER.sub(" ", text),
            "place": place,
        })
        for place, (doc_id, title, text) in enumerate(found)
    ]


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


def required(wanted: Iterable[Clause]) -> str:
    """Write a filter of what every hit must have: words with a plus or AND."""
    must = [" ".join(one.words) for one in wanted if one.occur is Occur.MUST][:MAX_MUST]
    return " && ".join(f"(title:`{words}` || text:`{words}`)" for words in must)


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


def engine(settings: Mapping[str, Any], _cache: Path) -> Engine:
    """Make the engine from an arm's settings; nothing is kept between runs."""
    return Typesense(Settings.model_validate(settings))
