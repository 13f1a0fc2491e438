"""Names of data sets, splits, arms and whatever else a file is called by: one type for all.

A name becomes part of a path, a column of a TREC file and an item of a list on the command line. So
it is one word: letters, digits and ``_ . + @ -``, beginning with a letter, a digit or ``_``.
A label is for people only: one line of text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

from harness.core.errors import BadName

LONGEST, LONGEST_LABEL = 100, 200
"""Bytes of a name, which gets an ending and must still fit a file system; characters of a label."""
_NAME = re.compile(r"\w[\w.+@-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
MAY = "letters, digits and _ . + @ -, with no . + @ or - in front"


def fault(name: str) -> str:
    """Say why a text is not a valid name; empty if it is."""
    if not name:
        return "it is empty"
    if _CONTROL.search(name):
        return "it has control characters or half of a character"
    if unicodedata.normalize("NFC", name) != name:
        return "its letters are not composed (Unicode NFC)"
    if len(name.encode()) > LONGEST:
        return f"it has {len(name.encode())} bytes, and may have {LONGEST}"
    if not _NAME.fullmatch(name):
        return f"it may have {MAY}"
    return ""


def checked(kind: str, name: str) -> str:
    """Give ``name`` back if it is valid for a ``kind``.

    Raises:
        BadName: a file cannot be called so.
    """
    if problem := fault(name):
        raise BadName(kind, name, problem)
    return name


def check_distinct(kind: str, name: str, known: Iterable[str]) -> None:
    """Let a name pass that none of those ``known`` differs from only by its case.

    Raises:
        BadName: a file system that ignores case would take two for one.
    """
    for other in known:
        if other != name and other.casefold() == name.casefold():
            raise BadName(kind, name, f"{other} differs from it only by its case")


def labelled(kind: str, text: str) -> str:
    """Give ``text`` back, a line for people.

    Raises:
        BadName: it is empty, longer than a line, or has control characters.
    """
    if problem := _label_fault(text):
        raise BadName(kind, text, problem)
    return text


def _label_fault(text: str) -> str:
    if not text.strip():
        return "it is empty"
    if _CONTROL.search(text):
        return "it has control characters; it must be one line"
    if len(text) > LONGEST_LABEL:
        return f"it has {len(text)} characters, and may have {LONGEST_LABEL}"
    return ""


def _name(text: str) -> str:
    if problem := fault(text):
        raise ValueError(f"{text[:LONGEST]!r} is not a name: {problem}")
    return text


def _label(text: str) -> str:
    if problem := _label_fault(text):
        raise ValueError(f"{text[:LONGEST]!r} is not a line of text: {problem}")
    return text


Name = Annotated[str, AfterValidator(_name)]
"""A name, in a file that pydantic reads."""
Label = Annotated[str, AfterValidator(_label)]
"""A line for people, in such a file."""
