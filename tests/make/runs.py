"""Small runs, judgements and values by query; rows drawn at random; how far a share may lie off."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from harness.core.engine import Hit
from harness.core.records import Judgement, Qrels
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores


def run_of(
    rankings: Mapping[str, Sequence[str]],
    arm: str = "arm",
    *,
    ended: Mapping[str, Status] | None = None,
    scores: Mapping[str, Sequence[float]] | None = None,
) -> Run:
    """Make a run from rankings; scores fall with the rank, and all are answered, unless given."""
    rows = []
    for query_id, ranking in rankings.items():
        given = (scores or {}).get(query_id, [1 / (at + 1) for at in range(len(ranking))])
        hits = [Hit(d, score, score) for d, score in zip(ranking, given, strict=True)]
        status = (ended or {}).get(query_id, Status.ANSWERED)
        rows.append(Row(query_id, status, hits, "", "" if status is Status.ANSWERED else "broken"))
    return Run.of(arm, rows)


def qrels_of(grades: Mapping[str, Mapping[str, int]]) -> Qrels:
    """Make judgements from grades by query and document."""
    return Qrels.of(
        Judgement(q, d, grade) for q, docs in grades.items() for d, grade in docs.items()
    )


def scores_of(
    values: Mapping[str, float], measure: str = "nDCG@10", **undefined: Sequence[str]
) -> Scores:
    """Make the values of a measure; a keyword is a reason, with the ids that have no value."""
    found = np.array([*values.values()], dtype=np.float64)
    return Scores(measure, tuple(values), found, {why: tuple(of) for why, of in undefined.items()})


def random_case(
    seed: int, queries: int = 40, depth: int = 30, lowest: int = -1
) -> tuple[Run, Qrels]:
    """Make a run without score ties and judgements of some of what it shows, all answerable."""
    rng = np.random.default_rng(seed)
    documents = [f"d{at}" for at in range(3 * depth)]
    rankings, grades = {}, {}
    for at in range(queries):
        length = int(rng.integers(1, depth + 1))
        rankings[f"q{at}"] = [documents[d] for d in rng.permutation(len(documents))[:length]]
        judged = rng.permutation(len(documents))[: int(rng.integers(2, 2 * depth))]
        grades[f"q{at}"] = {documents[d]: int(rng.integers(lowest, 4)) for d in judged}
        grades[f"q{at}"][documents[judged[0]]] = 1
    return run_of(rankings), qrels_of(grades)


drawn_ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4) | st.sampled_from("abc")
drawn_scores = st.floats(-1e9, 1e9)
drawn_hits = st.builds(Hit, drawn_ids, drawn_scores, drawn_scores)


@st.composite
def rows(draw: st.DrawFn) -> Sequence[Row]:
    """Draw rows of all ends, with documents shown twice and drawn_ids of any characters."""
    query_ids = draw(st.lists(drawn_ids, unique=True, max_size=8))
    found = []
    for query_id in query_ids:
        status = draw(st.sampled_from(Status))
        answered = status is Status.ANSWERED
        shown = draw(st.lists(drawn_hits, max_size=6)) if answered else []
        error = "" if answered else draw(drawn_ids)
        count = draw(st.integers(0, 3))
        found.append(Row(query_id, status, tuple(shown), draw(drawn_ids), error, count))
    return found


Draws = Callable[[int, int], int]


def chance(rate: float, trials: int) -> float:
    """Return the most that a true ``rate`` shows in ``trials``, but for one time in a thousand."""
    return rate + 3.1 * math.sqrt(rate * (1 - rate) / trials)
