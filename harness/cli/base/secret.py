"""The operator's token of a server that this command starts."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

SHORTEST_TOKEN = 16


def secret_of(file: Path | None) -> str:
    """Give the operator's token: a new one, or that of the file, which is made where it is not."""
    from secrets import token_urlsafe

    from harness.core.errors import BadFile
    from harness.core.reading import Malformed, text_of

    fresh = token_urlsafe(32)
    if file is None:
        return fresh
    try:
        with open(file, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)) as made:
            made.write(fresh + "\n")
    except FileExistsError:
        pass
    except OSError as exc:
        raise BadFile(file, f"cannot be written ({exc})", "Name another file") from exc
    try:
        said = text_of(file).strip()
    except (OSError, Malformed) as exc:
        raise BadFile(file, f"cannot be read ({exc})", "Name another file") from exc
    if len(said) < SHORTEST_TOKEN or len(said.split()) != 1:
        raise BadFile(file, "holds no token", f"Write one word of {SHORTEST_TOKEN} characters")
    return said
