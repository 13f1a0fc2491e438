"""Headers of a request: secrets stand in the environment, and in no file and no message."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engines.contract import brought
from harness.core.errors import IndexNotReady

VARIABLE = re.compile(r"\$\{([^}]*)\}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET = re.compile(
    r"(?i)auth|cookie|pass|secret|token|credential|(?:^|[-_.])(?:api)?-?key$|apikey"
)
"""Names of headers and of parts of an address whose values are secrets."""
CREDENTIALS = re.compile(r"(?i)^(?:basic|bearer|apikey|digest|token|aws4-\S+)\s+\S")
HIDDEN = "***"


def check(headers: Mapping[str, str]) -> None:
    """Refuse a secret that is written out, and a variable that can have no name.

    Raises:
        ValueError: as said.
    """
    for name, value in headers.items():
        bare = VARIABLE.sub("", value)
        secret = SECRET.search(name) or CREDENTIALS.search(value)
        if secret and bare == value:
            raise ValueError(
                f"{name} is a secret written into the file. Put it into a variable of the"
                f' environment and write {name} = "Bearer ${{SEARCH_TOKEN}}", or as your server'
                " wants it"
            )
        for variable in VARIABLE.findall(value):
            if not NAME.fullmatch(variable):
                raise ValueError(f"{name}: ${{{variable}}} is not the name of a variable")


@dataclass(frozen=True, slots=True)
class Headers:
    """Headers with their secrets."""

    values: Mapping[str, str]
    secrets: tuple[str, ...]

    def hide(self, text: str) -> str:
        """Give ``text`` without the secrets: a server may repeat what it was sent."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text


def filled(headers: Mapping[str, str]) -> Headers:
    """Put in the variables of the environment.

    Raises:
        IndexNotReady: a variable is not set, has characters that no header can carry, or none may
            be sent since the command was run with ``--no-code``.
    """
    secrets: list[str] = []

    def value(name: str, variable: str) -> str:
        found = os.environ.get(variable, "")
        if not found:
            raise IndexNotReady(
                f"the environment variable {variable} is not set, and the header {name} needs it."
                f" Run: export {variable}=..."
            )
        if not (found.isascii() and found.isprintable()):
            raise IndexNotReady(
                f"the environment variable {variable} has a character that no header can carry,"
                " such as a line end. Set it again"
            )
        secrets.append(found)
        return found

    if not brought.allowed() and (variables := sorted(_variables(headers.values()))):
        raise IndexNotReady(
            f"the arm sends the environment variable {variables[0]} to a server, and"
            f" {brought.NO_CODE} is set. Read its url, and run without --no-code if you trust it"
        )
    values = {
        name: VARIABLE.sub(lambda one, name=name: value(name, one[1]), text)  # type: ignore[misc]
        for name, text in headers.items()
    }
    return Headers(values, tuple(secrets))


def _variables(values: Iterable[str]) -> set[str]:
    return {variable for value in values for variable in VARIABLE.findall(value)}
