"""The command line: thin; heavy modules are imported inside commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.exit_codes import as_called, called, ended, introduce

if TYPE_CHECKING:
    import typer

BREAK = re.compile(r"(?<!\n)\n(?!\n)")
"""A line break within a paragraph: rich keeps those of a docstring."""


@cache
def application(typed: str = "") -> typer.Typer:
    """Register every command, or those beside the one ``typed``, when their module is imported."""
    from harness.cli.command import PANELS, app
    from harness.core.parts import has

    homes = {name: home for names in PANELS.values() for name, home in names.items()}
    introduce(homes)
    home = f"harness.{homes.get(typed)}"
    for found in [home] if home in walk() else walk():
        try:
            import_module(found)
        except ModuleNotFoundError as exc:
            package, _, rest = (exc.name or "").partition(".")
            if package != "harness" or has(rest.partition(".")[0]):
                raise  # it is no module of a slice that is absent
    return app


def walk() -> Iterator[str]:
    """Yield the modules of commands: of this folder, of each slice, and of other packages."""
    from harness.core.parts import added

    here = Path(__file__).parent
    yield from (f"{__name__}.{path.stem}" for path in sorted(here.glob("[a-z]*.py")))
    beside = sorted(here.parent.glob("*/commands.py"))
    yield from (f"{here.parent.name}.{path.parent.name}.commands" for path in beside)
    yield from (one.commands for one in added() if one.commands)


@cache
def parser(typed: str = "") -> Any:  # noqa: ANN401  Click's command, which Typer brings along
    """Build the command line from what is on it, once: that takes as long as a small command."""
    from typer.main import get_command

    from harness.cli.command import PANELS

    made: Any = get_command(application(typed))
    panel_of = {name: panel for panel, names in PANELS.items() for name in names}
    found, order = made.commands, [*panel_of]
    order += sorted(found.keys() - panel_of)
    made.commands = {name: found[name] for name in order if name in found}
    for name, one in made.commands.items():
        one.rich_help_panel = panel_of.get(name, "Added")
    _as_called(made)
    return made


def main() -> None:
    """Run the command line, and leave by its exit code."""

    def typed() -> None:
        from harness.report.svg import settle

        settle()
        command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
        parser(command)(prog_name=called())

    sys.exit(ended(typed))


def _as_called(one: Any) -> None:  # noqa: ANN401  Click's command or option
    """Name commands in help texts as they can be typed, and leave line breaks to the terminal."""
    if getattr(one, "help", None):
        one.help = as_called(BREAK.sub(" ", one.help))
    below = (*getattr(one, "params", ()), *getattr(one, "commands", {}).values())
    for part in below:
        _as_called(part)
