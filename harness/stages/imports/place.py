"""Where an import may put a data set: nowhere that anybody else has put anything."""

from __future__ import annotations

from pathlib import Path

from harness.core.errors import BadFile, DatasetError
from harness.corpus import card

PACKED = ".gz"
OURS = {card.FILE, "corpus.jsonl", "queries.jsonl"}
"""What an import writes into the folder of a data set; the lines may be packed later."""


def check_free(folder: Path, judged: Path, *, force: bool) -> None:
    """Let an import pass into ``folder`` and ``judged``, its file of judgements.

    What is there already is replaced with ``force`` alone, and only where it bears a card of the
    name of the folder and holds nothing else than an import writes.

    Raises:
        DatasetError: it is there, or is not what an import wrote.
    """
    if not (folder.exists() or folder.is_symlink()):
        if judged.exists():
            problem = f"{judged}: is there, and no data set in {folder} that it belongs to"
            raise DatasetError(f"{problem}; move it away, or choose another name")
        return
    if not force:
        raise DatasetError(f"{folder} exists; choose another name, or replace it with --force")
    hint = "move it away, or choose another name; nothing was replaced"
    try:
        name = card.read(folder).name if not folder.is_symlink() else ""
    except BadFile as exc:
        raise DatasetError(f"{folder}: bears no card of an import ({exc}) {hint}") from exc
    if name != folder.name:
        raise DatasetError(f"{folder}: its card is of {name!r}, or it is a link; {hint}")
    for path in sorted(folder.iterdir()):
        if path.name.removesuffix(PACKED) not in OURS or not path.is_file():
            raise DatasetError(f"{path}: was not written by an import; {hint}")
