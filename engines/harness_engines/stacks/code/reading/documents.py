"""Documents of any data set as code, prose or records."""

import codecs
import csv
import io
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.core.errors import BadFile, install
from harness.core.records import Document, Scalar
from harness_engines.kept.headings import headings
from harness_engines.kept.index import utf8
from harness_engines.lexical.terms import mended
from harness_engines.stacks.code.reading import languages, python
from harness_engines.stacks.code.reading.python import decoded
from harness_engines.stacks.code.units import Facts, Mode, Unit, UnitTexts

PYTHON = frozenset({"py", "pyi"})
PROSE_ENDINGS, RECORDS = frozenset({"md", "rst", "txt"}), frozenset({"toml", "json", "csv"})
LINES = {"tsv": "tsv", "jsonl": "jsonl", "yaml": "yaml", "yml": "yaml"}
"""Records that are read as lines of text, and what each is called."""
OTHERS = frozenset(languages.LANGUAGES)
"""Endings of languages that the extra ``languages`` reads."""
READ = PYTHON | PROSE_ENDINGS | RECORDS | LINES.keys() | OTHERS
BIGGEST = 2 << 20
"""Bytes; a bigger file is data, not something that people wrote."""
MOST_LINES = 20
"""Of a document of lines."""
LEVELS = 3
"""Headings below this level are within a section."""


def of_file(path: str, module: str, data: bytes) -> Iterator[Document]:
    """Make the documents of one file.

    A function, method or class is a document, a class without its methods. So is a constant, what
    a module does beside, its docstring, a section of Markdown, and a file of TOML, JSON or CSV.
    TSV, JSON Lines and YAML are cut after so many lines.
    """
    ext = extension(path)
    if ext in OTHERS:
        grammar = languages.GRAMMARS[languages.LANGUAGES[ext]]
        if not grammar.installed:
            problem = f"is {grammar.language}, which tree-sitter reads"
            raise BadFile(path, problem, f"Run: {install(languages.EXTRA)}")
        yield from languages.documents(path, data.removeprefix(codecs.BOM_UTF8), grammar)
        return
    if ext in PYTHON:
        yield from python.documents(path, module, decoded(data))
        return
    text = utf8(path, data)
    if ext in PROSE_ENDINGS:
        yield from _of_page(path, text)
    elif ext in LINES:
        yield from _of_lines(path, text, LINES[ext])
    else:
        about: dict[str, Scalar] = {"path": path, "mode": Mode.RECORDS.value}
        yield Document(path, path.rpartition("/")[2].rpartition(".")[0], text, about)


def is_code(path: str) -> bool:
    """Return whether a file is cut into definitions, beside which it may hold other lines."""
    return extension(path) in PYTHON | OTHERS


def extension(path: str) -> str:
    """Return what follows the last dot, in lower case."""
    return path.rpartition(".")[2].lower() if "." in path else ""


def module_of(path: str) -> str:
    """Name the module of a file by its path."""
    return path.rpartition(".")[0].removesuffix("/__init__").replace("/", ".")


def _of_lines(path: str, text: str, language: str) -> Iterator[Document]:
    """Cut a file after every ``MOST_LINES`` lines; what is blank is left out."""
    every = io.StringIO(text, newline=None).read().split("\n")
    for at in range(0, len(every), MOST_LINES):
        part = every[at : at + MOST_LINES]
        if any(map(str.strip, part)):
            about: dict[str, Scalar] = {
                "path": path, "kind": "lines", "mode": Mode.RECORDS.value, "language": language,
                "lines": f"{at + 1}-{at + len(part)}",
            }  # fmt: skip
            yield Document(f"{path}#{at}", path.rpartition("/")[2], "\n".join(part), about)


def _of_page(path: str, text: str) -> Iterator[Document]:
    """Cut a page at its headings; what stands above the first is a section without a title."""
    found = [one for one in headings(f".{extension(path)}", text) if 1 <= one.level <= LEVELS]
    cuts = [0, *(one.start for one in found), len(text)]
    titles = ["", *(one.title for one in found)]
    for at, title in enumerate(titles):
        part = text[cuts[at] : cuts[at + 1]].strip()
        if part:
            low = text.count("\n", 0, cuts[at]) + 1
            about: dict[str, Scalar] = {
                "path": path, "kind": "section", "mode": Mode.PROSE.value,
                "lines": f"{low}-{low + text.count(chr(10), cuts[at], cuts[at + 1])}",
            }  # fmt: skip
            yield Document(f"{path}#{at}", title, part, about)


DEEPEST = 30
_DEFINITION = re.compile(
    r"^[ \t]*(?:async[ \t]+)?(def|class)[ \t]+(\w+)[ \t]*(\([^()]*\))?", re.MULTILINE
)
_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\(")
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?:#|//)[ \t]*(\S.*)$", re.MULTILINE)
_STRING = re.compile(r'"""(.*?)"""', re.DOTALL)
_PARAM = re.compile(r"(?:\(|,)\s*\**(\w+)")
KEYWORDS = frozenset({"def", "class", "if", "while", "for", "return", "print", "in", "and", "or"})
LANGUAGES: Mapping[str, str] = {
    "py": "python", "pyi": "python", "md": "markdown", "rst": "rst", "txt": "text",
    "toml": "toml", "json": "json", "csv": "csv", **languages.LANGUAGES,
}  # fmt: skip
PROSE_LANGUAGES = frozenset({"markdown", "rst", "text", "english"})
"""Languages that no one would take for code."""


def understand(document: Document) -> Unit:
    """Read a document by its metadata where they say what it is, and by its text where not.

    ``mode``, ``language``, ``path``, ``kind``, ``name``, ``lines``, ``imports``
    (``np=numpy,os=os``), ``own`` (names that the file defines) and ``package`` (which relative
    imports start from) are taken from the metadata. Without ``mode``: what parses as Python and
    defines, imports or sets something is code, and so is what begins with the signature of its own
    title. A JSON object is a record; the rest is prose.
    """
    said = document.metadata
    path = _word(said, "path") or document.doc_id
    ext = extension(path.rpartition("/")[2])
    lang = (_word(said, "language") or LANGUAGES.get(ext, "")).lower()
    mode, (texts, facts) = _read(document, ext, lang)
    texts = UnitTexts(*map(mended, texts))
    if document.title and document.title != texts.name:
        texts = texts._replace(name=f"{document.title} {texts.name}".strip())
    lang = lang or ("python" if mode is Mode.CODE else "")
    return Unit(document.doc_id, mode, lang, path, texts, facts, _word(said, "lines"))


def _read(document: Document, ext: str, lang: str) -> tuple[Mode, python.Read]:
    title, text = document.title, document.text
    said, kind = document.metadata, _word(document.metadata, "kind")
    mode = _word(said, "mode")
    mode = mode if mode in {Mode.CODE, Mode.PROSE, Mode.RECORDS} else ""
    if mode in {"", Mode.RECORDS}:
        known = ext in READERS
        if known or is_record(text):
            record = read_record(title, text, ext if known else "json", kind)
            if record is not None:
                return Mode.RECORDS, record
    if mode in {"", Mode.CODE}:
        sure = bool(mode) or bool(lang and lang not in PROSE_LANGUAGES)
        code = _code(text, lang, said, sure=sure)
        if code is not None:
            return Mode.CODE, code
        signature = python.signature_of(title, text)
        if signature:
            return Mode.CODE, python.read_symbol(title, text, kind, signature)
    prose = python.read_prose(title, text, kind)
    return Mode(mode) if mode else Mode.PROSE, prose


def _code(text: str, lang: str, said: Mapping[str, Scalar], *, sure: bool) -> python.Read | None:
    """Read code; None where it is none, as far as anybody can tell."""
    name, kind = _word(said, "name"), _word(said, "kind")
    own = _pairs(said, "own")
    grammar = languages.GRAMMARS.get(lang)
    if grammar is not None and grammar.installed:
        return languages.read(text, grammar, name=name, kind=kind, own=own)
    tree = python.parsed(text) if lang in {"", "python"} else None
    if tree is not None and tree.body and (sure or python.is_code(tree)):
        given = {"imports": _pairs(said, "imports"), "own": own}
        try:
            package = _word(said, "package")
            return python.read(text, tree, name=name, kind=kind, package=package, **given)
        except (RecursionError, ValueError):  # too deep, or a number of thousands of digits
            return read_snippet(text, name=name, kind=kind)
    if tree is None and (sure or _DEFINITION.search(text)):
        return read_snippet(text, name=name, kind=kind)
    return None


def embedded(document: Document) -> str:
    """Return the text whose vector stands for a document."""
    return f"{document.title} {document.text}".strip()


def _pairs(about: Mapping[str, Scalar], key: str) -> Mapping[str, str]:
    pairs = (one.partition("=") for one in _word(about, key).split(",") if one)
    return {bound: name for bound, _, name in pairs}


def _word(about: Mapping[str, Scalar], key: str) -> str:
    found = about.get(key)
    return "" if found is None else str(found)


def read_snippet(text: str, *, name: str, kind: str) -> tuple[UnitTexts, Facts]:
    """Find the first definition, its parameters, what is called, imported and commented."""
    first = _DEFINITION.search(text)
    symbol = name.rpartition(".")[2] or (first[2] if first else "")
    params = _PARAM.findall(first[3]) if first and first[3] and first[1] == "def" else []
    calls = set(_CALL.findall(text)) - KEYWORDS - {symbol}
    signature = f"{symbol}{first[3] or ''}" if first else ""
    method = params[:1] in (["self"], ["cls"])
    found = {"def": "method" if method else "function", "class": "class"}
    doc = _STRING.search(text)
    facts = Facts(
        type=kind or (found[first[1]] if first else "module"),
        symbol=symbol,
        full=name or symbol,
        exported=bool(symbol) and not symbol.startswith("_"),
        signature=signature,
        params=tuple(dict.fromkeys(params)),
        uses=tuple(sorted(calls)),
        calls=tuple(sorted(calls)),
        imports=tuple(sorted(set(_IMPORT.findall(text)))),
    )
    comments = "\n".join(_COMMENT.findall(text))
    body = _STRING.sub(" ", _COMMENT.sub(" ", text))
    texts = UnitTexts(
        name or symbol, signature, " ".join(doc[1].split()) if doc else "", comments, body
    )
    return texts, facts


def read_record(title: str, text: str, ext: str, kind: str) -> tuple[UnitTexts, Facts] | None:
    """Read a record: keys are its comment field, values its body; None where it does not parse."""
    load = READERS.get(ext)
    if load is None:
        return None
    try:
        entries = list(_flat(load(text), 0))
    except (ValueError, RecursionError, csv.Error):
        return None
    keys = tuple(dict.fromkeys(key for key, _ in entries if key))
    body = "\n".join(value for _, value in entries if value)
    facts = Facts(type=kind or "record", params=keys)
    return UnitTexts(name=title, comment="\n".join(keys), body=body), facts


def is_record(text: str) -> bool:
    """Return whether a text without a name that says so is a record: a JSON object or list."""
    return text.lstrip()[:1] in {"{", "["} and read_record("", text, "json", "") is not None


READERS: Mapping[str, Callable[[str], Any]] = {
    "toml": tomllib.loads,
    "json": json.loads,
    "csv": lambda text: list(csv.DictReader(io.StringIO(text))),
}


def _flat(value: Any, depth: int) -> Iterator[tuple[str, str]]:  # noqa: ANN401  as above
    """Yield (key, value) of everything inside; deeper than ``DEEPEST`` is not read."""
    if depth > DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield mended(str(key)), ""
            yield from _flat(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _flat(inner, depth + 1)
    elif value is not None:
        yield "", str(value)
