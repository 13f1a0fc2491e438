"""Slices: parts of the product that nothing else rests on, each a folder or a package of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from harness.core.errors import DISTRIBUTION, HarnessError

if TYPE_CHECKING:
    from harness.core.evidence import ArmResult

HOME = Path(__file__).parents[1]
GROUP = "harness.parts"
"""Entry points of other packages, each an ``EvidenceKind``."""
RULES = {
    "anytime_failures": "shadow",
    "anytime_overlap": "shadow",
    "anytime_slow": "shadow",
    "queueing": "load",
}
"""Rules of gates by the slice that has them: a policy may name one whose slice is absent."""
CORE = ("core", "pipeline")
"""Folders whose ``evidence.py`` is not of a slice."""
Place = TypeVar("Place")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class EvidenceKind(Generic[Place, Value]):
    """One kind of evidence: all that the core knows of a slice."""

    name: str
    value: type[Value]
    """The key of the evidence; its ``absent`` has the reason and the remedy where it is missing."""
    collect: Callable[[Place, ArmResult, ArmResult], Value | None]
    """Reads what was measured of control and candidate; None where nothing was."""
    artifacts: Callable[[Place], Iterable[Path]]
    """Lists the files that are there and that a decision with this evidence rests on."""
    section: Callable[[Place, Mapping[str, str], Path], Callable[..., Any] | None] | None = None
    """Takes the fingerprints of the arms as they are now, and the folder of a page. Returns what
    gives its ``harness.report.doc.Section`` by the prefix of ids; None where nothing is to be
    shown. With ``now=False`` it describes what was there before this was measured."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Modules of its gates by the rule, each with one class; or ``MODULE:CLASS``."""
    commands: str = ""
    """Module of its commands; a folder below ``harness`` has ``commands.py``."""
    always: bool = True
    """Whether every decision rests on it, or only one with a gate that needs it."""


@cache
def kinds() -> tuple[EvidenceKind[Any, Any], ...]:
    """Find every kind of evidence: ``evidence.py`` of each folder, then those of other packages."""
    own = sorted(path.parent.name for path in HOME.glob("*/evidence.py"))
    found = [import_module(f"{HOME.name}.{name}.evidence") for name in own if name not in CORE]
    return (*(module.KIND for module in found), *added())


@cache
def added() -> tuple[EvidenceKind[Any, Any], ...]:
    """Load the kinds of other packages."""
    found = sorted(entry_points(group=GROUP), key=lambda one: one.name)
    return tuple(one.load() for one in found)


def has(name: str) -> bool:
    """Return whether a slice is there."""
    return (HOME / name / "__init__.py").is_file()


def part(name: str, module: str) -> Any:  # noqa: ANN401  a module, whose types are its own
    """Import a module of a slice, which may be absent."""
    if not has(name):
        raise HarnessError(
            f"the part {name} is not installed. Run: pip install --force-reinstall {DISTRIBUTION}"
        )
    return import_module(f"{HOME.name}.{name}.{module}")
