"""Two thousand damaged files of every format: each is read or named, and the good one is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path

import pytest

from tests.engines.kept.test_index import ask, live
from tests.make.pdf import pdf

pytestmark = pytest.mark.slow
EACH = 125
"""Damaged files of a format."""


def letter() -> bytes:
    made = EmailMessage()
    made["Subject"], made["From"] = "Gezeiten für März", "Ada <ada@example.org>"
    made.set_content("The tide\ncomes in.\n" * 5)
    made.add_alternative("<p>The tide comes in.</p>" * 5, subtype="html")
    return made.as_bytes()


def word() -> bytes:
    docx = pytest.importorskip("docx", reason='needs the extra "documents"')
    made, written = docx.Document(), BytesIO()
    made.add_paragraph("The tide comes in.")
    made.save(written)
    return written.getvalue()


LINE = b"From a Mon Jan  6 00:00:00 2025\n"
SOURCE = b'"""Tides."""\nimport sea\n\ndef tide(at: int) -> str:\n    return "\\ud800" * 0x%s\n'
GOOD: dict[str, dict[str, bytes | Callable[[], bytes]]] = {
    "notes": {
        "md": b"---\ntitle: Tide\n---\n# Tide\n\n```\n# no\n```\n\n* a\n",
        "txt": b"Tide\n----\n",
        "rst": b"====\nTide\n====\n\nIn.\n",
        "org": b"#+title: Tide\n* In\n#+begin_src\n* no\n#+end_src\n",
    },
    "code": {
        "py": SOURCE % (b"f" * 4_200),
        "pyi": SOURCE % b"1",
        "md": b"# Tide\n\n```\n# no\n```\n\n## In\n",
        "toml": b'[tide]\nin = "noon"\nat = [1, 2]\n',
        "json": b'{"tide \\ud800": {"in": ["noon", 1e5]}}',
        "csv": b'tide,"in"\nnoon,1\n',
    },
    "docs": {
        "pdf": pdf([["The tide comes in."], ["Twice a day."]]),
        "docx": word,
        "html": b"<meta charset=gb2312><ruby>t<rt>i</ruby><table><tr><td>de<td>in</table>",
        "eml": letter,
        "mbox": lambda: LINE + letter() + b"\n" + LINE + b"Subject: x\n\nsalt\n",
        "txt": b"The tide\n\ncomes in.\n",
    },
}


def damaged(whole: bytes, drawn: random.Random) -> bytes:
    """Cut a file, or change, repeat, swap or fill some of it."""
    low, high = sorted(drawn.choices(range(len(whole) + 1), k=2))
    before, within, behind = whole[:low], whole[low:high], whole[high:]
    some = bytes(drawn.choices(range(256), k=drawn.randint(1, 8)))
    ways = (
        *(before, before + some + within + behind, before + b"\0" * len(within) + behind),
        *(before + behind, before + within * 3 + behind, behind + within + before),
        bytes(one ^ (drawn.random() < 0.02) << drawn.randrange(8) for one in whole),
    )
    return drawn.choice(ways)


@pytest.mark.parametrize("stack", GOOD)
def test_damaged_files_stop_no_folder(tmp_path: Path, stack: str) -> None:
    drawn, root = random.Random(stack), tmp_path / "root"
    root.mkdir()
    kept = live(stack, root, tmp_path / "kept")
    (root / "good.md").write_text("# Harbour\n\nBoats wait for quinces.\n")
    for kind, made in GOOD[stack].items():
        whole = made if isinstance(made, bytes) else made()
        for at in range(EACH):
            (root / f"{kind}-{at}.{kind}").write_bytes(damaged(whole, drawn))
    with kept.now() as (now, done):
        assert done is not None
        assert done.read + len(done.faults) == EACH * len(GOOD[stack]) + 1
        assert all(": " not in fault.path and fault.why for fault in done.faults)
        assert "good.md" in str(ask(stack, now, "quinces"))
    kept.close()
