"""The arm's file with other values: the lines of the given one, comments and all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from engines.contract.settings import with_values
from harness.core.errors import BadFile, HarnessError
from harness.core.formats import toml_of
from harness.core.names import checked
from harness.core.reading import Malformed, text_of
from harness.core.records import Scalar
from harness.policy import lines

MARK = "# Written by harness tune, which replaces it. Copy it to change it."
VALUE = re.compile(r"""^(\s*[^=#]+=\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^#\s]+)(.*)$""")


def is_ours(path: Path) -> bool:
    """Tell whether a file was written by this command."""
    return path.is_file() and text_of(path).startswith(MARK)


def check_place(to: Path, arm: Path, stack: str) -> None:
    """Refuse a place in which the written arm would not find its code, or that is the arm itself.

    Raises:
        HarnessError: ``to`` is not a TOML file, is the arm, or its stack lies elsewhere.
        BadName: no arm can be called so.
    """
    if to.suffix != ".toml":
        raise HarnessError(f"{to}: name a .toml file; the record is written beside it")
    checked("an arm", to.stem)
    if to.resolve() == arm.resolve():
        raise HarnessError(f"{to}: is the arm that is tuned. Name another file")
    if stack.endswith(".py") and to.resolve().parent != arm.resolve().parent:
        raise HarnessError(f"{to}: {stack} lies beside {arm}; name a file in {arm.parent}")


def arm_text(arm: Path, chosen: Mapping[str, Scalar], record: str) -> str:
    """Give the text of ``arm`` with the values ``chosen``, by dotted key, and its tuning record.

    Raises:
        BadFile: a value is not on a line of its own.
    """
    text = text_of(arm)
    where = lines.find(text)
    changed = [line for line in text.splitlines() if line != MARK]
    shift = len(text.splitlines()) - len(changed)
    for key, value in chosen.items():
        number = where.get(("settings", *key.split(".")))
        found = VALUE.match(changed[number - 1 - shift]) if number else None
        if number is None or found is None:
            problem = f"settings.{key}: is not on a line of its own"
            raise BadFile(arm, problem, f"Write {key.split('.')[-1]} = ... on a line of its own")
        changed[number - 1 - shift] = f"{found[1]}{_toml(value)}{found[3]}"
    kept = [line for line in changed if not re.match(r"tuning\s*=", line)]
    after = next(at for at, line in enumerate(kept) if re.match(r"stack\s*=", line)) + 1
    kept.insert(after, f"tuning = {_toml(record)}")
    made = "\n".join([MARK, *kept]) + "\n"
    _check_same(arm, text, made, chosen)
    return made


def _check_same(arm: Path, before: str, after: str, chosen: Mapping[str, Scalar]) -> None:
    """Compare the settings that were meant with those that the new text has."""
    meant = with_values(toml_of(before).get("settings", {}), chosen)
    try:
        same = toml_of(after).get("settings", {}) == meant
    except Malformed:
        same = False
    if not same:
        hint = "Write each searched setting once, on a line of its own"
        raise BadFile(arm, "its settings cannot be replaced line by line", hint)


def _toml(value: Scalar) -> str:
    """Write a value as TOML; JSON's strings, numbers and truths are TOML's too."""
    return json.dumps(value, ensure_ascii=False)
