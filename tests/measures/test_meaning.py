"""What a margin is on a page: the words, and that they cost what they say."""

from __future__ import annotations

import pytest

from harness.core.engine import Hit
from harness.core.records import Qrels
from harness.core.run import Row, Run, Status
from harness.measures.name import floor_in_words, gain_in_words, loss_in_words, share_in_words
from harness.measures.quality import score


@pytest.mark.parametrize(
    ("measure", "loss", "said"),
    [
        ("nDCG@10", 0.02, "one query in 50 loses its whole first page"),
        ("nDCG@20", 0.03, "about one query in 33 loses its whole first 20"),
        ("AP", 0.05, "one query in 20 loses its whole list"),
        ("RR@10", 0.02, "one query in 25 has its first relevant document at rank 2, not 1"),
        ("R@50", 0.02, "one relevant document in 50 is no longer in the first 50"),
        ("Success@5", 0.1, "one query in 10 has no relevant document left in its first 5"),
        ("P@10", 0.02, "one query in 5 has one relevant document less in 10"),
        ("Judged@10", 0.1, "each query has 1 judged document less in 10"),
        ("Empty@10", 0.2, "each query has 2 empty places less in 10"),
        ("nDCG@10", 0.8, "about every query loses its whole first page"),
        ("infAP", 0.02, "one query in 50 loses all of its infAP"),
    ],
)
def test_a_loss_is_said_as_queries(measure: str, loss: float, said: str) -> None:
    assert loss_in_words(measure, loss) == said


def run(*rows: tuple[str, ...]) -> Run:
    """Give a query for each row of documents."""
    asked = [
        Row(
            f"q{at:02}",
            Status.ANSWERED,
            tuple(Hit(d, 1.0 / n, 1.0 / n) for n, d in enumerate(row, 1)),
            "e",
        )
        for at, row in enumerate(rows)
    ]
    return Run.of("arm", asked)


@pytest.mark.parametrize(
    ("measure", "before", "after", "queries", "loss"),
    [
        ("nDCG@10", ("r",), ("x",), 50, 0.02),
        ("RR@10", ("r", "x"), ("x", "r"), 25, 0.02),
        ("P@10", ("r", "x"), ("y", "x"), 5, 0.02),
    ],
)
def test_the_words_cost_the_margin(
    measure: str, before: tuple[str, ...], after: tuple[str, ...], queries: int, loss: float
) -> None:
    """One query in so many changes as the words say, and the mean falls by the margin."""
    ids = [f"q{at:02}" for at in range(queries)]
    qrels = Qrels({query: {"r": 1} for query in ids})
    means = [
        score(run(*([before] * (queries - 1)), last), qrels, (measure,), ids)[measure].mean
        for last in (before, after)
    ]
    assert means[0] is not None
    assert means[1] is not None
    assert means[0] - means[1] == pytest.approx(loss)


def test_gains_floors_and_shares_are_said_too() -> None:
    assert gain_in_words("nDCG@10", 0.02).endswith("one query in 50 loses its whole first page")
    assert floor_in_words("Jaccard@50", 0.8) == "of 50 documents in each list 44.4 are shared"
    assert floor_in_words("tau", 0.5) == "each query agrees to 0.5"
    assert share_in_words(0.01) == "one query in 100"
