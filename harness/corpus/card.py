"""A dataset's card: what it is, where it is from, and what it must contain."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from harness.core import digest
from harness.core.errors import DatasetError
from harness.core.formats import toml_file
from harness.core.names import Name, Sha256
from harness.core.records import Qrels, Query
from harness.core.store import Artifact, StrictModel
from harness.corpus.cells import OwnDocuments

FILE = "card.toml"

Count = Annotated[int, Field(ge=0)]
Some = Annotated[int, Field(ge=1)]
FieldName = Annotated[str, Field(pattern="^(title|text)$")]


class Digests(StrictModel):
    """SHA-256 of the content, whatever files it lies in."""

    corpus: Sha256
    """``harness.core.digest.of_documents``"""
    queries: Sha256
    """``harness.core.digest.of_queries``"""
    qrels: Sha256
    """``of_qrels``"""


class DatasetCard(StrictModel):
    """``datasets/<name>/card.toml``."""

    name: Name
    title: str
    source: str
    licence: str
    made_by: str
    kind: Literal["made", "files"]
    """``made`` by ``make.py`` beside the card, or read from files beside it."""
    split: Name
    documents: Some
    queries: Some
    judgements: Some
    warnings: list[str]
    sha256: Digests
    slices: dict[str, Some]
    """Queries of each slice; a query may be in several or in none."""
    fields: Annotated[list[FieldName], Field(min_length=1)] | None = None
    """Parts of a document that the import kept; absent where it kept all."""
    left_out: Some | None = None
    """Unjudged queries that the import left out; absent where it left out none."""
    own_documents: OwnDocuments | None = None
    """What is made of a hit whose id is the query's: absent, it goes where the texts are equal."""
    complete: Annotated[str, Field(min_length=1)] | None = None
    """Why every relevant document of every query is judged; absent where one may not be."""
    make: dict[str, Any] | None = None
    """What ``make.py`` reads; of kind ``made`` alone."""
    packages: dict[str, str] = Field(default_factory=dict)
    """Installed packages that the data are read from, with the versions of these counts."""

    @model_validator(mode="after")
    def _table_fits_kind(self) -> Self:
        if (self.make is not None) != (self.kind == "made"):
            raise ValueError("a table [make] belongs to kind 'made', and to no other")
        return self


REMEDY = "Correct the card, or import the data anew (harness import)"
CARDS = Artifact(
    "a card of a data set",
    lambda path: DatasetCard.model_validate(toml_file(path)),
    lambda card: text_of(card).encode(),
    remedy=REMEDY,
)


def read(folder: Path) -> DatasetCard:
    """Read the card of the dataset in ``folder``."""
    return CARDS.read(folder / FILE)


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Return the installed version of each package, without those that are not installed."""
    found: dict[str, str] = {}
    for package in sorted(packages):
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def write(folder: Path, card: DatasetCard) -> None:
    """Write the card, plain values first and tables after; the same card gives the same bytes."""
    CARDS.write(folder / FILE, card)


def text_of(card: DatasetCard) -> str:
    """Return the file that ``write`` writes."""
    return toml_text(card.model_dump(exclude_none=True, exclude_defaults=True))


def counted(
    card: DatasetCard, corpus: digest.DocumentsDigest, queries: Iterable[Query], qrels: Qrels
) -> DatasetCard:
    """Return the card with the counts and digests of what was read."""
    asked = tuple(queries)
    found = card.model_dump() | {
        "documents": corpus.count,
        "queries": len(asked),
        "judgements": sum(1 for _ in qrels.rows()),
        "slices": slices(asked),
        "sha256": {
            "corpus": corpus.sha256,
            "queries": digest.of_queries(asked),
            "qrels": of_qrels(qrels),
        },
    }
    return DatasetCard.model_validate(found)


def check(promised: DatasetCard, found: DatasetCard, *, hint: str) -> None:
    """Compare what the card promises with what was ``counted``."""
    keys = ("documents", "queries", "judgements", "slices")
    differs = [
        f"{key} {getattr(promised, key)} in the card, {getattr(found, key)} in the data"
        for key in keys
        if getattr(promised, key) != getattr(found, key)
    ]
    differs += [
        f"content of {key}"
        for key in Digests.model_fields
        if getattr(promised.sha256, key) != getattr(found.sha256, key)
    ]
    if differs:
        raise DatasetError(f"{promised.name}: not what its card says: {'; '.join(differs)}. {hint}")


def slices(queries: Iterable[Query]) -> dict[str, int]:
    """Count the queries of each slice, in byte order of the names."""
    return dict(sorted(Counter(name for query in queries for name in query.slices).items()))


def of_qrels(qrels: Qrels) -> str:
    """Digest of judgements, by query and then document."""
    return digest.of_json([list(row) for row in qrels.rows()])


def toml_text(table: Mapping[str, object]) -> str:
    """Write a table as TOML: its values, then the tables in it, each below its name."""
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lines = [f"{_key(k)} = {_value(v)}" for k, v in table.items() if k not in inner]
    for key, value in inner.items():
        lines += ["", f"[{'.'.join(map(_key, (*path, key)))}]", *_lines(value, (*path, key))]
    return lines


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else _value(key)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(key)} = {_value(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return "[" + "".join(f"\n  {_value(item)}," for item in value) + ("\n]" if value else "]")
    if not isinstance(value, str | bool):
        return str(value)  # numbers and times, as TOML has them: JSON writes Infinity
    # A JSON string is a TOML string, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
