"""Message search that runs elsewhere and speaks MCP: any server with the tools of section 6."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from engines.contract import manifest
from engines.contract.settings import StackSettings
from engines.stacks.remote.client import page as pages
from engines.stacks.remote.client.asking import Asking
from engines.stacks.remote.client.connection import Connection, connected
from engines.stacks.remote.client.page import Malformed, Page
from harness.core.digest import of_json
from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.errors import IndexNotReady
from harness.core.files import write_text
from harness.core.formats import MAX_INDEX_BYTES, json_file
from harness.core.records import Document, Scalar

ENGINE, IDS = "remote-mcp", "ids.json"
PROBE = "a"
"""Asked when an index is made, to learn of which documents the server's is."""


class Settings(StackSettings):
    """Where the server is, how it is queried, and who is meant to answer."""

    transport: Literal["stdio", "http"]
    command: list[str]
    """Program and arguments that are started for ``stdio``; empty for ``http``."""
    url: str
    """Address for ``http``; empty for ``stdio``."""
    tool: str
    product_tool: str
    """Tool for queries with ``product_id``; empty where the server has none."""
    project_key: str
    """Sent where a query names no project."""
    project_slug: str
    """The server's name of the project numbered ``{}``; empty where it cannot be told."""
    product_name: str
    mode: str
    """Sent with every query; empty leaves it to the server."""
    engine: str
    """What explain must name as the engine for an answer to be this arm's."""
    ids: Literal["ordinal", "verbatim"]
    """``ordinal``: ids count the documents from 1 in byte order; ``verbatim``: ids are theirs."""
    page_size: int = Field(ge=1, le=1000)
    timeout_s: float = Field(gt=0, le=86_400)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        stdio = self.transport == "stdio"
        if stdio != bool(self.command) or stdio == bool(self.url):
            raise ValueError("stdio needs a command and no url, http a url and no command")
        return self


@dataclass(frozen=True, slots=True)
class Remote:
    settings: Settings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Note the documents' ids, and which server holds them; nothing is sent to it.

        Raises:
            IndexNotReady: no one answers, or the server says that it holds other documents.
        """

        def fill(passing: Iterable[Document]) -> None:
            doc_ids = sorted(document.doc_id for document in passing)
            write_text(index / IDS, json.dumps(doc_ids))

        with self._connected() as to:
            made = manifest.record(
                index,
                documents,
                fill,
                engine=ENGINE,
                version=to.server,
                settings=self.settings.model_dump(),
            )
            self._check_corpus(to, made)
        return made

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        made = manifest.read(index)
        doc_ids = _doc_ids(index)
        manifest.check_count(index, made, len(doc_ids))
        with self._connected() as to:
            manifest.check_made_by(
                index,
                made,
                engine=ENGINE,
                version=to.server,
                settings=self.settings.model_dump(),
            )
            yield RemoteSearcher(to, doc_ids, made, self.settings)

    def _connected(self) -> Any:  # noqa: ANN401  a context manager of Connection
        given = self.settings
        return connected(given.command, given.url, given.timeout_s)

    def _check_corpus(self, to: Connection, made: Manifest) -> None:
        """Hold the server's documents against ours, where it says what it has."""
        call = _asking(self.settings).call(PROBE, {})
        try:
            said = pages.read(to.call(call.tool, {**call.arguments, "limit": 1}), 1).served_by
        except Exception as exc:
            raise IndexNotReady(f"{to.server}: cannot be queried ({exc}). Correct the arm") from exc
        if said is None or said.corpus_sha256 is None:
            return
        if said.corpus_sha256 != made.corpus_sha256:
            raise IndexNotReady(
                f"{to.server}: holds other documents ({said.documents}, here {made.documents})."
                " Index the same data set there"
            )


@dataclass(frozen=True, slots=True)
class RemoteSearcher:
    to: Connection
    doc_ids: tuple[str, ...]
    manifest: Manifest
    settings: Settings

    def search(self, text: str, k: int) -> Answer:
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        """Show at most ``k`` hits, page by page.

        Raises:
            NotExpressible: the tools have no argument for a param.
            ToolFailed, MCPError, TimeoutError: the call failed.
            Malformed: the answer is missing.
        """
        call = _asking(self.settings).call(text, params)
        hits: list[Hit] = []
        read: list[Page] = []
        cursors: set[str] = set()
        cursor: str | None = None
        while len(hits) < k:
            limit = min(self.settings.page_size, k - len(hits))
            arguments = {**call.arguments, "limit": limit}
            if cursor is not None:
                arguments["cursor"] = cursor
            page = pages.read(self.to.call(call.tool, arguments), limit)
            hits += [self._hit(item, len(hits) + at) for at, item in enumerate(page.result, 1)]
            read.append(page)
            cursor = page.next_cursor
            if cursor is None:
                break
            if cursor in cursors:
                raise Malformed(f"the cursor {cursor} came twice")
            cursors.add(cursor)
        return self._signed(hits, read)

    def _hit(self, item: pages.Item, place: int) -> Hit:
        """Take a message over; without scores, 1 / place keeps the order."""
        score = 1.0 / place if item.score is None else item.score
        raw = score if item.raw_score is None else item.raw_score
        return Hit(self._doc_id(item.id), score, raw)

    def _doc_id(self, found: int | str) -> str:
        if self.settings.ids == "verbatim":
            return str(found)
        if not isinstance(found, int) or not 1 <= found <= len(self.doc_ids):
            raise Malformed(f"{found!r} is not an ordinal of {len(self.doc_ids)} documents")
        return self.doc_ids[found - 1]

    def _signed(self, hits: Sequence[Hit], read: Sequence[Page]) -> Answer:
        """Give the arm's fingerprint only where every page says that the arm's engine made it."""
        given, server = self.settings, self.manifest.version
        version = server.rpartition(" ")[2]
        note = next((page.note for page in read if page.note), "")
        if server and all(page.is_of(given.engine, given.mode, version) for page in read):
            return Answer(tuple(hits), self.manifest.fingerprint, note)
        said = [page.explain.engine if page.explain else None for page in read]
        other = of_json([self.manifest.fingerprint, said, note])
        engines = " and ".join(dict.fromkeys(one or "nobody" for one in said))
        told = f"{server or 'a server without a name'} says that {engines} answered"
        return Answer(tuple(hits), other, "; ".join(filter(None, (told, note))))


def _asking(given: Settings) -> Asking:
    return Asking(
        given.tool,
        given.product_tool,
        given.project_key,
        given.project_slug,
        given.product_name,
        given.mode,
    )


def _doc_ids(index: Path) -> tuple[str, ...]:
    try:
        return tuple(json_file(index / IDS, most=MAX_INDEX_BYTES))
    except (OSError, ValueError, TypeError) as exc:
        raise IndexNotReady(f"{index / IDS}: {exc}. Build it again: harness index") from exc


def engine(settings: Mapping[str, Any], _cache: Path) -> Engine:
    """Make the engine from an arm's settings; nothing is kept between runs."""
    return Remote(Settings.model_validate(settings))
