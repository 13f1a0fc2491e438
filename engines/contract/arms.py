"""Arms: named variants of a stack, one TOML file each; the folder is the registry."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from pydantic import BaseModel, ValidationError

from engines.stacks import text
from harness.core.engine import Engine
from harness.core.errors import BadPolicy, UnknownName

FOLDER = Path(__file__).parent.parent / "arms"
KEYS = {"summary", "stack", "settings"}


@dataclass(frozen=True, slots=True)
class Arm:
    """A stack with its settings, ready to build and open indexes."""

    name: str
    summary: str
    """One sentence for the report."""
    engine: Engine
    path: Path


def names() -> tuple[str, ...]:
    """Every arm of ``engines/arms``, in alphabetical order."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def path_of(name: str) -> Path:
    """Find the file of an arm: a name in ``engines/arms`` or a path to a TOML file.

    Raises:
        UnknownName: neither exists.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file():
        raise UnknownName("arm", name, (*names(), "or a path to a .toml file"))
    return path


def load(name: str, cache: Path) -> Arm:
    """Make the arm called ``name``; what it may keep between runs goes below ``cache``.

    Raises:
        UnknownName: no such arm or stack.
        BadPolicy: the file is not TOML, or a key is unknown, missing or of the wrong type.
    """
    path = path_of(name)
    try:
        about = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as exc:
        raise BadPolicy(path, f"not TOML: {exc}", "Mend the syntax") from exc
    if set(about) - KEYS or not {"summary", "stack"} <= set(about):
        raise BadPolicy(
            path,
            f"has the keys {sorted(about)}",
            "An arm has summary and stack, and may have a [settings] table",
        )
    stack = _stack(path, str(about["stack"]))
    try:
        engine = stack.engine(about.get("settings", {}), cache)
    except ValidationError as exc:
        first = exc.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise BadPolicy(
            path, f"settings.{key}: {first['msg']}", _cure(stack), _line(path, key)
        ) from exc
    return Arm(path.stem, str(about["summary"]), engine, path)


def _stack(path: Path, stack: str) -> ModuleType:
    """Import a built-in stack, or a Python file beside the arm's own."""
    if stack.endswith(".py"):
        file = path.parent / stack
        spec = spec_from_file_location(file.stem, file) if file.is_file() else None
        if spec is None or spec.loader is None:
            raise BadPolicy(path, f"stack: no file {file}", "Name a Python file beside this one")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    known = tuple(sorted(module.name for module in iter_modules(text.__path__)))
    if stack not in known:
        raise UnknownName("stack", stack, (*known, "or a Python file beside the arm"))
    return import_module(f"{text.__name__}.{stack}")


def _cure(stack: ModuleType) -> str:
    settings: type[BaseModel] | None = getattr(stack, "Settings", None)
    keys: Any = sorted(settings.model_fields) if settings else []
    return f"The stack {stack.__name__.rsplit('.', 1)[-1]} has the settings {', '.join(keys)}"


def _line(path: Path, key: str) -> int | None:
    """Line of the first assignment to ``key``'s last part, from 1."""
    last = key.rsplit(".", 1)[-1]
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.split("=")[0].strip() == last:
            return number
    return None
