"""Files that desktops, editors and caches leave in any folder; they never count.

``.dvcignore`` names the same, so that such a file reruns no stage.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePath

STRAYS = (
    ".DS_Store", "._*", ".Spotlight-V100", ".Trashes", ".fseventsd", ".directory", "Thumbs.db",
    "desktop.ini", ".*.sw[a-p]", "*~", ".#*", "[#]*[#]", ".nfs*", ".idea", ".vscode",
    ".ipynb_checkpoints", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis",
    "__pycache__",
)  # fmt: skip
"""Patterns of names of files and folders."""


def is_stray(path: PurePath) -> bool:
    """Tell whether a desktop, an editor or a cache left a file; its path is relative."""
    return any(fnmatchcase(part, one) for part in path.parts for one in STRAYS)
