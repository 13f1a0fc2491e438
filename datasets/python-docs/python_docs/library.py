"""The installed packages: names followed through imports to what they stand for."""

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import DatasetError
from python_docs.modules import Module, Source, parse


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or class at the level of a module, and where it stands."""

    module: str
    source: Source

    @property
    def where(self) -> str:
        """Name of the place, unique within the packages."""
        return f"{self.module}.{self.source.name}"


class Library:
    """The source of some packages, each file parsed once, when it is first asked for.

    Raises:
        DatasetError: a package is not installed.
    """

    def __init__(self, packages: Iterable[str]) -> None:
        self._roots = {package: _root(package) for package in packages}
        self._modules: dict[str, Module | None] = {}
        self._exports: dict[str, frozenset[str]] = {}

    def module(self, name: str) -> Module | None:
        """Parse a module; None where the packages have no source file of that name."""
        if name not in self._modules:
            path = self._path(name)
            self._modules[name] = parse(name, path) if path else None
        return self._modules[name]

    def exports(self, name: str) -> frozenset[str]:
        """Names that ``from name import *`` binds, less those that ``__all__`` gets at run time."""
        if name not in self._exports:
            self._exports[name] = frozenset()  # ends a circle of star imports
            found = self.module(name)
            if found is not None:
                listed = found.listed
                self._exports[name] = self._bound(found) if listed is None else listed
        return self._exports[name]

    def shown(self, name: str) -> frozenset[str]:
        """Names that a module shows to its users: those in ``__all__``, else all it binds."""
        found = self.module(name)
        if found is None:
            raise DatasetError(f"unknown module {name}; take it out of the card's namespaces")
        if found.listed is not None and found.listed_whole:
            return found.listed
        return self._bound(found)

    def resolve(self, module: str, name: str) -> Definition | None:
        """Follow imports from ``name`` in ``module`` to a definition; None where there is none."""
        return self._follow(module, name, frozenset())

    def _follow(
        self, module: str, name: str, passed: frozenset[tuple[str, str]]
    ) -> Definition | None:
        found = self.module(module)
        if found is None or (module, name) in passed:
            return None
        if name in found.definitions:
            return Definition(module, found.definitions[name])
        on = passed | {(module, name)}
        if name in found.imported:
            return self._follow(*found.imported[name], on)
        for star in reversed(found.starred):
            if name in self.exports(star) and (there := self._follow(star, name, on)):
                return there
        return None

    def _bound(self, module: Module) -> frozenset[str]:
        names = set(module.definitions) | set(module.imported)
        return frozenset(n for n in names if not n.startswith("_")).union(
            *(self.exports(star) for star in module.starred)
        )

    def _path(self, name: str) -> Path | None:
        package, *parts = name.split(".")
        if package not in self._roots:
            return None
        here = self._roots[package].joinpath(*parts)
        paths = (here / "__init__.py", here.parent / f"{here.name}.py")
        return next((path for path in paths if path.is_file()), None)


def _root(package: str) -> Path:
    # For a name without a dot, find_spec looks for the file and runs nothing.
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise _missing(package)
    return Path(spec.origin).parent


def _missing(package: str) -> DatasetError:
    return DatasetError(
        f"the package {package} is not installed, and its documentation is part of the data set;"
        " install the versions that requirements.lock names"
    )
