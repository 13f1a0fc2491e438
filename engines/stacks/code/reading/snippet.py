"""Code that does not parse: Python 2, cut off, or of another language. Read by its signs alone."""

from __future__ import annotations

import re

from engines.stacks.code.unit import Facts, Texts

_DEFINITION = re.compile(
    r"^[ \t]*(?:async[ \t]+)?(def|class)[ \t]+(\w+)[ \t]*(\([^()]*\))?", re.MULTILINE
)
_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\(")
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?:#|//)[ \t]*(\S.*)$", re.MULTILINE)
_STRING = re.compile(r'"""(.*?)"""', re.DOTALL)
_PARAM = re.compile(r"(?:\(|,)\s*\**(\w+)")
KEYWORDS = frozenset({"def", "class", "if", "while", "for", "return", "print", "in", "and", "or"})


def looks_like_code(text: str) -> bool:
    """Tell whether a text that is not Python of today defines something all the same."""
    return bool(_DEFINITION.search(text))


def read(text: str, *, name: str, kind: str) -> tuple[Texts, Facts]:
    """Find the first definition, its parameters, what is called, imported and commented.

    No types, no risks: a rule that reads signs would guess. ``name`` and ``kind`` as in
    ``python_source.read``.
    """
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
    texts = Texts(
        name or symbol, signature, " ".join(doc[1].split()) if doc else "", comments, body
    )
    return texts, facts
