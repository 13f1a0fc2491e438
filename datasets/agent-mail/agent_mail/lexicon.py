"""The words of the generator, which are data: ``lexicon/*.toml``, written by hand.

Documents, honest queries and paraphrases each have words of their own. A concept is put in
several ways in documents (``said``), asked for with some of these words (``asked``), and asked for
with none of them (``other``). A component likewise has a name and a description.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness.core.formats import toml_file

FOLDER = Path(__file__).parent / "lexicon"


@dataclass(frozen=True, slots=True)
class Concept:
    """Something that happens in software work; ``said`` holds ``{c}`` and maybe ``{n}``."""

    name: str
    head: str
    """For a subject line."""
    said: tuple[str, ...]
    asked: str
    other: str


@dataclass(frozen=True, slots=True)
class Component:
    """Something that it happens to."""

    name: str
    path: str
    other: str


@dataclass(frozen=True, slots=True)
class Phrases:
    """A concept in another language."""

    said: tuple[str, ...]
    asked: str


@dataclass(frozen=True, slots=True)
class Language:
    """What can be put in another language than English."""

    name: str
    small: tuple[str, ...]
    concepts: Mapping[str, Phrases]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All words."""

    concepts: Mapping[str, Concept]
    components: Mapping[str, Component]
    heldout: tuple[str, ...]
    """Asked for, and never written about."""
    languages: Mapping[str, Language]
    prose: Mapping[str, tuple[str, ...]]
    names: Mapping[str, tuple[str, ...]]
    frames: Mapping[str, tuple[str, ...]]
    """How people ask."""
    wrapped: tuple[str, ...]
    """Hostile syntax around an honest query, ``{q}``."""
    junk: tuple[str, ...]


@cache
def lexicon() -> Lexicon:
    """Read all words; they are part of the package."""
    concepts: dict[str, Concept] = {}
    for path in sorted((FOLDER / "concepts").glob("*.toml")):
        for name, found in _read(path).items():
            said = tuple(found["said"])
            concepts[name] = Concept(name, found["head"], said, found["asked"], found["other"])
    components = [Component(**row) for row in _read(FOLDER / "components.toml")["component"]]
    questions = _read(FOLDER / "questions.toml")
    hostile = questions.pop("hostile")
    return Lexicon(
        concepts=concepts,
        components={component.name: component for component in components},
        heldout=tuple(row["asked"] for row in _read(FOLDER / "heldout.toml").values()),
        languages=_languages(),
        prose=_lists(_read(FOLDER / "prose.toml")),
        names=_lists(_read(FOLDER / "names.toml")),
        frames=_lists(questions),
        wrapped=tuple(hostile["wrapped"]),
        junk=tuple(hostile["junk"]),
    )


def _languages() -> dict[str, Language]:
    found: dict[str, Language] = {}
    for name, table in _read(FOLDER / "languages.toml").items():
        small = tuple(table.pop("small"))
        concepts = {key: Phrases(tuple(row["said"]), row["asked"]) for key, row in table.items()}
        found[name] = Language(name, small, concepts)
    return found


def _read(path: Path) -> dict[str, Any]:
    return toml_file(path)


def _lists(table: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(values) for key, values in table.items()}
