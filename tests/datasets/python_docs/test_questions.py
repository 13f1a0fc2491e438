"""Questions made of names and summaries."""

from __future__ import annotations

import pytest
from python_docs.harvest import Entry
from python_docs.numpydoc import Docstring
from python_docs.questions import (
    MOST_NAMESAKES,
    JudgedQuery,
    by_digest,
    identifiers,
    is_question,
    natural_language,
)


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
