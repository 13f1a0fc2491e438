"""A document of any data set, taken for what it is: code, prose or a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engines.stacks.code.reading import documented, python_source, snippet, structured
from engines.stacks.code.reading.languages import facts as of_language
from engines.stacks.code.reading.languages import grammars
from engines.stacks.code.unit import Mode, Unit
from harness.core.records import Document, Scalar

LANGUAGES: Mapping[str, str] = {
    "py": "python", "pyi": "python", "md": "markdown", "rst": "rst", "txt": "text",
    "toml": "toml", "json": "json", "csv": "csv", **grammars.LANGUAGES,
}  # fmt: skip
PROSE = frozenset({"markdown", "rst", "text", "english"})
"""Languages that no one would take for code."""


def understand(document: Document) -> Unit:
    """Read a document by its metadata where they say what it is, and by its text where not.

    ``mode``, ``language``, ``path``, ``kind``, ``name``, ``lines``, ``imports``
    (``np=numpy,os=os``), ``own`` (names that the file defines) and ``package`` (which relative
    imports start from) are taken from the metadata.
    Without ``mode``: what parses as Python and defines, imports or sets something is code, and so
    is what begins with the signature of its own title. A JSON object is a record; the rest is
    prose. A language that has a grammar of tree-sitter is read by it. Other code, and Python that
    does not parse, is read by its signs.
    """
    about = _About.of(document)
    mode, (texts, facts) = _read(document, about)
    if document.title and document.title != texts.name:
        texts = texts._replace(name=f"{document.title} {texts.name}".strip())
    lang = about.lang or ("python" if mode is Mode.CODE else "")
    lines = _word(document.metadata, "lines")
    return Unit(document.doc_id, mode, lang, about.path, texts, facts, lines)


@dataclass(frozen=True, slots=True)
class _About:
    """What the metadata say; empty where they do not."""

    path: str
    ext: str
    lang: str
    mode: str
    kind: str
    name: str
    imports: Mapping[str, str]
    own: Mapping[str, str]
    package: str

    @classmethod
    def of(cls, document: Document) -> _About:
        said = document.metadata
        path = _word(said, "path") or document.doc_id
        file = path.rpartition("/")[2]
        ext = file.rpartition(".")[2].lower() if "." in file else ""
        lang = (_word(said, "language") or LANGUAGES.get(ext, "")).lower()
        imports, own = _pairs(said, "imports"), _pairs(said, "own")
        mode = _word(said, "mode")
        if mode not in {"", Mode.CODE, Mode.PROSE, Mode.RECORDS}:
            mode = ""
        kind, name, package = (_word(said, key) for key in ("kind", "name", "package"))
        return cls(path, ext, lang, mode, kind, name, imports, own, package)


def _read(document: Document, about: _About) -> tuple[Mode, python_source.Read]:
    title, text, kind = document.title, document.text, about.kind
    if about.mode in {"", Mode.RECORDS}:
        known = about.ext in structured.READERS
        if known or structured.is_record(text):
            record = structured.read(title, text, about.ext if known else "json", kind)
            if record is not None:
                return Mode.RECORDS, record
    if about.mode in {"", Mode.CODE}:
        code = _code(text, about)
        if code is not None:
            return Mode.CODE, code
        signature = documented.signature_of(title, text)
        if signature:
            return Mode.CODE, documented.read_symbol(title, text, kind, signature)
    prose = documented.read_prose(title, text, kind)
    return Mode(about.mode) if about.mode else Mode.PROSE, prose


def _code(text: str, about: _About) -> python_source.Read | None:
    """Read code; None where it is none, as far as anybody can tell."""
    sure = bool(about.mode) or bool(about.lang and about.lang not in PROSE)
    grammar = grammars.of_language(about.lang)
    if grammar is not None:
        names = {"imports": about.imports, "own": about.own}
        return of_language.read(text, grammar, name=about.name, kind=about.kind, **names)
    tree = python_source.parsed(text) if about.lang in {"", "python"} else None
    if tree is not None and tree.body and (sure or python_source.is_code(tree)):
        try:
            return python_source.read(
                text,
                tree,
                name=about.name,
                kind=about.kind,
                imports=about.imports,
                own=about.own,
                package=about.package,
            )
        except RecursionError:
            return snippet.read(text, name=about.name, kind=about.kind)
    if tree is None and (sure or snippet.looks_like_code(text)):
        return snippet.read(text, name=about.name, kind=about.kind)
    return None


def embedded(document: Document) -> str:
    """Give the text whose vector stands for a document."""
    return f"{document.title} {document.text}".strip()


def _pairs(about: Mapping[str, Scalar], key: str) -> Mapping[str, str]:
    pairs = (one.partition("=") for one in _word(about, key).split(",") if one)
    return {bound: name for bound, _, name in pairs}


def _word(about: Mapping[str, Scalar], key: str) -> str:
    found = about.get(key)
    return "" if found is None else str(found)
