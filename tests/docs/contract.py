"""The tables of promises in docs/contract.md, and whether a user can go the ways in them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from pydantic import BaseModel

from harness.cli import parser
from harness_engines.kept.kit import KITS
from harness_engines.mcp_server import parameters
from harness_engines.stacks.agent_mail.mcp_tools.arguments import (
    DeleteMessage,
    EditMessage,
    InsertMessage,
)
from harness_engines.stacks.agent_mail.mcp_tools.server import TOOLS
from tests.docs.pages import page, pages

PAGE = page("docs/contract.md")
ROW = re.compile(
    r"^\| (?P<name>[A-Z]-[^|]+) \| (?P<promise>[^|]+) \| (?P<ways>[^|]+) \|", re.MULTILINE
)
WAYS = re.compile(r"`[^`]+`(?:, `[^`]+`)*")


@dataclass(frozen=True, slots=True)
class Row:
    """One promise, and how a user reaches it."""

    name: str
    promise: str
    reached_by: tuple[str, ...]


def rows() -> tuple[Row, ...]:
    """Read the rows of all tables of the page."""
    return tuple(
        Row(one["name"], one["promise"], ways(one["ways"])) for one in ROW.finditer(PAGE.text)
    )


def ways(cell: str) -> tuple[str, ...]:
    """Read a cell of the table."""
    if not WAYS.fullmatch(cell):
        raise ValueError(f"not `command`, `tool(argument)` or `a.documented.call`: {cell}")
    return tuple(cell.strip("`").split("`, `"))


TOOL = re.compile(r"(\w+)\(([\w, ]+)\)")
CALL = re.compile(r"(?:harness_engines|harness)(?:\.\w+)+")
CONTRACT = "docs/contract.md"


def missing(way: str) -> str:
    """Return what of a way is not there; empty where a user can go it."""
    if way.startswith("harness "):
        return _command(way.split()[1:])
    if found := TOOL.fullmatch(way):
        return _tool(found[1], found[2].split(", "))
    return _call(way) if CALL.fullmatch(way) else f"{way} is no way"


def _command(words: list[str]) -> str:
    group: Any = parser()
    while words and not words[0].startswith("-"):
        group = getattr(group, "commands", {}).get(words[0])
        if group is None:
            return f"there is no command {words[0]}"
        words = words[1:]
    if hasattr(group, "commands"):
        return f"{group.name} is a group of commands"
    known = {name for one in group.params for name in (*one.opts, *one.secondary_opts)}
    return ", ".join(f"there is no option {word}" for word in words if word not in known)


def _tool(name: str, arguments: list[str]) -> str:
    if name not in tools():
        return f"there is no tool {name}"
    known = tools()[name]
    return ", ".join(f"{name} takes no {one}" for one in arguments if one not in known)


@cache
def tools() -> Mapping[str, frozenset[str]]:
    """Return the arguments of each tool that a server of this project offers."""
    takes: dict[str, type[BaseModel]] = {name: offered.takes for name, offered in TOOLS.items()}
    takes |= {"insert_message": InsertMessage, "edit_message": EditMessage}
    takes |= {"delete_message": DeleteMessage, **{kit.tool: kit.takes for kit in KITS}}
    return {name: frozenset(parameters(kind)["properties"]) for name, kind in takes.items()}


def _call(way: str) -> str:
    parts = way.split(".")
    for at in range(len(parts), 0, -1):
        module, names = ".".join(parts[:at]), parts[at:]
        try:
            found: Any = import_module(module)
        except ModuleNotFoundError:
            continue
        break
    else:
        return f"there is no module of {way}"
    for name in names:
        found = getattr(found, name, None)
    if not callable(found) and names:
        return f"{way} cannot be called"
    told = re.compile(rf"\b{parts[-1]}\b")
    elsewhere = (page for page in pages() if page.name != CONTRACT)
    return "" if any(told.search(page.text) for page in elsewhere) else f"no page tells of {way}"
