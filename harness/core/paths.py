"""Paths that lead somewhere: no link to nothing, and no way up from a folder that is not there."""

from __future__ import annotations

from pathlib import Path

from harness.core.errors import BadFile


def check_leads(path: Path) -> None:
    """Let a path pass that names one place, now and once the folders above it are made.

    Links that lead in a circle pass: the system refuses them wherever they are used.

    Raises:
        BadFile: it goes up from what is not a folder, or is a link to nothing.
    """
    for number, step in enumerate(path.parts):
        below = Path(*path.parts[:number])
        if step == ".." and not below.is_dir():
            problem = f"leads nowhere: {below} is not a folder, so '..' has no meaning"
            raise BadFile(path, problem, "Name the place without '..'")
    if not path.is_symlink():
        return
    try:
        path.stat()
    except FileNotFoundError:
        hint = "Remove the link, or name another place"
        raise BadFile(path, "is a link to nothing", hint) from None
    except OSError:
        return
