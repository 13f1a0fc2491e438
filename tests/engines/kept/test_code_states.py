"""Source in any state is searched, and so are its lines that are in no unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from engines.stacks.code.arm import Code
from engines.stacks.code.ranking import Settings as CodeSettings
from engines.stacks.code.search import Dense
from engines.stacks.code.service import NEAREST, NOT_AS_TYPED
from engines.stacks.code.service import follow as code
from engines.stacks.code.words import Scored
from tests.engines.kept.test_index import write
from tests.make.code import SETTINGS as CODE

GOOD = "def harbour():\n    return 'tide'\n"
STATES: dict[str, bytes] = {
    "a long number": b"def anchor():\n    return 0x" + b"f" * 4_200 + b"\n",
    "half a pair": b'def anchor():\n    """Half \\ud800 a pair."""\n    return "\\udfff"\n',
    "half a pair in a module": b'"""anchor \\ud800"""\n',
    "half a pair by its codec": b"# coding: unicode_escape\ndef anchor():\n    x = 1 # \\ud800\n",
    "a codec that is no charset": b"# coding: punycode\ndef anchor():\n    pass\n",
    "no Python": b"import salt\ndef anchor(:\n    return\n",
    "a chain of conditions": b"if a:\n    anchor()\n" + b"elif a:\n    pass\n" * 3_000,
    "depth": b"def anchor():\n    return " + b"-" * 3_000 + b"1\n",
    "null bytes": b"def anchor():\n    return '\0'\n",
    "bytes": b"def anchor():\n    return '\xff\xfe'\n",
}


def ask(root: Path, text: str, **changed: object) -> dict[str, Any]:
    given = {**CODE, "embedder": "", "mixed": "scores", **changed}
    arm = Code(CodeSettings.model_validate(given), root.parent / "cache")
    followed = code(arm, root, root.parent / "kept")
    try:
        with followed.now() as (now, done):
            assert done is not None
            assert done.faults == ()
            return dict(now.search(text))
    finally:
        followed.close()


@pytest.mark.parametrize("state", STATES)
def test_source_in_any_state_is_found(tmp_path: Path, state: str) -> None:
    root = tmp_path / "root"
    write(root, "good.py", GOOD)
    (root / "bad.py").write_bytes(STATES[state])
    assert [hit["path"] for hit in ask(root, "anchor")["hits"]][:1] == ["bad.py"]
    assert [hit["path"] for hit in ask(root, "harbour")["hits"]][:1] == ["good.py"]


def test_half_a_pair_in_a_record_stops_nothing(tmp_path: Path) -> None:
    write(tmp_path / "root", "a.json", '{"anchor \\ud800": "salt \\udfff"}')
    assert ask(tmp_path / "root", "anchor salt")["hits"][0]["path"] == "a.json"


LINES = f"import numpy as np\nfrom os import path\n\n# Tuned by hand\n\n{GOOD}"


@pytest.mark.parametrize(
    ("text", "line"), [("numpy", 1), ("os import path", 2), ("tuned by hand", 4), ("umpy", 1)]
)
def test_a_line_in_no_unit_is_found_with_its_place(tmp_path: Path, text: str, line: int) -> None:
    write(tmp_path / "root", "a.py", LINES)
    answer = ask(tmp_path / "root", text)
    (hit,) = answer["hits"]
    assert (hit["type"], hit["path"], hit["lines"]) == ("line", "a.py", f"{line}-{line}")
    assert answer["fallback"] == "like"


def test_a_line_is_not_shown_where_a_unit_has_the_text(tmp_path: Path) -> None:
    write(tmp_path / "root", "a.py", LINES)
    write(tmp_path / "root", "b.py", "def load():\n    return numpy\n")
    assert [hit["path"] for hit in ask(tmp_path / "root", "numpy")["hits"]] == ["b.py"]
    shown = ask(tmp_path / "root", "import numpy")["hits"]
    assert [(hit["path"], hit["type"]) for hit in shown] == [("b.py", "function"), ("a.py", "line")]
    (tmp_path / "root" / "a.py").unlink()
    assert [hit["path"] for hit in ask(tmp_path / "root", "import numpy")["hits"]] == ["b.py"]


def test_vectors_say_that_no_word_is_found(tmp_path: Path) -> None:
    write(tmp_path / "root", "a.py", GOOD)
    with mock.patch.object(Dense, "search", return_value=[Scored(0, 0.5)]):
        answer = ask(tmp_path / "root", "zebra", embedder="hash")
    assert len(answer["hits"]) == 1
    assert (answer["nearest"], "fallback" in answer) == (NEAREST, False)
    answer = ask(tmp_path / "root", "arbou", embedder="hash")
    assert (answer["fallback"], answer["hits"][0]["name"]) == ("like", "a.harbour")
    assert "nearest" not in ask(tmp_path / "root", "harbour", embedder="hash")


def test_a_name_that_nothing_has_is_told(tmp_path: Path) -> None:
    write(tmp_path / "root", "a.py", GOOD)
    answer = ask(tmp_path / "root", "no_such_harbour")
    assert (answer["hits"][0]["name"], answer["nearest"]) == ("a.harbour", NOT_AS_TYPED)
