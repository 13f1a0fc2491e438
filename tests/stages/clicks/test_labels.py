"""Labels of clicks."""

from __future__ import annotations

import random

import pytest

from harness.core.errors import EvidenceError
from harness.core.records import Query
from harness.shadow.clicks.log import Clicks, ShownList
from harness.stages.clicks.labels import labels
from tests.shadow.clicks.test_log import AT

LOOKS = (1.0, 0.4, 0.2)
GOOD = {"a": 0.7, "b": 0.1, "c": 0.6}
QUERIES = [Query("q1", "Red  shoes")]


def log(count: int, query: str = "red shoes") -> Clicks:
    """Draw lists in which the good document ``c`` mostly stands last."""
    drawn = random.Random(3)
    shown, clicked = [], {}
    for at in range(count):
        documents = tuple(drawn.choice(["abc", "bac", "bac", "bca"]))
        on = {
            one
            for look, one in zip(LOOKS, documents, strict=True)
            if drawn.random() < look * GOOD[one]
        }
        shown.append(ShownList(f"{at}", AT, f"{at}", query, ("x", "y"), documents, (0, 1, 0)))
        clicked[f"{at}"] = frozenset(on)
    return Clicks(tuple(shown), clicked, 0)


def test_a_good_document_at_a_low_rank_is_relevant_though_few_click_it() -> None:
    found = log(4_000)
    clicks = {one: sum(one in on for on in found.clicked.values()) / 4_000 for one in GOOD}
    assert clicks["c"] < 0.3
    made = labels(found, QUERIES, attractive=0.35, min_shown=20)
    assert made.qrels.grades == {"q1": {"a": 1, "b": 0, "c": 1}}
    assert made.looked_at == pytest.approx(LOOKS, abs=0.07)


def test_what_is_not_labelled_is_counted() -> None:
    found = log(30)
    lists = (*found.shown, ShownList("r", AT, "r", "red shoes", ("x", "y"), ("d", "a"), (0, 1)))
    other = ShownList("o", AT, "o", "boots", ("x", "y"), ("d",), (0,))
    made = labels(Clicks((*lists, other), found.clicked, 0), QUERIES, attractive=0.3, min_shown=2)
    assert (made.rare, made.unknown) == (1, 1)


def test_nothing_to_label_is_said() -> None:
    with pytest.raises(EvidenceError, match="no list of these queries is in the log"):
        labels(log(3, "boots"), QUERIES, attractive=0.3, min_shown=1)
    with pytest.raises(EvidenceError, match=r"no document was shown 99 times; lower --min-shown"):
        labels(log(30), QUERIES, attractive=0.3, min_shown=99)
