"""Models whose files installed packages carry, pinned by digest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from harness.core.digest import of_file
from harness.core.errors import ModelNotReady, UnknownName
from harness.core.extras import install_module


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that an installed package carries; the package's code is never run."""

    package: str
    inside: str
    sha256: str

    def path(self) -> Path:
        """Find the file and check that it is the pinned one.

        Raises:
            ModelNotReady: it is absent or another file.
        """
        return _verified(self)


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """What every model says of itself."""

    name: str
    licence: str
    weights: ModelFile
    tokenizer: ModelFile

    @property
    def identity(self) -> str:
        """The name, and which weights and words they are."""
        return f"{self.name} {self.weights.sha256[:16]}/{self.tokenizer.sha256[:16]}"


AnyModel = TypeVar("AnyModel", bound=PackagedModel)


def called(name: str, table: Sequence[AnyModel], kind: str) -> AnyModel:
    """Look a model of this kind up.

    Raises:
        UnknownName: it is not in the table.
    """
    for known in table:
        if known.name == name:
            return known
    raise UnknownName(kind, name, [known.name for known in table])


@cache
def _verified(file: ModelFile) -> Path:
    spec = find_spec(file.package)
    folders = spec.submodule_search_locations if spec else None
    path = Path(folders[0]) / file.inside if folders else None
    if path is None or not path.is_file():
        raise ModelNotReady(
            f"{file.inside}: the package {file.package} that carries it is not installed."
            f" Run: {install_module(file.package)}"
        )
    if (found := of_file(path)) != file.sha256:
        raise ModelNotReady(
            f"{path}: its SHA-256 is {found}, pinned is {file.sha256}."
            " Delete .venv and run again; what is pinned is installed anew"
        )
    return path
