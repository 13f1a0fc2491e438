"""Public functions, classes and methods of the installed packages, with their docstrings.

An object is public if one of the *namespaces* of the card leads to it: the modules whose names
users import. In a namespace, a name counts if it has no leading underscore. The imports that
stand in the source must lead to a definition that either lies in the namespace's own file or
folder, or that its ``__all__`` lists by name. So ``numpy.median`` is found in
``numpy/lib/_function_base_impl.py`` and ``scipy.signal.butter`` in
``scipy/signal/_filter_design.py``, while helpers that a module imports from elsewhere, tests,
vendored code and shims are not.

An object that several namespaces show is one document. It is named by the namespace whose folder
holds it, then by the fewest dots, then in byte order; the other names are remembered as aliases.
Methods come with public classes. A method of a base class that has no public name comes with the
first public class that inherits it, and is an alias in the others. So is an object whose
docstring is that of another word for word. Properties are not harvested,
nor is what has no docstring in Python (numpy's ufuncs), nor what is deprecated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from python_docs.library import Definition, Library
from python_docs.modules import Source
from python_docs.numpydoc import Docstring, take_apart, unindented

ATTRIBUTES = frozenset({"property", "cached_property", "setter", "deleter", "cache_readonly"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One object that users can name."""

    name: str
    """Its qualified public name, e.g. ``pandas.DataFrame.merge``."""
    kind: str
    """``function``, ``class`` or ``method``."""
    namespace: str
    """The module that users import it from."""
    arguments: tuple[str, ...]
    docstring: Docstring

    @property
    def bare(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class Harvest:
    """All objects by byte order of their names, and what else they are called."""

    entries: tuple[Entry, ...]
    aliases: Mapping[str, str]
    """Every public name, the chosen one too, to the chosen one."""


def harvest(namespaces: Sequence[str]) -> Harvest:
    """Read the packages; the order of ``namespaces`` does not matter.

    Raises:
        DatasetError: a package is not installed.
    """
    library = Library({namespace.partition(".")[0] for namespace in namespaces})
    shown: dict[str, list[tuple[str, str]]] = {}
    defined: dict[str, Definition] = {}
    for namespace in namespaces:
        for name, found in _public(library, namespace):
            defined[found.where] = found
            shown.setdefault(found.where, []).append((namespace, f"{namespace}.{name}"))
    names = {where: sorted(given, key=lambda n: _rank(where, n)) for where, given in shown.items()}
    entries: dict[str, Entry] = {}
    aliases: dict[str, str] = {}
    taken: dict[str, str] = {}
    for where in sorted(names, key=lambda w: (names[w][0][1].count("."), names[w][0][1])):
        namespace, name = names[where][0]
        members = _members(library, defined[where], frozenset(defined))
        for suffix, place, source in [("", where, defined[where].source), *members]:
            first = taken.setdefault(place, name + suffix)
            aliases.update({other + suffix: first for _, other in names[where]})
            if first == name + suffix and (entry := _entry(first, namespace, suffix, source)):
                entries[first] = entry
    for where, given in names.items():  # all classes are named now, so what they inherit is
        for suffix, place, _ in _members(library, defined[where], frozenset()):
            for other in (name for _, name in given if place in taken):
                aliases.setdefault(other + suffix, taken[place])
    same = _copies(entries)
    kept = {alias: same[name] for alias, name in aliases.items() if name in entries}
    return Harvest(tuple(entries[name] for name in sorted(set(same.values()))), kept)


def _copies(entries: Mapping[str, Entry]) -> Mapping[str, str]:
    """For each name, the first one whose docstring is the same word for word."""
    first: dict[Docstring, str] = {}
    return {
        name: first.setdefault(found, name) if (found := entries[name].docstring).body else name
        for name in sorted(entries, key=lambda name: (name.count("."), name))
    }


def _public(library: Library, namespace: str) -> Iterator[tuple[str, Definition]]:
    module = library.module(namespace)
    listed = (module.listed if module else None) or frozenset()
    for name in sorted(library.shown(namespace)):
        found = library.resolve(namespace, name)
        if found is None or name.startswith("_"):
            continue
        if f"{found.module}.".startswith(f"{namespace}.") or name in listed:
            yield name, found


def _rank(where: str, shown: tuple[str, str]) -> tuple[bool, int, str]:
    namespace, name = shown
    return not where.startswith(f"{namespace}."), name.count("."), name


def _members(
    library: Library, definition: Definition, without: frozenset[str]
) -> list[tuple[str, str, Source]]:
    """Methods of a class and its bases, except the bases ``without``: suffix, place, source."""
    members: dict[str, tuple[str, str, Source]] = {}
    waiting, passed = [definition], {definition.where}
    for owner in waiting:
        for member in owner.source.members:
            place = f"{owner.where}.{member.name}"
            members.setdefault(member.name, (f".{member.name}", place, member))
        for base in owner.source.bases:
            above = library.resolve(owner.module, base)
            if above and above.where not in passed | without:
                passed.add(above.where)
                waiting.append(above)
    return [member for name, member in members.items() if not name.startswith("_")]


def _entry(name: str, namespace: str, suffix: str, source: Source) -> Entry | None:
    marks = source.decorators
    if not source.docstring or marks & ATTRIBUTES or _is_deprecated(source):
        return None
    kind = "method" if suffix else "class" if source.is_class else "function"
    docstring = take_apart(source.docstring, source.name)
    return Entry(name, kind, namespace, source.arguments, docstring)


def _is_deprecated(source: Source) -> bool:
    """Tell whether the object goes, and not only one of its parameters (which is indented)."""
    marked = bool(source.decorators & {"deprecate", "deprecated"})
    lines = unindented(source.docstring)
    return marked or any(line.startswith(".. deprecated::") for line in lines)
