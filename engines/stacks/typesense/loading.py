"""Documents into a collection, and the proof that every node holds each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from string import punctuation
from time import monotonic, sleep
from typing import Any, NamedTuple

from engines.stacks.typesense.nodes import Missing, NodeFailed, Nodes, Refused, Request
from harness.core.digest import of_json
from harness.core.errors import IndexNotReady
from harness.core.formats import json_of
from harness.core.records import Document, Scalar

BATCH = 1000
"""Documents of one request."""
LOAD_S = 600.0
"""For one request that loads or exports."""
PROBE_S = 5.0
"""For what a node says of itself."""
TURN_S = 0.05
FIELDS = [
    {"name": "title", "type": "string"},
    {"name": "text", "type": "string"},
    {"name": "about", "type": "string[]"},
    {"name": "place", "type": "int32"},
]
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")


class Holding(NamedTuple):
    """What a collection is called, and what it holds."""

    collection: str
    documents: int
    digest: str


def lines(documents: Iterable[Document]) -> list[str]:
    """Write documents in the order of their ids, each with its place in it."""
    found = sorted(documents, key=lambda one: one.doc_id)
    return [
        _line({
            "id": one.doc_id,
            "title": _NO_CHARACTER.sub(" ", one.title),
            "text": _NO_CHARACTER.sub(" ", one.text),
            "about": [tag(name, value) for name, value in sorted(one.metadata.items())],
            "place": place,
        })
        for place, one in enumerate(found)
    ]


def tag(name: str, value: Scalar) -> str:
    """Give the word that stands for a member of the metadata; filters look for it."""
    return of_json([name, value])[:16]


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def digest_of(of: Iterable[str]) -> str:
    """Digest of documents, each a line."""
    return _counted(of)[0]


def _counted(of: Iterable[str]) -> tuple[str, int]:
    """Give the digest of lines, and how many they are; none is kept."""
    found, count = sha256(), 0
    for line in of:
        found.update(line.encode() + b"\n")
        count += 1
    return found.hexdigest(), count


def load(nodes: Nodes, what: Holding, of: Sequence[str]) -> None:
    """Make a collection, which replaces one of that name, and send the documents.

    Raises:
        IndexNotReady: the first node does not take them.
    """
    first, path = nodes.addresses[0], f"/collections/{what.collection}"
    schema = {
        "name": what.collection,
        "fields": FIELDS,
        "default_sorting_field": "place",
        "token_separators": list(punctuation),
    }
    try:
        with suppress(Missing):
            nodes.send(first, Request("DELETE", path), LOAD_S)
        nodes.json(first, Request("POST", "/collections", body=schema), LOAD_S)
        for at in range(0, len(of), BATCH):
            batch = of[at : at + BATCH]
            said = nodes.send(
                first,
                Request(
                    "POST",
                    f"{path}/documents/import",
                    {"action": "create", "batch_size": BATCH},
                    content="\n".join(batch).encode(),
                ),
                LOAD_S,
            ).decode("utf-8", "replace")
            _check_taken(first, batch, said.splitlines())
    except (NodeFailed, Refused) as exc:
        raise IndexNotReady(f"the documents cannot be loaded: {exc}") from exc


def _check_taken(node: str, batch: Sequence[str], said: Sequence[str]) -> None:
    if len(said) != len(batch):
        raise NodeFailed(f"{node}: answered {len(said)} lines to {len(batch)} documents")
    for line, told in zip(batch, said, strict=True):
        if told != '{"success":true}':
            raise NodeFailed(f"{node}: the document {json_of(line)['id']!r} is not taken: {told}")


def version(nodes: Nodes) -> str:
    """Give the version that all nodes run.

    Raises:
        IndexNotReady: a node does not answer, or versions differ.
    """
    try:
        told = {node: _version(nodes, node) for node in nodes.addresses}
    except NodeFailed as exc:
        raise IndexNotReady(f"a node does not say who it is: {exc}") from exc
    if len(set(told.values())) > 1:
        each = ", ".join(f"{node} runs {one}" for node, one in told.items())
        raise IndexNotReady(f"the nodes differ: {each}. Run one version on all of them")
    return next(iter(told.values()))


def prove(nodes: Nodes, what: Holding, patience_s: float) -> None:
    """Wait until each node holds each document.

    Raises:
        IndexNotReady: a node does not answer, lags for longer, or holds other documents.
    """
    until = monotonic() + patience_s
    for node in nodes.addresses:
        _prove_one(nodes, node, what, until)


def prove_rest(nodes: Nodes, what: Holding, version: str) -> None:
    """Check that more than half of the nodes still answer, and what each of those holds.

    Raises:
        IndexNotReady: too few answer, or one is of another version or holds other documents.
    """
    gone: list[str] = []
    for node in nodes.addresses:
        try:
            now = _version(nodes, node)
        except NodeFailed as exc:
            gone.append(str(exc))
            continue
        if now != version:
            raise IndexNotReady(f"{node}: ran Typesense {version}, and runs {now}")
        _prove_one(nodes, node, what, monotonic())
    if 2 * len(gone) >= len(nodes.addresses):
        raise IndexNotReady(f"{len(gone)} of {len(nodes.addresses)} nodes are gone: {gone[0]}")


def _version(nodes: Nodes, node: str) -> str:
    return str(_asked(nodes, node, "/debug").get("version"))


def _prove_one(nodes: Nodes, node: str, what: Holding, until: float) -> None:
    while problem := _missing(nodes, node, what):
        if monotonic() >= until:
            raise IndexNotReady(f"{problem}. Wait for the node, or build again: harness index")
        sleep(TURN_S)


def _missing(nodes: Nodes, node: str, what: Holding) -> str:
    """Say what a node does not have yet; empty where it holds each document.

    A node counts documents before it has written them, so those that it gives are counted too.

    Raises:
        IndexNotReady: it holds other documents.
    """
    path = f"/collections/{what.collection}"
    try:
        holds = _asked(nodes, node, path).get("num_documents")
        if holds == what.documents:
            digest, holds = _counted(_exported(nodes, node, path))
            if holds == what.documents and digest != what.digest:
                raise IndexNotReady(
                    f"{node}: holds other documents than were loaded. Build again: harness index"
                )
    except (NodeFailed, Refused) as exc:
        return str(exc)
    except ValueError as exc:
        return f"{node}: gives documents that are not JSON ({exc})"
    if holds == what.documents:
        return ""
    return f"{node}: has {holds} documents of {what.documents}: the replica lags"


def _asked(nodes: Nodes, node: str, path: str) -> dict[str, Any]:
    try:
        told = nodes.json(node, Request("GET", path), PROBE_S)
    except Refused as exc:
        raise NodeFailed(str(exc)) from exc
    if not isinstance(told, dict):
        raise NodeFailed(f"{node}: not an answer of Typesense")
    return told


def _exported(nodes: Nodes, node: str, path: str) -> Iterator[str]:
    """Yield every document of a node as it was sent."""
    rest = b""
    for part in nodes.stream(node, Request("GET", f"{path}/documents/export"), LOAD_S):
        *whole, rest = (rest + part).split(b"\n")
        yield from (_line(json_of(line.decode())) for line in whole)
    if rest:
        yield _line(json_of(rest.decode()))
