"""The manifest of an index: written when it is built, checked when it is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.core.digest import DocumentsDigest, of_json
from harness.core.engine import Engine, Manifest
from harness.core.errors import IndexNotReady
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.records import Document

FILE = "manifest.json"


def record(
    index: Path,
    documents: Iterable[Document],
    fill: Callable[[Iterable[Document]], None],
    *,
    engine: str,
    version: str,
    settings: Any,  # noqa: ANN401  whatever json can write
) -> Manifest:
    """Let ``fill`` index ``documents``, and write what was indexed with which settings.

    The manifest is written last: an index whose building was interrupted has none.
    """
    digest = DocumentsDigest()
    fill(digest.watch(documents))
    made = Manifest(engine, version, digest.count, digest.sha256, of_json(settings))
    write_json(index / FILE, asdict(made))
    return made


def read(index: Path) -> Manifest:
    """Read the manifest of the index in the folder ``index``.

    Raises:
        IndexNotReady: there is none, or it is not a manifest.
    """
    path = index / FILE
    try:
        return Manifest(**json_file(path))
    except FileNotFoundError:
        raise IndexNotReady(f"{path}: no index here. Run: harness index") from None
    except (OSError, ValueError, TypeError) as exc:
        raise IndexNotReady(
            f"{path}: not a manifest ({exc}). Build it again: harness index"
        ) from exc


def check_made_by(
    index: Path,
    manifest: Manifest,
    *,
    engine: str,
    version: str,
    settings: Any,  # noqa: ANN401  whatever json can write
) -> None:
    """Compare an index's manifest with the engine that wants to open it.

    An index that answers with other settings, or by other software, than it was built with would
    show a fingerprint that is not its own.

    Raises:
        IndexNotReady: they differ.
    """
    opens = replace(manifest, engine=engine, version=version, settings_sha256=of_json(settings))
    ours, built = asdict(opens), asdict(manifest)
    differ = [
        f"{key} {built[key]!r} is now {ours[key]!r}" for key in ours if ours[key] != built[key]
    ]
    if differ:
        raise IndexNotReady(
            f"{index}: was built by another arm, or before its settings or its engine changed"
            f" ({'; '.join(differ)}). Build it again: harness index"
        )


def check_count(index: Path, manifest: Manifest, found: int) -> None:
    """Compare the documents an opened index really holds with its manifest.

    Raises:
        IndexNotReady: they differ.
    """
    if found != manifest.documents:
        raise IndexNotReady(
            f"{index}: the manifest says {manifest.documents} documents, the index holds {found}."
            " Build it again: harness index"
        )


def record_parts(
    index: Path,
    documents: Iterable[Document],
    parts: Mapping[str, Engine],
    *,
    engine: str,
    version: str,
    settings: Any,  # noqa: ANN401  whatever json can write
) -> Manifest:
    """Build every part of a compound index in a folder of its name, and write what they are."""
    made: dict[str, Manifest] = {}

    def fill(passing: Iterable[Document]) -> None:
        everything = tuple(passing)
        for name, part in parts.items():
            (index / name).mkdir()
            made[name] = part.build(everything, index / name)

    whole = record(index, documents, fill, engine=engine, version=version, settings=settings)
    return joined(index, whole, made)


def check_parts(
    index: Path,
    manifest: Manifest,
    parts: Mapping[str, Manifest],
    *,
    engine: str,
    version: str,
    settings: Any,  # noqa: ANN401  whatever json can write
) -> None:
    """Compare a compound index's manifest with the engine that opens it and with its parts.

    Raises:
        IndexNotReady: they differ, or a part holds more or fewer documents.
    """
    whole = joined_version(version, parts)
    check_made_by(index, manifest, engine=engine, version=whole, settings=settings)
    for part in parts.values():
        check_count(index, manifest, part.documents)


def joined(index: Path, made: Manifest, legs: Mapping[str, Manifest]) -> Manifest:
    """Write into a compound index's version what its parts are, and give the new manifest."""
    whole = replace(made, version=joined_version(made.version, legs))
    write_json(index / FILE, asdict(whole))
    return whole


def joined_version(version: str, legs: Mapping[str, Manifest]) -> str:
    """Version of a compound index: its own and its parts'."""
    parts = ", ".join(f"{name} {leg.engine} {leg.fingerprint[:16]}" for name, leg in legs.items())
    return f"{version}: {parts}"
