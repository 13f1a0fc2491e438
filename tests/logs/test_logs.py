"""Query sets from logs, and the first pool."""

import json
import random
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from harness.core.errors import BadFile, HarnessError
from harness.core.folders import NotOurs
from harness.core.records import Document, Query
from harness.corpus import beir, judgements
from harness.corpus.judgements import Pool
from harness.logs.querylog import Fields
from harness.logs.stage import (
    SampleCard,
    beside,
    classified,
    count,
    drawn,
    drift,
    first_pool,
    from_log,
    read_card,
    strata,
)
from harness.pipeline.layout import Layout
from harness.pipeline.params import ReplayParams
from harness.shadow.log import path as part_of
from harness.shadow.record import Observation
from tests.make import shadow_log as live_log
from tests.make.toy import Toy

FORMS = ("{}", "how does {} work here", "{}_x1")


def requests(seed: int = 1, size: int = 2_000) -> list[str]:
    """Draw queries of which few are frequent and many come once."""
    rng = random.Random(seed)
    names = [f"{FORMS[at % 3].format(f'w{chr(97 + at % 26)}{at}z')}" for at in range(500)]
    return [names[min(499, int(rng.paretovariate(0.6)))] for _ in range(size)]


def write(path: Path, queries: list[str]) -> Path:
    rows = [json.dumps({"q": text, "hits": 0 if text.endswith("x1") else 5}) for text in queries]
    path.write_text("\n".join(rows) + "\n")
    return path


def make(log: Path, name: str = "out.jsonl", *, size: int = 80, seed: int = 1) -> SampleCard:
    return from_log(log, log.parent / name, kind="", fields=Fields(), size=size, seed=seed)


def test_a_sample_stands_for_the_requests_of_its_log(tmp_path: Path) -> None:
    log = requests()
    made = make(write(tmp_path / "log.jsonl", log))
    queries = [*beir.queries(tmp_path / "out.jsonl")]
    assert made.sampled == len(queries) == 80
    true = Counter(log)
    for query in queries:
        assert query.drawn
        assert query.drawn.requests == true[query.text]
        row = made.strata[query.drawn.stratum]
        assert query.drawn.inclusion == row.sampled / row.queries
    assert sum(row.requests for row in made.strata.values()) == made.requests == 2_000
    rows = made.strata.values()
    most = max(row.requests / row.sampled for row in rows if row.sampled < row.queries)
    assert all(row.requests / (row.sampled - 1) >= most for row in rows if row.sampled > 2)
    classes = {q.drawn.stratum.split("/")[0] for q in queries if q.drawn}
    assert classes == {"head", "torso", "tail"}
    assert all(("zero-result" in q.slices) == q.text.endswith("x1") for q in queries)


def test_over_many_samples_the_weights_are_unbiased(tmp_path: Path) -> None:
    """Each query is in the sample as often as its inclusion probability says."""
    path = write(tmp_path / "log.jsonl", requests(size=600))
    totals: list[float] = []
    rate: dict[str, float] = {}
    seen = Counter[str]()
    every = classified(count(path, "", Fields()).queries.values())
    parts = strata(every, 40)
    for seed in range(100):
        sample = drawn(every, parts, seed)
        totals.append(sum(q.drawn.requests / q.drawn.inclusion for q in sample if q.drawn))
        seen.update(q.text for q in sample)
        rate |= {q.text: q.drawn.inclusion for q in sample if q.drawn}
    assert sum(totals) / len(totals) == pytest.approx(600, rel=0.02)
    for text, share in rate.items():
        assert seen[text] / 100 == pytest.approx(share, abs=0.2), text


def test_near_duplicates_are_as_frequent_as_all_of_them_together(tmp_path: Path) -> None:
    words = "install", "wheel", "packages", "offline", "linux"
    alike = [" ".join(words) for words, _ in zip(permutations(words), range(40), strict=False)]
    many = [*alike, *["zebra"] * 12, *["yak"] * 9]
    counts = count(write(tmp_path / "log.jsonl", many * 2), "", Fields())
    every = classified(counts.queries.values())
    places = {one.key: name.split("/")[0] for name, of in every.items() for one in of}
    assert {places[text] for text in alike} == {"head"}
    assert places["yak"] == "tail"


def test_what_was_left_out_and_masked_is_on_the_card_and_secrets_nowhere(tmp_path: Path) -> None:
    queries = [*requests(size=300), "of jane@example.org", "of jane@example.org", "  "]
    path = write(tmp_path / "log.jsonl", queries)
    path.write_bytes(path.read_bytes() + b'{"q": "na\xefve"}\n{"q": "cut o')
    card = make(path, size=200)
    assert card.left_out == {
        "it has no query": 1, "the line is cut off or malformed": 1,
    }  # fmt: skip
    assert (card.masked, card.foreign_lines, card.requests) == ({"email": 2}, 1, 303)
    text = (tmp_path / "out.jsonl").read_text() + beside(tmp_path / "out.jsonl").read_text()
    assert "jane" not in text
    (query,) = [q for q in beir.queries(tmp_path / "out.jsonl") if "<email>" in q.text]
    assert "masked" in query.slices
    assert len(card.mask_limits) == 3


def test_the_same_log_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", requests())
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make(path, name, seed=seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


def test_each_stratum_needs_two_and_a_small_log_is_taken_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", requests())
    with pytest.raises(HarnessError, match=r"strata need \d+ queries at least, 3 were wanted"):
        make(path, size=3)
    made = make(path, size=10_000)
    assert made.sampled == len(set(requests()))
    assert all(row.sampled == row.queries for row in made.strata.values())


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("", r"log\.jsonl: none of its 0 lines has a query \(it is empty\)\. .*--text"),
        ('{"a": 1}\n', r"log\.jsonl: none of its 1 line .*1 line: it has no query"),
        ("GET /\nGET /b\n", r"log\.jsonl:1: 2 of 2 lines are not of the format jsonl\. .*--format"),
    ],
)
def test_a_log_without_queries_is_named(tmp_path: Path, raw: str, says: str) -> None:
    (tmp_path / "log.jsonl").write_text(raw)
    with pytest.raises(BadFile, match=says):
        make(tmp_path / "log.jsonl")
    assert [one.name for one in tmp_path.iterdir() if not one.name.startswith(".")] == ["log.jsonl"]


def test_a_card_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", requests())
    make(path)
    with pytest.raises(NotOurs, match=r"out\.jsonl: already exists"):
        make(path)
    sample, card = tmp_path / "out.jsonl", beside(tmp_path / "out.jsonl")
    whole = sample.read_text()
    sample.write_text("".join(whole.splitlines(keepends=True)[1:]))
    with pytest.raises(BadFile, match="it was changed since its card was written"):
        read_card(sample)
    sample.write_text(whole)
    card.write_text("{}")
    with pytest.raises(BadFile, match="format: Field required"):
        read_card(sample)


def test_drift_is_none_of_the_same_log_and_all_of_another(tmp_path: Path) -> None:
    make(write(tmp_path / "log.jsonl", requests()), size=10_000)
    sample = tmp_path / "out.jsonl"

    def moved(queries: list[str]) -> tuple[float, float]:
        later = write(tmp_path / "later.jsonl", queries)
        found = drift(sample, later, kind="", fields=Fields())
        return found.distance, found.carried

    assert moved(requests()) == pytest.approx((0, 1))
    assert moved(["utterly new words here"] * 50)[1] == 0
    assert moved([text for text in requests() if text.endswith("x1")])[0] > 0.3
    half = ["utterly new words here"] * 1_000 + requests(size=1_000)
    assert moved(half)[1] == pytest.approx(0.5, abs=0.02)
    few = make(tmp_path / "log.jsonl", "few.jsonl", size=60)
    found = drift(tmp_path / "few.jsonl", tmp_path / "log.jsonl", kind="", fields=Fields())
    assert few.sampled == 60
    assert found.carried == pytest.approx(1, abs=0.1), "each query stands for those not drawn"


def test_a_shadow_log_tells_the_texts_of_divergences(measured: Toy, tmp_path: Path) -> None:
    live_log.write(measured, tmp_path / "log")
    made = make(tmp_path / "log", size=100)
    observed = sum(
        part.read_text().count("\n") for part in (tmp_path / "log").glob("observations.*.jsonl")
    )
    assert part_of(tmp_path / "log", Observation, 1).is_file()
    assert made.log_format == "shadow"
    assert made.requests + made.untold_requests == observed
    assert made.untold_requests > 0


WORDS = ("red", "blue", "green")
DOCUMENTS = [Document(f"d{at}", "", f"{WORDS[at % 3]} cone number{at}") for at in range(12)]
QUERIES = [Query("q1", "red cone"), Query("q2", "number5"), Query("q3", "nothing")]


def make_first_pool(tmp_path: Path, name: str, depth: int, seed: int = 1) -> Pool:
    layout = Layout(tmp_path / f"build{name}" / "sample", tmp_path / "perf", tmp_path / "cache")
    return first_pool(
        layout, DOCUMENTS, QUERIES, arms=["fts5", "fts5-porter"], cache=tmp_path / "models",
        params=ReplayParams(k=50, time_limit_s=30, seed=seed), depth=depth, largest=2,
        path=tmp_path / name,
    )  # fmt: skip


def test_what_each_engine_shows_first_is_to_be_judged(tmp_path: Path) -> None:
    made = make_first_pool(tmp_path, "p", 3)
    found = judgements.read_pool(tmp_path / "p")
    assert found.pairs == made.pairs
    assert found.grades == (None,) * 4
    assert {(pair.query_id, pair.doc_id) for pair in found.pairs} == {
        *(("q1", f"d{at}") for at in (0, 3, 6)),
        ("q2", "d5"),
    }
    assert found.pairs[0].scale == (0, 1, 2)
    assert "red cone" in found.pairs[0].snippet


def test_pairs_of_a_query_stand_in_a_drawn_order(tmp_path: Path) -> None:
    orders = set()
    for seed in range(6):
        make_first_pool(tmp_path, f"p{seed}", 4, seed)
        pairs = judgements.read_pool(tmp_path / f"p{seed}").pairs
        assert [pair.query_id for pair in pairs] == ["q1"] * 4 + ["q2"]
        orders.add(tuple(pair.doc_id for pair in pairs[:4]))
    assert len(orders) > 1
