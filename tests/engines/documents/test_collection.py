"""A collection from end to end, and its stages by themselves: words, fusion, relations."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.check.subject import DOCUMENTS as SMALL
from harness.core.errors import HarnessError, IndexNotReady, ModelNotReady
from harness_engines.kept import index
from harness_engines.kept.kit import DOCUMENTS
from harness_engines.stacks.documents import arm, library, ranking
from harness_engines.stacks.documents.arm import DocumentCollection
from harness_engines.stacks.documents.library import ChunkGraph, entities, words
from harness_engines.stacks.documents.ranking import Leg, by_rank, fit_projection
from harness_engines.stacks.documents.texts import DocumentText, TextPage, of_document
from harness_engines.vector.embedder import unit

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
PAGES = (
    "Customer retention rose to 94 per cent.\n\nThe board of Ocean Tide Trust agreed.",
    "Churn fell after quarterly reviews with customers of Ocean Tide Trust.",
)
REPORT = DocumentText(
    "reports/q3.pdf", "q3.pdf", "/originals/q3.pdf", tuple(map(TextPage, (1, 2), PAGES))
)


def settings(**changed: Any) -> library.DocumentSettings:  # noqa: ANN401  whatever a setting takes
    given = {"tier": "pro", "embedder": "all-MiniLM-L6-v2", "sparse": "splade-tiny"}
    ranked = {"max_tokens": 64, "fusion": "specification"}
    return library.DocumentSettings.model_validate({**given, **ranked, **changed})


@contextmanager
def built(folder: Path, given: library.DocumentSettings) -> Iterator[DocumentCollection]:
    """Build the small collection and open it."""
    folder.mkdir(parents=True)
    sources = (*map(of_document, SMALL), REPORT)
    arm.build(sources, folder, given, folder.parent, lambda: NOON)
    with arm.opened(folder, given, "Small") as opened:
        yield opened


ANSWER = "query collection results_count search_time_ms tier stages_used results"
RESULT = "text score citation citation_short source context"
SOURCE = """
document document_path document_id chunk_id chunk_index page page_end paragraph_start paragraph_end
line_start line_end char_start char_end extraction_method ocr_confidence chunk_created_at
chunk_embedded_at document_ingested_at
"""


def check(written: dict[str, Any]) -> None:
    """Check that an answer is the JSON of section 7 and nothing else."""
    assert {*written} == {*ANSWER.split()}
    assert written["results_count"] == len(written["results"])
    for one in written["results"]:
        assert {*one} == {*RESULT.split()}
        assert {*one["source"]} == {*SOURCE.split()}
        assert {*one["context"]} == {"after", "before"}
        assert 0 <= one["score"] <= 1


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def pro(cache: Path) -> Iterator[DocumentCollection]:
    with built(cache / "pro", settings()) as opened:
        yield opened


def test_the_answer_is_the_json_of_section_7_and_nothing_else(pro: DocumentCollection) -> None:
    for query in ("customer retention", "water", "zzz", ""):
        told = DOCUMENTS.answer(pro, {"query": query, "top_k": 10})
        check(json.loads(json.dumps(told, allow_nan=False)))
    gone = ranking.MissingModel("E6", "not installed")
    left = replace(pro.pipeline.models, sparse=None, missing=(gone,))
    without = replace(pro, pipeline=replace(pro.pipeline, models=left))
    answer = dict(DOCUMENTS.answer(without, {"query": "water", "top_k": 3}))
    assert answer.pop("missing") == [gone._asdict()]
    check(answer)


def test_a_result_says_where_it_stands_and_what_stands_around_it(pro: DocumentCollection) -> None:
    told = DOCUMENTS.answer(pro, {"query": "customer retention per cent", "top_k": 3})
    first = told["results"][0]
    assert told["stages_used"] == ["bm25", "semantic", "colbert"]
    assert told["tier"] == "pro"
    assert first["citation"] == "q3.pdf, p. 1, para. 1-2"
    assert first["citation_short"] == "q3, p. 1"
    assert first["source"]["document_path"] == "/originals/q3.pdf"
    assert first["context"]["before"] == ""
    assert first["context"]["after"].startswith("Churn fell")
    assert first["source"]["chunk_embedded_at"] == NOON.isoformat()
    rows = pro.search("churn after quarterly reviews", 1).rows.tolist()
    related = pro.graph.expand(rows, 3)
    assert pro.library.chunks[related[0].row].id == "reports/q3.pdf#000000"
    assert "ocean tide trust" in related[0].shared
    assert not set(rows) & {one.row for one in related}
    assert pro.graph.expand(rows, 0) == []


def test_a_filter_leaves_one_document_and_an_unknown_one_none(pro: DocumentCollection) -> None:
    found = pro.search("the water, retention and the customers", 10, "reports/q3.pdf").rows
    of = [pro.library.chunks[row].source.document_id for row in found]
    assert of == ["reports/q3.pdf"] * 2
    assert not len(pro.search("water", 10, "gone").rows)
    assert len(pro.search("water of the sea", 1).rows) == 1
    with pytest.raises(HarnessError, match="one result at least"):
        pro.search("water", 0)
    ticks = iter([1_000_000, 88_400_000])
    timed = replace(pro, clock_ns=lambda: next(ticks))
    assert DOCUMENTS.answer(timed, {"query": "water"})["search_time_ms"] == 87


def test_without_models_nothing_was_embedded(tmp_path: Path) -> None:
    given = settings(tier="free", embedder="", sparse="")
    with built(tmp_path / "words", given) as opened:
        answer = DOCUMENTS.answer(opened, {"query": "water of the sea"})
    assert answer["stages_used"] == ["bm25"]
    assert answer["results"][0]["source"]["chunk_embedded_at"] is None


QUERY = "water of the sea, customers and the words of a board"


def pipeline(pro: DocumentCollection, *, late: bool, **changed: object) -> ranking.Pipeline:
    """Rank the same index otherwise."""
    whole = pro.pipeline.models
    models = whole if late else replace(whole, late=None)
    return replace(pro.pipeline, settings=settings(**changed), models=models)


def by_hand(
    pro: DocumentCollection, rows: list[int]
) -> tuple[list[float], list[float], list[float]]:
    """Cosines, dot products and MaxSim of some chunks, from what the models say of their texts."""
    found = pro.pipeline.models
    assert found.dense
    assert found.sparse
    assert found.late
    encode, late = found.sparse.encoder.encode, found.late
    texts = [ranking.read_by_models(pro.library.chunks[row].text) for row in rows]
    query, chunks = found.dense.embedder.embed([QUERY])[0], found.dense.embedder.embed(texts)
    weighed, *others = (
        dict(zip(*(part.tolist() for part in encode(text)), strict=True))
        for text in (QUERY, *texts)
    )
    dots = [sum(weighed.get(term, 0.0) * one[term] for term in one) for one in others]
    asked, *held = (
        ranking.projected(tokens.astype(np.float16), late.projection).astype(np.float64)
        for tokens in late.embedder.read([QUERY, *texts]).tokens
    )
    maxsims = [float((asked @ one.T).max(axis=1).mean()) for one in held]
    return (chunks @ query).tolist(), dots, maxsims


def test_as_specified_the_score_is_the_blend_of_the_formula_and_maxsim(
    pro: DocumentCollection,
) -> None:
    ranked = pro.pipeline.rank(QUERY)
    rows = ranked.rows.tolist()
    assert len(rows) > 4
    cosines, dots, maxsims = by_hand(pro, rows)
    base = [
        (1 / (60 + 1 / cosine) if cosine > 0 else 0) + (0.8 / (60 + 1 / dot) if dot > 0 else 0)
        for cosine, dot in zip(cosines, dots, strict=True)
    ]
    expected = [0.4 * one + 0.6 * late for one, late in zip(base, maxsims, strict=True)]
    assert ranked.scores.tolist() == pytest.approx(expected, abs=2e-3)
    assert ranked.scores.tolist() == sorted(ranked.scores.tolist(), reverse=True)
    free = pipeline(pro, late=False).rank(QUERY)
    assert sorted(free.scores.tolist()) == pytest.approx(sorted(base), abs=1e-5)


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_recall_counts_in_a_fusion_by_rank_as_it_is_weighed(
    pro: DocumentCollection, weight: float
) -> None:
    rows, found = pro.pipeline.recall.search(QUERY, 500), pro.pipeline.models
    assert found.dense
    assert found.sparse
    legs = [Leg(found.dense.cosines(QUERY, rows), 1.0), Leg(found.sparse.dots(QUERY, rows), 0.8)]
    recalled = [Leg(-np.arange(len(rows), dtype=np.float64), weight)] if weight else []
    ranked = pipeline(pro, late=False, fusion="rank", recall_weight=weight).rank(QUERY)
    expected = dict(zip(rows.tolist(), by_rank([*legs, *recalled], len(rows)), strict=True))
    assert dict(zip(ranked.rows.tolist(), ranked.scores, strict=True)) == expected


def test_the_stages_used_are_those_that_ran(pro: DocumentCollection) -> None:
    assert pro.pipeline.rank(QUERY).stages_used == ("bm25", "semantic", "colbert")
    assert pipeline(pro, late=False).rank(QUERY).stages_used == ("bm25", "semantic")
    assert pro.pipeline.rank("zzz the a").stages_used == ("bm25",)
    alone = replace(pro.pipeline, models=ranking.Models(None, None, None, ()))
    ranked = alone.rank(QUERY)
    assert ranked.stages_used == ("bm25",)
    assert ranked.rows.tolist() == alone.recall.search(QUERY, 500).tolist()
    assert (np.diff(ranked.scores) < 0).all()


def test_stage_2_keeps_100_of_the_500(
    pro: DocumentCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in (pro.pipeline, pipeline(pro, late=False)):
        rows = one.rank("very same words copy").rows[:2].tolist()
        ids = [pro.library.chunks[row].id for row in rows]
        assert ids == ["twin-a#000000", "twin-b#000000"]
    assert set(pro.pipeline.rank(QUERY).rows) <= set(pro.pipeline.recall.search(QUERY, 500))
    assert (ranking.RECALLED, ranking.RANKED) == (500, 100)
    monkeypatch.setattr(ranking, "RECALLED", 6)
    monkeypatch.setattr(ranking, "RANKED", 3)
    ranked = pro.pipeline.rank(QUERY)
    assert len(ranked.rows) == 3
    assert set(ranked.rows) <= set(pro.pipeline.recall.search(QUERY, 6))


@pytest.mark.parametrize(
    ("gone", "missing", "stages_used"),
    [
        (["embedder_of"], ["E1", "E12"], ("bm25", "semantic")),
        (["encoder_of"], ["E6"], ("bm25", "semantic", "colbert")),
        (["embedder_of", "encoder_of"], ["E1", "E12", "E6"], ("bm25",)),
    ],
)
def test_a_model_that_is_missing_is_named_and_its_stages_are_left_out(  # noqa: PLR0917  cases
    gone: list[str],
    missing: list[str],
    stages_used: tuple[str, ...],
    cache: Path,
    pro: DocumentCollection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(*_: object) -> None:
        raise ModelNotReady("the package is not installed")

    for name in gone:
        monkeypatch.setattr(ranking, name, absent)
    with arm.opened(cache / "pro", settings(), "Small") as opened:
        left = opened.pipeline.models
    assert sorted(one.part for one in left.missing) == missing
    assert all(one.reason == "MODEL_NOT_READY" and one.why for one in left.missing)
    assert replace(pro.pipeline, models=left).rank(QUERY).stages_used == stages_used


@pytest.mark.usefixtures("pro")
@pytest.mark.parametrize(
    ("name", "size"),
    [(index.FILE, None), (index.FILE, 0), (index.FILE, 16), (index.FILE, 40), (ranking.TOKENS, 40)],
)
def test_a_broken_file_of_an_index_is_not_ready(
    name: str, size: int | None, cache: Path, tmp_path: Path
) -> None:
    """Whether it is absent or cut off, right behind the name of its format too."""
    for path in (cache / "pro").iterdir():
        is_broken = path.name.endswith(name)
        if path.is_file() and not (is_broken and size is None):
            content = path.read_bytes()
            (tmp_path / path.name).write_bytes(content[:size] if is_broken else content)
    with (
        pytest.raises(IndexNotReady, match="Build it again: harness stage index"),
        arm.opened(tmp_path, settings(), "broken"),
    ):
        pass


WORDS = ("moon", "sea", "water", "tide", "salt")
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What does the Report say", ["what", "does", "report", "say"]),
        ("customer-retention, read_csv/2024", ["customer", "retention", "read", "csv", "2024"]),
        ("Don't 'quote' the dogs' o'clock", ["don't", "quote", "dogs", "o'clock"]),
        ("don\u2019t", ["don't"]),
        ("a b c x 7 42", ["42"]),
        ("\u00c9t\u00e9 \u6771\u4eac", ["ete", "\u6771\u4eac"]),
        ("inter-\nnational trade-\nOff", ["inter", "national", "trade", "off", "international"]),
        ("co\xad\noperate", ["co", "operate", "cooperate"]),
        ("猫 東京大学 β", ["猫", "東京", "京大", "大学"]),
        ("The THE and ' '' _", []),
    ],
)
def test_words_are_those_of_section_3(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def bm25_of(texts: Sequence[str]) -> library.Bm25:
    """Count the words of texts."""
    counted = [Counter(words(text)) for text in texts]
    numbers = {word: at for at, word in enumerate(sorted(set().union(*counted)))}
    columns = (([numbers[word] for word in one], [*one.values()]) for one in counted)
    rows = [
        (np.array(which, np.int32).tobytes(), np.array(times, np.int32).tobytes())
        for which, times in columns
    ]
    return library.Bm25.joined(numbers, rows)


def by_the_formula(texts: list[str], query: str) -> list[float]:
    """BM25 with k1 = 1.2 and b = 0.75, word by word."""
    bags = [Counter(text.split()) for text in texts]
    mean = sum(bag.total() for bag in bags) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for word in query.split():
            having = sum(word in other for other in bags)
            weight = math.log(1 + (len(bags) - having + 0.5) / (having + 0.5))
            length = 1 - 0.75 + 0.75 * bag.total() / mean if mean else 1.0
            score += weight * bag[word] * 2.2 / (bag[word] + 1.2 * length)
        scores.append(score)
    return scores


@given(texts=TEXTS, query=st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join))
def test_scores_and_order_are_those_of_the_formula(texts: list[str], query: str) -> None:
    index = bm25_of(texts)
    found = index.search(query, 5).tolist()
    scores = by_the_formula(texts, query) if texts else []
    assert index.scores(query).tolist() == pytest.approx(scores, abs=1e-8)
    order = sorted(range(len(texts)), key=lambda n: (-round(scores[n], 9), n))
    assert found == [n for n in order if scores[n] > 0][:5]


@given(texts=TEXTS, allowed=st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_filter_hides_and_changes_no_weight(texts: list[str], allowed: list[bool]) -> None:
    mask = np.array(allowed[: len(texts)], dtype=np.bool_)
    index = bm25_of(texts)
    everything = index.search("moon sea", len(texts))
    assert index.search("moon sea", 100, mask).tolist() == [n for n in everything if mask[n]]


def test_by_rank_first_everywhere_is_one_and_equal_scores_share_a_rank() -> None:
    found = by_rank([Leg(np.array([3.0, 2.0, 2.0]), 1.0), Leg(np.array([9.0, 1.0, 5.0]), 0.8)], 3)
    assert found[0] == 1.0
    second, third = 1 / 62 + 0.8 / 63, 1 / 62 + 0.8 / 62
    assert found[1:].tolist() == pytest.approx([second / (1.8 / 61), third / (1.8 / 61)], abs=1e-12)
    assert ranking.ranks(np.array([2.0, 5.0, 5.0, math.nan])).tolist() == [3.0, 1.0, 1.0, 4.0]
    dense, sparse = np.array([0.5, 1.0, -0.2, 0.0]), np.array([2.0, 0.0, 4.0, -1.0])
    scores = ranking.as_specified([Leg(dense, 1.0), Leg(sparse, 0.8)], 4)
    expected = [1 / (60 + 2) + 0.8 / (60 + 0.5), 1 / 61, 0.8 / (60 + 0.25), 0.0]
    assert scores.tolist() == pytest.approx(expected, abs=1e-12)
    scores = ranking.blend_as_specified(np.array([0.02, 0.01]), np.array([0.5, -0.1]))
    assert scores.tolist() == pytest.approx([0.308, 0.004])
    assert by_rank([], 2).tolist() == [0.0, 0.0]
    assert ranking.as_specified([], 2).tolist() == [0.0, 0.0]


WIDTH = 96


def vectors(rank: int, count: int = 400) -> NDArray[np.float16]:
    """Draw unit vectors that lie in ``rank`` dimensions."""
    dice = np.random.default_rng(5)
    inner = dice.normal(size=(count, rank)) @ dice.normal(size=(rank, WIDTH))
    return unit(inner.astype(np.float32)).astype(np.float16)


def test_it_keeps_as_much_as_the_best_map_of_that_rank_does() -> None:
    given = vectors(WIDTH)
    singular = np.linalg.svd(given.astype(np.float64), compute_uv=False) ** 2
    best = singular[: ranking.DIMENSION].sum() / singular.sum()
    columns = fit_projection(given).astype(np.float64)
    kept = (given.astype(np.float64) @ columns) ** 2
    assert kept.sum() / singular.sum() == pytest.approx(best, abs=1e-4)
    assert np.abs(columns.T @ columns - np.eye(ranking.DIMENSION)).max() < 1e-5
    one, other = fit_projection(given), fit_projection(given[::-1].copy())
    assert np.abs(one - other).max() < 1e-4
    assert (np.abs(fit_projection(vectors(3))).sum(axis=0) > 0).sum() == 3
    nothing = fit_projection(np.zeros((0, WIDTH), dtype=np.float16))
    assert not ranking.projected(vectors(3), nothing).any()


NAMES = ("Ocean Tide", "Board of Trade", "NASA", "read_csv", "DataFrame", "BRCA-1", "np_array")
CHUNKS = st.lists(st.lists(st.sampled_from(NAMES), max_size=5).map(", ".join), max_size=25)


def graph_of(texts: list[str]) -> ChunkGraph:
    dice = np.random.default_rng(0)
    drawn = unit(dice.normal(size=(len(texts), 3)).astype(np.float32))
    return ChunkGraph.of([entities(one) for one in texts], drawn.astype(np.float16))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Bank of England met Ada Lovelace.", {"the bank of england", "ada lovelace"}),
        ("NASA and BRCA1, COVID-19", {"nasa", "brca1", "covid-19"}),
        ("call read_csv or DataFrame or iterRows", {"read_csv", "dataframe", "iterrows"}),
        ("Nothing here. Another sentence, I think, A", set()),
    ],
)
def test_an_entity_is_what_the_rule_says(text: str, expected: set[str]) -> None:
    assert entities(text) == expected


@given(texts=CHUNKS, data=st.data(), most=st.integers(0, 8))
def test_expansion_is_capped_and_new(texts: list[str], data: st.DataObject, most: int) -> None:
    found = data.draw(st.lists(st.sampled_from(range(len(texts))))) if texts else []
    edges = graph_of(texts).expand(found, most)
    rows = [edge.row for edge in edges]
    assert len(rows) <= most
    assert len(set(rows)) == len(rows)
    assert not set(rows) & set(found)
    order = [(-edge.weight, edge.row) for edge in edges]
    assert order == sorted(order)
    for edge in edges:
        assert 0 < edge.weight <= 1
        for entity in edge.shared:
            assert entity in entities(texts[edge.row])
            assert any(entity in entities(texts[row]) for row in found)


def test_reading_does_not_grow_with_the_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Ocean Tide and NAME{n % 40}" for n in range(3_000)]
    network = graph_of(texts)
    assert "ocean tide" not in network.chunks
    held: list[int] = []
    ordered = sorted

    def counted(some: list[object], **rest: object) -> list[object]:
        made = list(some)
        held.append(len(made))
        return ordered(made, **rest)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(library, "sorted", counted, raising=False)
    assert len(network.expand(range(20), 10)) == 10
    assert max(held) <= max(library.MOST_OF_A_CHUNK * library.MOST_CHUNKS, 2 * 10 * 20)


def test_what_shares_an_entity_comes_before_what_only_reads_alike() -> None:
    texts = ["Ocean Tide and NASA and ESA", "nothing", "nothing", "NASA", "nothing"]
    vectors = np.tile(np.array([[1, 0]], dtype=np.float16), (5, 1))
    vectors[3] = [0, 1]
    edges = ChunkGraph.of([entities(one) for one in texts], vectors).expand([0], 3)
    found = [(edge.row, edge.shared, edge.weight) for edge in edges]
    assert found == [(3, ("nasa",), 1.0), (1, (), 0.5), (2, (), 0.5)]
