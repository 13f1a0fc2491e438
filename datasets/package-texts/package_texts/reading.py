"""What the installed packages carry to be read: descriptions, guides, licences, reference pages.

Of a package these are texts: the description that its ``METADATA`` holds, every source file with
docstrings. Where the wheel is the same on every platform, its files of text count, licences
among them. Tests, what a package carries of others, and tables of names are left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from importlib.metadata import Distribution, PackagePath
from pathlib import Path
from typing import NamedTuple

from python_docs.modules import parse

from harness.core.errors import DatasetError
from package_texts.parts import Part, of_description, of_module, of_text

LEFT_OUT = frozenset({"tests", "test", "testing", "_vendor", "vendor", "vendored", "externals"})
TEXTS = frozenset({".md", ".rst", ".txt"})
RIGHTS = ("licen", "copying")
PURE = "Root-Is-Purelib: true"


class Text(NamedTuple):
    """One document to be."""

    doc_id: str
    package: str
    kind: str
    """``description``, ``reference``, ``text`` or ``licence``."""
    parts: tuple[Part, ...]


def texts(packages: Iterable[str]) -> Iterator[Text]:
    """Read the packages, in the order of their names; a file is read when its turn comes.

    Raises:
        DatasetError: a package is not installed, or a source file is not for this Python.
    """
    for name in sorted(packages):
        found = distribution(name)
        about = found.metadata.json
        summary, said = (str(about.get(key, "")) for key in ("summary", "description"))
        description = of_description(name, " ".join(summary.split()), said)
        yield Text(f"{name}/description", name, "description", (description,))
        whole = PURE in (found.read_text("WHEEL") or "").splitlines()
        for path in sorted(found.files or (), key=PackagePath.as_posix):
            if path.suffix == ".py" and not LEFT_OUT.intersection(path.parts):
                yield Text(path.as_posix(), name, "reference", _reference(path))
            elif whole and (kind := _kind(path)):
                text = Path(str(path.locate())).read_bytes().decode("utf-8", "replace")
                yield Text(_own_id(name, path), name, kind, (of_text(text),))


def distribution(name: str) -> Distribution:
    """Find an installed package.

    Raises:
        DatasetError: it is not there.
    """
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError as exc:
        raise DatasetError(
            f"the package {name} is not installed, and its texts are part of the data set;"
            " install the versions that requirements.lock names"
        ) from exc


def _reference(path: PackagePath) -> tuple[Part, ...]:
    where = Path(str(path.locate()))
    try:
        return tuple(of_module(parse(_module(path.parts), where)))
    except (OSError, SyntaxError, ValueError) as exc:
        raise DatasetError(
            f"{where}: cannot be read as Python ({exc}). Install the versions that"
            " requirements.lock names, or take its package out of the card"
        ) from exc


def _module(parts: Sequence[str]) -> str:
    return ".".join(parts).removesuffix(".py").removesuffix(".__init__")


def _kind(path: PackagePath) -> str:
    """Tell what a file of text is; empty where it is none that people read."""
    described = path.parts[0].endswith(".dist-info")
    rights = any(word in path.name.lower() for word in RIGHTS)
    if LEFT_OUT.intersection(path.parts) or (described and not rights):
        return ""
    if rights and path.suffix.lower() in TEXTS | {""}:
        return "licence"
    return "text" if path.suffix.lower() in TEXTS else ""


def _own_id(name: str, path: PackagePath) -> str:
    """Leave the version out, which the folder of a package's description has in its name."""
    described = path.parts[0].endswith(".dist-info")
    parts = (name, *path.parts[1:]) if described else path.parts
    return "/".join(parts).replace(" ", "_")
