"""Arms: named variants of a stack, one TOML file each; the folder is the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from harness.core.engine import Engine, Manifest, Searcher
from harness.core.errors import BadPolicy, InvalidArm, UnknownName
from harness.core.formats import toml_file
from harness.core.names import Place, checked
from harness.core.reading import Malformed
from harness.core.records import Document, Scalar
from harness_engines import contract, function, stacks
from harness_engines.contract import line_of_key, line_of_value, opened_whole, with_values

FOLDER = Path(__file__).parent / "arms"
KEYS = {"summary", "stack", "settings", "tuning"}
TEXT = ("blend", "dense", "fts5", "hybrid", "rerank", "tantivy")
"""Stacks of one module, which makes the engine."""
PACKAGES = {
    "code": "code.arm",
    "documents": "documents.arm",
    "http": "http.arm",
    "lucene": "lucene",
    "mail": "agent_mail.arm",
    "postgres": "postgres",
    "typesense": "typesense",
    "writing": "writing.arm",
}
"""Other stacks, and which module makes the engine."""
SERVED = {"http", "postgres", "typesense"}
"""Of them, those whose index a server holds."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A stack with its settings, ready to build and open indexes."""

    name: str
    summary: str
    """One sentence for the report."""
    engine: Engine
    path: Path
    shared: bool = False
    """Whether several processes may have an index open: its stack is ours and reads files."""
    tuning: Path | None = None
    """The record of how its settings were searched for; None where its file names none."""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """As the engine got them."""

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Write an index into the empty folder ``index``."""
        with _written_in(self.path), contract.named(self.name, "its index cannot be built"):
            return self.engine.build(documents, index)

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Open what ``build`` wrote."""
        with ExitStack() as until_closed:
            with _written_in(self.path), contract.named(self.name, "its index cannot be opened"):
                searcher = until_closed.enter_context(opened_whole(self.engine, index))
            with contract.named(self.name, "its engine ended", only=SystemExit):
                yield searcher


def names() -> tuple[str, ...]:
    """Every arm of ``engines/harness_engines/arms``, in alphabetical order."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def name_of(given: str) -> str:
    """Return the name of an arm that is given by name, file or function."""
    if place := Place.of(given):
        return place.name
    return path_of(given).stem if "/" in given or given.endswith(".toml") else given


def path_of(name: str) -> Path:
    """Find the file of an arm: a name in the folder ``arms`` or a path to a TOML file."""
    if name.endswith((".py", "/")) or ("/" in name and not name.endswith(".toml")):
        raise InvalidArm(
            f"{name}: an arm is a .toml file that names its code, or FILE.py:FUNCTION. Give that"
        )
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{checked('an arm', name)}.toml"
    checked("an arm", path.stem)
    if not path.is_file() and name.endswith(".toml"):
        raise InvalidArm(f"{name}: no such file. Correct the path of the arm")
    if not path.is_file():
        raise UnknownName("arm", name, (*names(), "or a path to a .toml file"))
    return path


def load(name: str, cache: Path, instead: Mapping[str, Scalar] | None = None) -> Arm:
    """Make the arm called ``name``; what it may keep between runs goes below ``cache``.

    ``name`` may be a function, as ``module:function``. ``instead`` are values in place of those of
    its file, by dotted key (``words.title_weight``).
    """
    if place := Place.of(name):
        found, file = function.load(place)
        return Arm(place.name, f"the function {name}", found, file)
    path = path_of(name)
    about = _read(path)
    settings = with_values(about.get("settings", {}), instead or {})
    contract.check_allowed(path, about["stack"], settings)
    with _written_in(path):
        stack = _stack(path, about["stack"])
    try:
        with (
            _written_in(path),
            contract.named(path.stem, "its engine cannot be made", but=ValidationError),
        ):
            engine = stack.engine(settings, cache)
    except ValidationError as exc:
        first = min(exc.errors(), key=lambda error: error["type"] != "extra_forbidden")
        key = ["settings", *_written(settings, first["loc"])]
        known = getattr(getattr(stack, exc.title, None), "model_fields", ())
        hint = f"The stack {about['stack']} has the settings {', '.join(sorted(known))}"
        problem = f"{'.'.join(key)}: {first['msg']}"
        raise BadPolicy(path, problem, hint, line_of_key(path, key)) from exc
    return Arm(
        path.stem,
        about["summary"],
        engine,
        path,
        shared=is_shared(about["stack"]),
        tuning=path.parent / about["tuning"] if "tuning" in about else None,
        settings=settings,
    )


def is_shared(stack: str) -> bool:
    """Return whether processes may share an index of ``stack``: it is ours, and no server's."""
    return stack not in SERVED and not stack.startswith("remote/") and stack in known_stacks()


def _read(path: Path) -> dict[str, Any]:
    """Read the file of an arm, and check its keys."""
    try:
        about = toml_file(path)
    except Malformed as exc:
        raise BadPolicy(path, f"not TOML: {exc}", "Correct it", exc.line) from exc
    hint = (
        "An arm has a summary and a stack, both text, and may have a [settings] table and the name"
        " of its tuning record"
    )
    for key in sorted(set(about) - KEYS):
        raise BadPolicy(path, f"{key}: no such key", hint, line_of_key(path, [key]))
    for key in sorted({"summary", "stack"} - set(about)):
        raise BadPolicy(path, f"{key}: is missing", hint)
    for key, value in about.items():
        if not isinstance(value, dict if key == "settings" else str):
            raise BadPolicy(path, f"{key}: is {value!r}", hint, line_of_key(path, [key]))
    return about


def _stack(path: Path, stack: str) -> ModuleType:
    """Import a built-in stack, or a Python file beside the arm's own."""
    if stack.endswith(contract.SUFFIX):
        return contract.module_of(path, stack)
    known = known_stacks()
    if stack not in known:
        raise UnknownName("stack", stack, (*known, "or a Python file beside the arm"))
    with contract.named(path.stem, f"the stack {stack} cannot be imported"):
        return import_module(f"{stacks.__name__}.{known[stack]}")


@contextmanager
def _written_in(path: Path) -> Iterator[None]:
    """Return the file and the line of a name that the block does not know."""
    try:
        yield
    except UnknownName as exc:
        hint = f"Write {exc.meant}" if exc.meant else "Write one of these"
        raise BadPolicy(path, exc.problem, hint, line_of_value(path, exc.name)) from exc


def known_stacks() -> Mapping[str, str]:
    """Every built-in stack, and its module below ``harness_engines.stacks``."""
    here = {name: f"text.{name}" for name in TEXT}
    return {**dict(sorted({**here, **PACKAGES}.items())), "remote/mcp": "remote"}


def _written(settings: Mapping[str, Any], loc: Sequence[str | int]) -> list[str]:
    """Reduce a place in settings to keys as they are written, and a last that may be missing."""
    found: list[str] = []
    within: Any = settings
    for at, part in enumerate(loc, start=1):
        if isinstance(within, dict) and part in within:
            within = within[part]
            found.append(str(part))
        elif at == len(loc):
            found.append(str(part))
    return found
