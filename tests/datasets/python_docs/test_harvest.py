"""Names followed and objects harvested, in a small package made for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from python_docs import Links
from python_docs.harvest import Entry, Harvest, harvest

from harness.core.errors import DatasetError

FILES = {
    "zoo/__init__.py": """
raise RuntimeError("harvesting runs nothing")
from ._impl import *
from . import pens
try:
    from ._fast import feed
except ImportError:
    from ._slow import feed
from other import stranger
__all__ = ["pens"]
__all__ += _impl.__all__
""",
    "zoo/_impl.py": """
__all__ = ["walk", "old", "Ant", "Cat"]
from typing import overload
class _Animal:
    def eat(self, food, *rest, slow=False, **more):
        "Eat the food."
    @property
    def name(self): "A property."
class Cat(_Animal):
    "A cat."
    def __init__(self, colour): ...
    def purr(self): "Make a noise."
    def purr(self): "Make it again."
    def _hiss(self): "Private."
class Ant(Cat):
    "An ant."
@overload
def walk(a: int): ...
def walk(a, /, b): "Walk.\\n\\nFar and wide."
def old(): "Old.\\n\\n.. deprecated:: 1.0"
def hidden(): "Not in __all__."
""",
    "zoo/_fast.py": "def feed(who):\n    'Feed.\\n\\n    Parameter\\n        .. deprecated:: 1'\n",
    "zoo/_slow.py": "def feed(whom): 'Feed slowly.'\n",
    "zoo/pens/__init__.py": """
from .._impl import Cat, walk
from ._pen import Ape, Pen, Pen as Yard, open_pen
def copied(): "Walk.\\n\\nFar and wide."
def bare(): pass
""",
    "zoo/pens/_pen.py": '''
from .._impl import Cat, _Animal
class Ape(_Animal):
    "An ape."
class Pen(Cat):
    """A pen.

    See Also
    --------
    purr : noise
    zoo.walk : walk
    walk, z.walk, open_pen, .eat
    """
def open_pen(): "Open."
''',
}


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    def change(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    for name, text in FILES.items():
        change(name, text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return change


def names(found: Harvest) -> dict[str, Entry]:
    return {entry.name: entry for entry in found.entries}


@pytest.mark.usefixtures("zoo")
def test_objects_get_the_names_that_users_know() -> None:
    found = harvest(["zoo", "zoo.pens"])
    assert [(e.name, e.kind, e.namespace) for e in found.entries] == [
        ("zoo.Ant", "class", "zoo"),
        ("zoo.Cat", "class", "zoo"),
        ("zoo.Cat.eat", "method", "zoo"),
        ("zoo.Cat.purr", "method", "zoo"),
        ("zoo.feed", "function", "zoo"),
        ("zoo.pens.Ape", "class", "zoo.pens"),
        ("zoo.pens.Pen", "class", "zoo.pens"),
        ("zoo.pens.open_pen", "function", "zoo.pens"),
        ("zoo.walk", "function", "zoo"),
    ]
    assert "zoo" not in sys.modules


@pytest.mark.usefixtures("zoo")
def test_other_names_are_aliases() -> None:
    aliases = harvest(["zoo", "zoo.pens"]).aliases
    assert aliases["zoo.pens.Yard"] == "zoo.pens.Pen"
    assert aliases["zoo.pens.Yard.purr"] == aliases["zoo.pens.Pen.purr"] == "zoo.Cat.purr"
    assert aliases["zoo.pens.copied"] == "zoo.walk"
    assert aliases["zoo.Ant.purr"] == "zoo.Cat.purr"
    assert aliases["zoo.pens.Ape.eat"] == "zoo.Cat.eat"
    assert "zoo.old" not in aliases
    assert "zoo.hidden" not in aliases


@pytest.mark.usefixtures("zoo")
def test_arguments_are_named_without_self() -> None:
    found = names(harvest(["zoo"]))
    assert found["zoo.Cat.eat"].arguments == ("food", "*rest", "slow", "**more")
    assert found["zoo.Cat"].arguments == ("colour",)
    assert found["zoo.walk"].arguments == ("a", "b")
    assert found["zoo.feed"].arguments == ("who",)


@pytest.mark.usefixtures("zoo")
def test_of_two_definitions_the_first_counts() -> None:
    found = names(harvest(["zoo"]))
    assert found["zoo.Cat.purr"].docstring.summary == "Make a noise."


@pytest.mark.usefixtures("zoo")
def test_the_order_of_namespaces_does_not_matter() -> None:
    assert harvest(["zoo", "zoo.pens"]) == harvest(["zoo.pens", "zoo"])


@pytest.mark.usefixtures("zoo")
def test_links_are_resolved_from_the_inside_out() -> None:
    found = harvest(["zoo", "zoo.pens"])
    led, lost = Links(found).of(names(found)["zoo.pens.Pen"])
    assert led == ("zoo.Cat.purr", "zoo.walk", "zoo.pens.open_pen", "zoo.Cat.eat")
    assert lost == ("z.walk",)


def test_an_end_that_two_objects_have_leads_nowhere(zoo: Callable[[str, str], None]) -> None:
    dogs = "class Dog:\n    'A dog.'\n    def eat(self): 'Eat like a dog.'\n"
    zoo("zoo/pens/_pen.py", FILES["zoo/pens/_pen.py"] + dogs)
    zoo("zoo/pens/__init__.py", FILES["zoo/pens/__init__.py"] + "from ._pen import Dog\n")
    found = harvest(["zoo", "zoo.pens"])
    assert Links(found).of(names(found)["zoo.pens.Pen"])[1] == ("z.walk", ".eat")


@pytest.mark.usefixtures("zoo")
def test_missing_packages_and_modules_are_named() -> None:
    with pytest.raises(DatasetError, match="the package circus is not installed"):
        harvest(["circus"])
    with pytest.raises(DatasetError, match=r"unknown module zoo\.tents; take it out"):
        harvest(["zoo", "zoo.tents"])
