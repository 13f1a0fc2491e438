"""Everything that a reader sees, with its place: strings, docstrings, help, templates, pages."""

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.reference import commands
from tests.source import ROOT, parsed

PACKAGES = ("harness", "engines")
CODE = re.compile(r"`[^`]*`")
FENCE = re.compile(r"^```.*?^```[^\n]*$|^ {4,}\S[^\n]*$|<!--.*?-->", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
BLOCK = re.compile(r"^\s*(?:[*-]|\d+\.|#+)\s+", re.MULTILINE)
UNSEEN = re.compile(
    r"<(script|style)\b.*?</\1>|{#.*?#}|{%.*?%}|</?(?!(?:b|i|a|em|strong|code|span|abbr)\b)[^>]*>",
    re.DOTALL,
)
INLINE = re.compile(r"</?[a-z][^>]*>", re.DOTALL)
VALUE = re.compile(r"{{.*?}}", re.DOTALL)
PARTS = re.compile(r"\n\s*\n|\n(?=\s+[\w.]+: )|\n(?=\s*[*-] )")
"""Where a docstring changes to another paragraph, error or item."""


@dataclass(frozen=True)
class Text:
    """A text that a reader sees; ``line`` counts from 1."""

    file: str
    line: int
    words: str


def everything() -> Iterator[Text]:
    """Yield all that a reader sees."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from strings(_named(path), parsed(path))
            yield from docstrings(_named(path), parsed(path))
        for path in sorted((ROOT / package).rglob("*.j2")):
            yield from template(_named(path), path.read_text(encoding="utf-8"))
    yield from told()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        yield from page(_named(path), path.read_text(encoding="utf-8"))


def told() -> Iterator[Text]:
    """Yield the help of each command; that of its options stands in strings."""
    for _, command in commands():
        function = inspect.unwrap(command.callback)
        file = _named(Path(inspect.getsourcefile(function) or ""))
        for block in (command.help or "").split("\n\n"):
            yield Text(file, function.__code__.co_firstlineno, CODE.sub("code", block))


def strings(file: str, tree: ast.AST) -> Iterator[Text]:
    """Yield the texts of a module: strings of several words that are no docstrings.

    A value within a text counts as one word. Lines of SQL, of code and of formats are left out.
    """
    silent = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            silent.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            silent.update(part for part in ast.walk(node) if isinstance(part, ast.Constant))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            said = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "0" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in silent:
            said = node.value
        else:
            continue
        if _is_prose(said):
            yield Text(file, node.lineno, CODE.sub("code", said))


def docstrings(file: str, tree: ast.Module) -> Iterator[Text]:
    """Yield the docstrings of a module, of its public names and of their fields, by paragraph."""
    for node in _public(tree):
        for before, statement in zip([None, *node.body], node.body, strict=False):
            said = statement.value if isinstance(statement, ast.Expr) else None
            if not isinstance(said, ast.Constant) or not isinstance(said.value, str):
                continue
            if before is None or isinstance(before, ast.Assign | ast.AnnAssign):
                for block in PARTS.split(CODE.sub("code", said.value.replace("``", "`"))):
                    yield Text(file, statement.lineno, block.strip())


def _public(
    node: ast.Module | ast.ClassDef,
) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef]:
    """Yield a module or class, and all within it that a caller may name."""
    yield node
    for part in node.body:
        if isinstance(part, ast.ClassDef) and not part.name.startswith("_"):
            yield from _public(part)
        elif isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
            yield part


def page(file: str, text: str) -> Iterator[Text]:
    """Yield the paragraphs, items and cells of a Markdown page, without its code."""
    text = FENCE.sub(lambda found: "\n" * found.group().count("\n"), text)
    text = LINK.sub(r"\1", CODE.sub(lambda it: "code" + "\n" * it.group().count("\n"), text))
    line = 1
    for block in re.split(r"(\n\s*\n|\n(?=\s*(?:[*-]|\d+\.|#+|\|)\s)|\|)", text):
        if words := BLOCK.sub("", block.strip()).strip(" |-\n"):
            yield Text(file, line, words)
        line += block.count("\n")


def template(file: str, text: str) -> Iterator[Text]:
    """Yield the texts of a Jinja template between its tags; a value counts as one word."""
    text = UNSEEN.sub(lambda found: "\0" + "\n" * found.group().count("\n"), text)
    text = VALUE.sub("0", INLINE.sub("", text))
    line = 1
    for block in text.split("\0"):
        if " " in block.strip():
            yield Text(file, line, block.strip())
        line += block.count("\n")


def _is_prose(said: str) -> bool:
    """Tell a text for people from SQL, code and formats."""
    words = re.findall(r"[A-Za-z][a-z']+", said)
    code = re.search(
        r"\b(?:SELECT|INSERT|CREATE|PRAGMA|FROM|WHERE)\b|[{};]\s*\n|function\s*\(", said
    )
    return len(words) > 1 and " " in said.strip() and not code


def _named(path: Path) -> str:
    return path.resolve().relative_to(ROOT).as_posix()


MOST = 30
"""Words of a sentence."""
BANNED: dict[str, str] = tomllib.loads(Path(__file__).with_name("banned.toml").read_text("utf-8"))
PATTERNS = {re.compile(rf"\b{phrase}\b", re.IGNORECASE): said for phrase, said in BANNED.items()}
END = re.compile(r"(?<=[.!?])[)\"']*\s+|(?<=\.)[)\"']+\s|\n{2,}")
WORD = re.compile(r"\S*\w\S*")


@dataclass(frozen=True)
class Finding:
    """A sentence that breaks a rule: the text that holds it, and what to do."""

    text: Text
    sentence: str
    hint: str

    def __str__(self) -> str:
        return f"{self.text.file}:{self.text.line}: {self.sentence!r}\n    {self.hint}"


def findings(text: Text) -> Iterator[Finding]:
    """Yield what breaks a rule in a text, sentence by sentence."""
    for sentence in END.split(text.words):
        plain = " ".join(sentence.split())
        for pattern, said in PATTERNS.items():
            if hit := pattern.search(plain):
                yield Finding(text, plain, f"{hit.group()!r} is banned. Write: {said}")
        if (length := len(WORD.findall(plain))) > MOST:
            yield Finding(text, plain, f"{length} words, {MOST} are allowed. Split the sentence")
