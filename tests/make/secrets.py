"""Secrets that a test plants into the environment, and the files that hold one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from harness.corpus.parquet import table_of

PLANTED = "planted-7f3a9c51e8"
NAMES = (
    "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "HF_TOKEN", "OPENAI_API_KEY", "DATABASE_URL",
    "HTTPS_PROXY", "PIP_INDEX_URL", "SSH_AUTH_SOCK", "NETRC", "USER", "HOSTNAME",
)  # fmt: skip


def holding(root: Path) -> list[str]:
    """Name the files that hold what was planted, also where a table packs it."""
    found = []
    for path in sorted(one for one in root.rglob("*") if one.is_file()):
        packed = path.suffix == ".parquet"
        text = str(table_of(path, pa.schema([])).to_pylist()) if packed else ""
        if PLANTED.encode() in path.read_bytes() or PLANTED in text:
            found.append(path.relative_to(root).as_posix())
    return found
