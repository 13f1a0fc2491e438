"""What names stand for in a file of another language: its module's name, and its imports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING

from engines.stacks.code.reading.languages.grammars import Grammar
from engines.stacks.code.reading.languages.nodes import is_name, text_of, walk

if TYPE_CHECKING:
    from tree_sitter import Node

ROOTS = frozenset({"lib", "main", "mod"})
"""Files of Rust that bear the name of their folder."""
SOURCES = "src"


def module_of(path: str, root: Node, grammar: Grammar) -> str:
    """Name the module of a file, with dots, as those that import it would.

    That is the package in Java, the folder in Go, and else the file without its ending.
    """
    bare = path.rpartition(".")[0]
    if grammar.language == "java":
        found = next(
            (one for one in root.named_children if one.type == "package_declaration"), None
        )
        return text_of(found.named_children[-1]) if found else _dots(dirname(path)) or "unnamed"
    if grammar.language == "go":
        package = next((one for one in root.named_children if one.type == "package_clause"), None)
        named = text_of(package.named_children[0]) if package and package.named_children else ""
        return _dots(dirname(path)) or named or "main"
    if grammar.language == "rust":
        return _of_crate(bare)
    return _script(bare)


def bound(root: Node, path: str, module: str, grammar: Grammar) -> Mapping[str, str]:
    """Say of each name that an import binds what it stands for."""
    found: dict[str, str] = {}
    read = {"go": _of_go, "rust": _of_rust, "java": _of_java}.get(grammar.language)
    for node in root.named_children:
        if read is not None and node.type in grammar.imports:
            found.update(read(node, module))
        elif read is None:
            found.update(_of_script(node, path))
    return {name: full for name, full in found.items() if name and not {",", "="} & set(full)}


def type_name(node: Node) -> str:
    """Give the plain name of a type: of ``(p *Price[T])`` and ``Price<T>`` it is Price."""
    names = [one for one in walk(node) if one.type == "type_identifier"]
    return text_of(names[0]) if names else ""


def first_name(node: Node) -> str:
    """Give the first plain name below a node."""
    return next((text_of(one) for one in walk(node) if one.type == "identifier"), "")


def _dots(path: str) -> str:
    return path.strip("./").replace("/", ".")


def _script(path: str) -> str:
    """Name a file of JavaScript; ``index`` bears the name of its folder."""
    return _dots(path.removesuffix("/index")) or path


def _of_crate(bare: str) -> str:
    """Name a file of Rust by its crate, which is the folder around ``src``."""
    folders = bare.split("/")
    if SOURCES in folders:
        at = folders.index(SOURCES)
        folders = [folders[at - 1] if at else "crate", *folders[at + 1 :]]
    if len(folders) > 1 and folders[-1] in ROOTS:
        folders.pop()
    return ".".join(folders)


def _of_go(node: Node, module: str) -> Iterator[tuple[str, str]]:
    del module
    for spec in walk(node):
        if spec.type == "import_spec":
            full = text_of(spec.child_by_field_name("path")).strip('"`')
            name = text_of(spec.child_by_field_name("name")) or full.rpartition("/")[2]
            yield name, full.replace("/", ".")


def _of_java(node: Node, module: str) -> Iterator[tuple[str, str]]:
    del module
    full = next((text_of(one) for one in node.named_children if one.type != "asterisk"), "")
    if node.type == "import_declaration" and "asterisk" not in {one.type for one in node.children}:
        yield full.rpartition(".")[2], full


def _of_rust(node: Node, module: str) -> Iterator[tuple[str, str]]:
    argument = node.child_by_field_name("argument")
    if argument is not None:
        yield from _used(argument, "", module)


def _used(node: Node, before: str, module: str) -> Iterator[tuple[str, str]]:
    """Yield the names of a tree of ``use``."""
    if node.type == "use_as_clause":
        full = _joined(before, text_of(node.child_by_field_name("path")), module)
        yield text_of(node.child_by_field_name("alias")), full
    elif node.type == "scoped_use_list":
        below = _joined(before, text_of(node.child_by_field_name("path")), module)
        listed = node.child_by_field_name("list")
        for one in listed.named_children if listed is not None else ():
            yield from _used(one, below, module)
    elif node.type == "use_list":
        for one in node.named_children:
            yield from _used(one, before, module)
    elif node.type != "use_wildcard":
        full = before if node.type == "self" else _joined(before, text_of(node), module)
        yield full.rpartition(".")[2], full


def _joined(before: str, path: str, module: str) -> str:
    """Resolve ``crate``, ``self`` and ``super`` at the start of a path."""
    parts = [part.strip() for part in path.split("::") if part.strip()]
    here = module.split(".")
    if not before and parts and parts[0] in {"crate", "self", "super"}:
        start = {"crate": here[:1], "self": here, "super": here[:-1]}[parts[0]]
        parts = [*start, *parts[1:]]
    return ".".join([*([before] if before else []), *parts])


def _of_script(node: Node, path: str) -> Iterator[tuple[str, str]]:
    if node.type == "import_statement":
        full = _imported(text_of(node.child_by_field_name("source")), path)
        for one in walk(node):
            if one.type == "import_specifier":
                name = text_of(one.child_by_field_name("name"))
                yield text_of(one.child_by_field_name("alias")) or name, f"{full}.{name}"
            elif one.type == "namespace_import":
                yield first_name(one), full
            elif one.type == "import_clause":
                for name in (text_of(kid) for kid in one.named_children if is_name(kid)):
                    yield name, f"{full}.{name}"
        return
    for one in walk(node) if node.type.endswith("declaration") else ():
        if one.type == "variable_declarator":
            yield from _required(one, path)


def _required(node: Node, path: str) -> Iterator[tuple[str, str]]:
    """Read ``const a = require("./b")`` and ``const {a, b} = require("./c")``."""
    value, name = node.child_by_field_name("value"), node.child_by_field_name("name")
    if value is None or name is None or value.type != "call_expression":
        return
    given = value.child_by_field_name("arguments")
    if text_of(value.child_by_field_name("function")) != "require" or given is None:
        return
    full = _imported(text_of(given).strip("() "), path)
    if is_name(name):
        yield text_of(name), full
    for one in name.named_children if name.type == "object_pattern" else ():
        if one.type == "shorthand_property_identifier_pattern":
            yield text_of(one), f"{full}.{text_of(one)}"


def _imported(source: str, path: str) -> str:
    """Name a module as its file does, where it is given by a relative path."""
    named = source.strip("\"'`")
    if not named.startswith("."):
        return named
    where = normpath(join(dirname(path), named))
    ending = where.rpartition(".")[2]
    return _script(where.removesuffix(f".{ending}") if ending in {"js", "mjs", "ts"} else where)
