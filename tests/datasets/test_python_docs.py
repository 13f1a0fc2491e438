"""The set of Python documentation: harvest, questions and numpydoc."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import python_docs
from hypothesis import given
from hypothesis import strategies as st
from python_docs import Harvesting, Links, PythonDocs
from python_docs.harvest import Entry, Harvest, harvest
from python_docs.numpydoc import Docstring, capped, plain, take_apart, unindented
from python_docs.questions import (
    MOST_NAMESAKES,
    JudgedQuery,
    by_digest,
    identifiers,
    is_question,
    natural_language,
    words,
)

from harness.core.digest import DocumentsDigest, of_documents, of_queries
from harness.core.errors import DatasetError
from harness.core.records import Document
from harness.corpus import card, trec
from harness.corpus.card import DatasetCard
from tests.source import ROOT


@pytest.fixture(scope="module")
def about() -> DatasetCard:
    return card.read(ROOT / "datasets" / "python-docs")


@pytest.fixture(scope="module")
def settings(about: DatasetCard) -> Harvesting:
    return Harvesting.model_validate(about.make)


@pytest.fixture(scope="module")
def found(settings: Harvesting) -> Harvest:
    """Harvest in another order than the card was made in."""
    return harvest(settings.namespaces[::-1])


@pytest.fixture(scope="module")
def docs(settings: Harvesting, found: Harvest) -> PythonDocs:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(python_docs, "harvest", lambda _: found)
        return python_docs.read(settings)


@pytest.fixture(scope="module")
def documents(docs: PythonDocs) -> dict[str, Document]:
    return {document.doc_id: document for document in docs.documents}


@pytest.mark.slow
def test_the_card_and_the_judgements_describe_what_is_installed(
    about: DatasetCard, docs: PythonDocs
) -> None:
    corpus = DocumentsDigest()
    list(corpus.watch(docs.documents))
    card.check(about, card.counted(about, corpus, docs.queries, docs.qrels), hint="Update it.")
    assert trec.qrels(ROOT / "qrels" / "python-docs" / "test.qrels") == docs.qrels


@pytest.mark.slow
def test_a_harvest_in_another_order_is_the_same(
    settings: Harvesting, docs: PythonDocs, found: Harvest, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned = Harvest(found.entries[::-1], dict(sorted(found.aliases.items(), reverse=True)))
    monkeypatch.setattr(python_docs, "harvest", lambda _: turned)
    again = python_docs.read(settings)
    assert of_documents(again.documents) == of_documents(docs.documents)
    assert of_queries(again.queries) == of_queries(docs.queries)
    assert again.qrels == docs.qrels


@pytest.mark.slow
def test_every_judged_document_exists(docs: PythonDocs, documents: dict[str, Document]) -> None:
    assert {row.doc_id for row in docs.qrels.rows()} <= documents.keys()


@pytest.mark.slow
def test_every_query_has_what_it_means(docs: PythonDocs) -> None:
    assert {query.query_id for query in docs.queries} == set(docs.qrels.query_ids)
    assert all(2 in grades.values() for grades in docs.qrels.grades.values())
    assert len({query.text for query in docs.queries}) == len(docs.queries)


@pytest.mark.slow
def test_no_question_can_be_read_in_its_own_document(
    docs: PythonDocs, documents: dict[str, Document]
) -> None:
    asked = [q for q in docs.queries if q.query_id.startswith("nl:")]
    assert len(asked) > 1000
    for query in asked:
        text = " ".join(words(documents[query.query_id.removeprefix("nl:")].text))
        assert f" {' '.join(words(query.text))} " not in f" {text} "


@pytest.mark.slow
def test_no_document_shows_its_links(docs: PythonDocs) -> None:
    heading = re.compile(r"^see also\n-+$", re.IGNORECASE | re.MULTILINE)
    assert not [d.doc_id for d in docs.documents if heading.search(d.text)]


@pytest.mark.slow
def test_documents_are_as_the_card_asks(settings: Harvesting, docs: PythonDocs) -> None:
    assert len(docs.documents) == settings.documents
    assert max(len(document.text) for document in docs.documents) <= settings.characters
    parts = [part for document in docs.documents for part in document.doc_id.split(".")]
    assert not [part for part in parts if part.startswith("_")]


@pytest.mark.slow
def test_known_objects_have_their_public_names(documents: dict[str, Document]) -> None:
    assert documents["numpy.median"].text.startswith("median(a, axis, out, overwrite_input, keep")
    assert documents["scipy.signal.butter"].metadata == {"kind": "function", "package": "scipy"}
    for name in ("numpy.linalg.lstsq", "pandas.DataFrame.merge", "matplotlib.axes.Axes.plot"):
        assert name in documents


@pytest.mark.slow
def test_known_links_are_judgements(docs: PythonDocs) -> None:
    grades = docs.qrels.grades["nl:numpy.digitize"]
    assert grades == {
        "numpy.digitize": 2,
        "numpy.bincount": 1,
        "numpy.histogram": 1,
        "numpy.searchsorted": 1,
        "numpy.unique": 1,
    }


@pytest.mark.slow
def test_an_inherited_method_is_one_document_with_two_names(found: Harvest) -> None:
    assert found.aliases["pandas.Series.head"] == "pandas.DataFrame.head"
    assert found.aliases["matplotlib.figure.Figure.align_labels"] == (
        "matplotlib.figure.FigureBase.align_labels"
    )


@pytest.mark.slow
def test_a_size_that_would_lose_judgements_is_refused(
    settings: Harvesting, found: Harvest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_docs, "harvest", lambda _: found)
    with pytest.raises(DatasetError, match=r"linked with each other.* allows 100; raise documents"):
        python_docs.read(settings.model_copy(update={"documents": 100}))


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


FULL = """
    Return the least-squares solution
    to a linear matrix equation.

    Computes it at once.

    Parameters
    ----------
    a : array
        %(input)s

    See Also
    --------
    scipy.linalg.lstsq : Similar function in SciPy.
    inv, pinv
        Both of them.
    :func:`numpy.dot`, `~.Axes.plot`: by role
    cross_() : odd ends
    Not a list of names but words, with commas.

    Notes
    -----
    The end.
    """


def test_a_docstring_falls_into_its_parts() -> None:
    docstring = take_apart(FULL, "lstsq")
    assert docstring.summary == "Return the least-squares solution to a linear matrix equation."
    assert docstring.body == (
        "Computes it at once.\n\nParameters\n----------\na : array\n\nNotes\n-----\nThe end."
    )
    assert docstring.see_also == (
        "scipy.linalg.lstsq",
        "inv",
        "pinv",
        "numpy.dot",
        ".Axes.plot",
        "cross",
    )


def test_a_signature_is_no_summary() -> None:
    docstring = take_apart(
        "concatenate(\n    arrays,\n    axis=0\n)\n\nJoin arrays.\n\nMore.", "concatenate"
    )
    assert (docstring.summary, docstring.body) == ("Join arrays.", "More.")


@pytest.mark.parametrize("text", ["Parameters\n----------\na : int", "\n\nNotes\n=====\nnone"])
def test_a_heading_is_no_summary(text: str) -> None:
    docstring = take_apart(text, "f")
    assert docstring.summary == ""
    assert docstring.body == text.strip()


def test_a_section_may_follow_the_summary_without_a_blank_line() -> None:
    docstring = take_apart("Do it.\nParameters\n----------\na : int", "f")
    assert (docstring.summary, docstring.body) == ("Do it.", "Parameters\n----------\na : int")


def test_indentation_goes_and_tabs_are_spaces() -> None:
    assert unindented("  a\n\tb  \n\t  c\n\n") == ["a", "b", "  c", "", ""]


@given(st.text("ab \n", max_size=80))
def test_unindenting_twice_changes_nothing_more(text: str) -> None:
    once = unindented("\n" + text)
    assert unindented("\n".join(once)) == once


def test_text_is_cut_at_the_end_of_a_paragraph_or_line() -> None:
    assert capped("abc", 3) == "abc"
    assert capped("abc\n\ndefg\nh", 9) == "abc\n\ndefg"
    assert capped("abcdef\n\nghijk\nl", 9) == "abcdef"
    assert capped("a\n\nbcdefg\nhijkl", 10) == "a\n\nbcdefg"
    assert capped("abcdefghijkl", 5) == "abcde"


@given(st.text("ab \n"), st.integers(1, 50))
def test_a_cut_text_begins_the_whole_one_and_is_not_too_long(text: str, most: int) -> None:
    assert text.startswith(capped(text, most))
    assert len(capped(text, most)) <= most


@pytest.mark.parametrize(
    ("marked", "shown"),
    [
        ("Return the `~.transforms.Bbox` of it.", "Return the Bbox of it"),
        ("Minor `.Tick`\\s of :class:`matplotlib.Axis`", "Minor Ticks of matplotlib.Axis"),
        ("A ``list``  of *a*.", "A list of a"),
        (":func:`text <target>` here", "text here"),
    ],
)
def test_markup_is_taken_out(marked: str, shown: str) -> None:
    assert plain(marked) == shown


def entry(name: str, summary: str = "Do it.", body: str = "", kind: str = "function") -> Entry:
    owner = name.rpartition(".")[0]
    namespace = owner.rpartition(".")[0] if kind == "method" else owner
    return Entry(name, kind, namespace, (), Docstring(summary, body, ()))


def grades(asked: JudgedQuery) -> dict[str, int]:
    return {row.doc_id: row.grade for row in asked.judgements}


@pytest.mark.parametrize(
    ("name", "summary", "body", "fit"),
    [
        ("np.inv", "Compute the inverse of a matrix.", "", True),
        ("np.inv", "Compute the inverse.", "", False),
        ("np.inv", "Word " * 31, "", False),
        ("np.inverse", "Compute the Inverse of a matrix.", "", False),
        ("pd.read_csv", "Read CSV files into a frame.", "", False),
        ("pd.read_csv", "Use read_csv for a frame.", "", False),
        ("pd.read_csv", "Read a CSV into a frame.", "", True),
        ("pd.DataFrame", "The data frame of this library.", "", False),
        ("pd.DataFrame", "A dataframe of this library.", "", False),
        ("np.inv", "Compute the %(what)s of a matrix.", "", False),
        ("np.inv", "Compute the inverse of this:", "", False),
        ("np.inv", "a : array of some kind", "", False),
        ("np.inv", "Compute the inverse of it.", "To compute the inverse of it, wait.", False),
    ],
)
def test_what_may_be_asked(name: str, summary: str, body: str, fit: bool) -> None:  # noqa: FBT001
    assert is_question(entry(name, summary, body)) is fit


def test_the_object_is_meant_and_its_links_are_related() -> None:
    entries = {"np.inv": entry("np.inv", "Compute the `inverse` of a matrix.")}
    (asked,) = natural_language(entries, {"np.inv": ("np.pinv",)}, 9)
    assert asked.query.text == "Compute the inverse of a matrix"
    assert asked.query.slices == ("natural-language",)
    assert grades(asked) == {"np.inv": 2, "np.pinv": 1}


def test_a_summary_that_another_object_has_too_is_not_asked() -> None:
    same = {n: entry(n, s) for n, s in (("a.f", "Go far away now."), ("a.g", "go far  away NOW"))}
    assert natural_language(same, {"a.f": ()}, 9) == []


def test_a_limit_takes_by_digest_whatever_the_order() -> None:
    entries = {f"a.f{n}": entry(f"a.f{n}", f"Go to the place {n}") for n in range(20)}
    one = natural_language(entries, dict.fromkeys(entries, ()), 5)
    two = natural_language(entries, dict.fromkeys(reversed(entries), ()), 5)
    assert one == two
    assert {a.query.query_id for a in one} == {f"nl:{name}" for name in by_digest(entries)[:5]}


def texts(name: str, kind: str = "function") -> set[str]:
    """All forms that an object with such a name may be asked in, whatever its digest says."""
    owner, _, bare = name.rpartition(".")
    found: set[str] = set()
    for n in range(40):
        module = f"{owner.partition('.')[0]}.m{n}{owner.partition('.')[1]}{owner.partition('.')[2]}"
        one = entry(f"{module}.{bare}", kind=kind)
        (asked,) = identifiers({one.name: one}, [one.name], 1)
        found.add(asked.query.text.replace(f".m{n}.", "."))
    return found


def test_the_forms_of_a_name() -> None:
    assert texts("numpy.linalg.read_csv") == {"read_csv", "read csv", "np.linalg.read_csv"}
    assert texts("scipy.signal.butter") == {"butter", "scipy.signal.butter"}
    assert texts("pandas.core.DataFrame") == {"DataFrame", "dataframe", "pd.core.DataFrame"}
    assert texts("pandas.core.Frame.merge", "method") == {"merge", "Frame.merge"}


def test_who_is_meant_by_a_name() -> None:
    found = {n: entry(n) for n in ("numpy.f", "scipy.linalg.f", "scipy.fft.f", "numpy.lone")}
    for asked in identifiers(found, found, 9):
        name = asked.query.query_id.removeprefix("id:")
        bearers = {n for n in found if n.endswith(name.rpartition(".")[2])}
        if "." in asked.query.text:
            assert grades(asked) == {n: 2 if n == name else 1 for n in bearers}
        else:
            assert grades(asked) == dict.fromkeys(bearers, 2)


def test_namesakes_are_one_need_and_a_common_beginning_is_none() -> None:
    found = {n: entry(n) for n in ("a.Frame.sum", "a.Series.sum", "a.Frame.cov")}
    needs = {a.query.query_id: a.query.intent for a in identifiers(found, found, 9)}
    assert needs == {"id:a.Frame.sum": "sum", "id:a.Series.sum": "sum", "id:a.Frame.cov": "cov"}


def test_no_text_is_asked_twice_and_the_limit_holds() -> None:
    found = {n: entry(n) for n in ("numpy.f", "scipy.a.f", "scipy.b.f", "numpy.g")}
    asked = [a.query.text for a in identifiers(found, found, 9)]
    assert len(asked) == len(set(asked)) == 4
    assert len(identifiers(found, found, 2)) == 2


def test_a_name_that_many_bear_is_asked_as_code_has_it() -> None:
    found = {n: entry(n) for n in (f"numpy.m{i}.f" for i in range(MOST_NAMESAKES + 1))}
    assert all(a.query.text.startswith("np.m") for a in identifiers(found, found, 99))
