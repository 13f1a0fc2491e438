"""Line numbers of the keys and tables of a TOML file, for error messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

Path = tuple[str | int, ...]
TABLE = re.compile(r"\s*(\[{1,2})\s*([\w.-]+)\s*\]")
KEY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")


def find(text: str) -> Mapping[Path, int]:
    """Line, from 1, of each table and key, e.g. of ``("step", 0, "gate", 2, "margin")``.

    For plain tables, arrays of tables and bare keys, one a line, as a policy has; text that
    spans lines is not understood.
    """
    found: dict[Path, int] = {}
    count: Counter[Path] = Counter()
    table: Path = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if head := TABLE.match(line):
            table = _path(head[2].split("."), count)
            if head[1] == "[[":
                count[table] += 1
                table = (*table, count[table] - 1)
            found[table] = number
        elif key := KEY.match(line):
            found[*table, key[1]] = number
    return found


def nearest(lines: Mapping[Path, int], path: Path) -> int | None:
    """Line of ``path``, or of the smallest table around it; None where there is none."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _path(parts: list[str], count: Counter[Path]) -> Path:
    """Full path of a table: inside an array of tables it belongs to the latest element."""
    path: Path = ()
    for part in parts[:-1]:
        path = (*path, part)
        if count[path]:
            path = (*path, count[path] - 1)
    return (*path, parts[-1])
