"""Files of Python as they are found: being edited, marked, of other ages, full of odd things."""

from __future__ import annotations

import codecs

import pytest

from engines.stacks.code.ranking import Graph, Reason
from engines.stacks.code.reading.documents import of_file, understand
from engines.stacks.code.reading.python import absolute, decoded, documents
from engines.stacks.code.units import Unit

GUARDED = '''\
"""Says what it is."""
from __future__ import annotations

import sys

LIMIT = 10
names: list[str] = []

if sys.platform == "win32":
    def wait(): ...
else:
    @cached
    def wait(): ...

try:
    import fast
except ImportError:
    class Fast:
        class Part:
            def turn(self): ...

print(LIMIT)
'''


def units(path: str, module: str, text: str) -> dict[str, Unit]:
    return {
        one.doc_id.rpartition("::")[2]: understand(one) for one in documents(path, module, text)
    }


def test_everything_that_a_module_defines_is_a_unit_with_its_lines() -> None:
    found = units("m.py", "m", GUARDED)
    assert {name: (unit.facts.type, unit.lines) for name, unit in found.items()} == {
        "": ("module", "1-1"),
        "LIMIT": ("constant", "6-6"),
        "names": ("constant", "7-7"),
        "wait": ("function", "10-10"),
        "wait#2": ("function", "12-13"),
        "Fast": ("class", "18-20"),
        "Fast.Part": ("class", "19-20"),
        "Fast.Part.turn": ("method", "20-20"),
        "<module>": ("module", "6-22"),
    }
    assert found["LIMIT"].facts.full == "m.LIMIT"


def test_a_module_that_is_being_edited_keeps_what_parses() -> None:
    text = (
        "import os\n\ndef good(one):\n    return os.path.join(one)\n\n"
        "def bad(:\n    pass\n\nclass Fine:\n    def go(self): ...\n"
    )
    found = units("m.py", "m", text)
    assert {name: unit.lines for name, unit in found.items()} == {
        "good": "3-4", "bad": "6-7", "Fine": "9-10", "Fine.go": "10-10",
    }  # fmt: skip
    assert found["good"].facts.params == ("one",)
    assert found["bad"].facts.full == "m.bad"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (codecs.BOM_UTF8 + b"a = 'x'\r\n", "a = 'x'\n"),
        ("# coding: latin-1\nname = 'é'\n".encode("latin-1"), "# coding: latin-1\nname = 'é'\n"),
        (
            "# -*- coding: cp1251 -*-\nname = 'да'".encode("cp1251"),
            "# -*- coding: cp1251 -*-\nname = 'да'",
        ),
        (b"# coding: nothing\nx = 1\n", "# coding: nothing\nx = 1\n"),
        (b"x = '\xff'\n", "x = '\ufffd'\n"),
        (b"x = 1\0\n", "x = 1\ufffd\n"),
    ],
)
def test_a_file_is_decoded_as_python_does(data: bytes, said: str) -> None:
    assert decoded(data) == said


def test_lines_are_those_of_python() -> None:
    text = 'a = "\u2028 \x0c \x85"\n\x0c\ndef here():\n    return "\u2029"\n'
    found = units("m.py", "m", text)
    assert found["here"].lines == "3-4"
    assert found["here"].texts.body.startswith("return")


def test_stubs_and_files_up_to_two_megabytes_are_read() -> None:
    assert [one.doc_id for one in of_file("m.pyi", "m", b"def f(x: int) -> str: ...\n")] == [
        "m.pyi::f"
    ]
    big = b"def f():\n    return 1\n\nDATA = '" + b"x" * (3 << 19) + b"'\n"
    assert "m.py::f" in [one.doc_id for one in of_file("m.py", "m", big)]


@pytest.mark.parametrize(
    ("name", "package", "full"),
    [
        ("os.path", "a.b", "os.path"),
        (".c.d", "a.b", "a.b.c.d"),
        ("..c", "a.b", "a.c"),
        (".c", "a", "a.c"),
        ("....c", "a", "c"),
    ],
)
def test_a_relative_name_is_made_absolute(name: str, package: str, full: str) -> None:
    assert absolute(name, package) == full


def test_calls_are_joined_by_full_names() -> None:
    files = {
        ("p/__init__.py", "p"): "from .tools import made\n\ndef top():\n    return made()\n",
        ("p/tools.py", "p.tools"): (
            "def made():\n    return other()\n\ndef other(): ...\n\n"
            "class A:\n    def one(self):\n        return self.two()\n    def two(self): ...\n"
        ),
        (
            "q/tools.py",
            "q.tools",
        ): "def made(): ...\ndef other(): ...\nclass B:\n    def two(self): ...\n",
    }
    found = [
        understand(one)
        for (path, name), text in files.items()
        for one in documents(path, name, text)
    ]
    rows = {unit.facts.full: row for row, unit in enumerate(found) if unit.facts.symbol}
    graph = Graph(found)
    for caller, callee in (
        ("p.top", "p.tools.made"),
        ("p.tools.made", "p.tools.other"),
        ("p.tools.A.one", "p.tools.A.two"),
    ):
        beside = {one.row: one.reason for one in graph.neighbours(rows[caller])}
        assert beside[rows[callee]] is Reason.CALL
        assert rows[callee.replace("p.", "q.", 1)] not in beside if "A" not in callee else True
