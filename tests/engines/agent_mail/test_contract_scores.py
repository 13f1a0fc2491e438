"""The contract of scores, of the shadow beside them, and of the index."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from math import log, log2
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import tantivy

from harness_engines.lexical.tantivy import analyzer
from harness_engines.stacks.agent_mail.contract import (
    Event,
    Filters,
    MessageCandidate,
    QueryExplain,
    RankingMode,
    SearchHit,
    SearchMode,
    SearchQuery,
    ShadowComparison,
    compare_with_shadow,
)
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.tantivy.index import HASH, INDEX, schema_hash
from harness_engines.vector import amvi
from harness_engines.vector.embedder import HashEmbedder, OnnxEmbedder
from tests.engines.agent_mail.whole import EMBEDDER, ByLength, Whole, build, whole
from tests.make.mail.messages import one, some_filters, some_mail, some_text
from tests.make.mail.tantivy import NONE, Case, built

ALL = 1_000
MAIL = some_mail(53, 200)
WAYS = [*((mode, None) for mode in SearchMode), (SearchMode.LEXICAL, KillSwitch.FTS5)]
TEXT = "deployment review br-2tnl"


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("scores")
    build(folder, MAIL.messages)
    with whole(folder) as made:
        yield made


def hits(mail: Whole, query: SearchQuery) -> tuple[SearchHit, ...]:
    return mail.ask(query).hits


@pytest.mark.parametrize(("mode", "switch"), WAYS)
def test_every_score_is_between_none_and_one_in_a_total_order(
    mail: Whole, mode: SearchMode, switch: KillSwitch | None
) -> None:
    rng, served, shown = Random(6), mail.under(switch), 0
    for _ in range(40):
        filters = some_filters(rng)
        query = SearchQuery(some_text(rng), mode=mode, limit=ALL, sender_name=filters.sender_name)
        search_hits = hits(served, query)
        keys = [(-hit.score, hit.message_id) for hit in search_hits]
        assert keys == sorted(keys)
        assert len({message_id for _, message_id in keys}) == len(keys)
        assert all(0.0 <= hit.score <= 1.0 for hit in search_hits)
        shown += len(search_hits)
    assert shown > 500


def found_by(mail: Whole, tier: FallbackTier) -> dict[int, float]:
    """Scores of an engine asked directly, higher for better."""
    engine = mail.service.tiers.lexical[tier]
    found = engine.search(TEXT, Filters(), RankingMode.RELEVANCE, ALL)
    return {c.message_id: c.raw_score for c in found.candidates}


@pytest.mark.parametrize(
    ("switch", "tier"),
    [(KillSwitch.FTS5, FallbackTier.FTS5), (KillSwitch.TANTIVY, FallbackTier.TANTIVY)],
)
def test_a_lexical_score_is_the_share_of_the_best_beside_the_engines_own(
    mail: Whole, switch: KillSwitch, tier: FallbackTier
) -> None:
    own = found_by(mail, tier)
    best = max(own.values())
    shown = hits(mail.under(switch), SearchQuery(TEXT, limit=ALL))
    assert len(shown) == len(own) > 20
    for hit in shown:
        assert hit.raw_score == own[hit.message_id]
        assert hit.score == pytest.approx(hit.raw_score / best, abs=1e-12)
    assert shown[0].score == 1.0


@pytest.mark.parametrize("switch", [KillSwitch.FTS5, KillSwitch.TANTIVY])
def test_a_score_is_the_same_share_whatever_page_and_order_it_is_shown_in(
    mail: Whole, switch: KillSwitch
) -> None:
    """The best hit may be on none of the pages that are read."""
    served = mail.under(switch)
    scores = {hit.message_id: hit.score for hit in hits(served, SearchQuery(TEXT, limit=ALL))}
    (newest,) = hits(served, SearchQuery(TEXT, limit=1, ranking=RankingMode.RECENCY))
    assert newest.score == scores[newest.message_id] < 1.0


def test_bm25_of_fts5_is_turned_so_that_higher_is_better(mail: Whole) -> None:
    """SQLite counts downwards from zero."""
    sql = (
        "SELECT rowid, bm25(messages_fts, 2.0, 1.0, 4.0) FROM messages_fts"
        " WHERE messages_fts MATCH 'deployment'"
    )
    native = dict(mail.store.ask(sql))
    shown = hits(mail.under(KillSwitch.FTS5), SearchQuery("deployment", limit=ALL))
    assert {hit.message_id: -hit.raw_score for hit in shown} == pytest.approx(native)
    assert all(score < 0 for score in native.values())


def test_bm25_of_tantivy_is_positive(mail: Whole) -> None:
    assert min(found_by(mail, FallbackTier.TANTIVY).values()) > 0


def test_a_semantic_score_is_the_cosine(mail: Whole) -> None:
    vectors = dict(
        zip(
            (m.message_id for m in MAIL.messages),
            EMBEDDER.embed([f"{m.subject} {m.body}" for m in MAIL.messages]),
            strict=True,
        )
    )
    asked = EMBEDDER.embed([TEXT])[0]
    shown = hits(mail, SearchQuery(TEXT, mode=SearchMode.SEMANTIC, limit=ALL))
    for hit in shown:
        cosine = float(vectors[hit.message_id].astype(float) @ asked.astype(float))
        assert hit.score == pytest.approx(cosine, abs=1e-3)
        assert hit.raw_score == hit.score > 0
    near = {at for at, vector in vectors.items() if float(vector @ asked) > 1e-3}
    assert near <= {hit.message_id for hit in shown}


def ranks(shown: tuple[SearchHit, ...]) -> dict[int, int]:
    return {hit.message_id: rank for rank, hit in enumerate(shown, start=1)}


@pytest.mark.parametrize("rrf_k", [1, 60, 1_000])
def test_a_hybrid_score_is_the_sum_over_both_legs_as_a_share_of_the_largest(
    mail: Whole, rrf_k: int
) -> None:
    legs = [
        ranks(hits(mail, SearchQuery(TEXT, mode=mode, limit=ALL)))
        for mode in (SearchMode.LEXICAL, SearchMode.SEMANTIC)
    ]
    shown = hits(mail, SearchQuery(TEXT, mode=SearchMode.HYBRID, limit=ALL, rrf_k=rrf_k))
    assert {hit.message_id for hit in shown} == set(legs[0]) | set(legs[1])
    for hit in shown:
        total = sum(1 / (rrf_k + leg[hit.message_id]) for leg in legs if hit.message_id in leg)
        assert hit.raw_score == pytest.approx(total, abs=1e-12)
        assert hit.score == pytest.approx(total / (2 / (rrf_k + 1)), abs=1e-11)


def test_a_reranked_score_is_the_rerankers_and_the_rest_stays_below(mail: Whole) -> None:
    hybrid = hits(mail, SearchQuery(TEXT, mode=SearchMode.HYBRID, limit=ALL))
    query = SearchQuery(TEXT, mode=SearchMode.HYBRID_RERANK, limit=ALL, rerank_top_k=20)
    shown = hits(mail, query)
    window = [hit.message_id for hit in hybrid[:20]]
    given = dict(zip(window, ByLength().rerank(TEXT, window, []), strict=True))
    assert {hit.message_id: (hit.score, hit.raw_score) for hit in shown[:20]} == given
    assert [hit.message_id for hit in shown[20:]] == [hit.message_id for hit in hybrid[20:]]
    assert all(hit.score <= shown[19].score for hit in shown[20:])


@pytest.mark.parametrize(("mode", "switch"), WAYS)
@pytest.mark.parametrize("least", [0.0, 0.3, 0.75, 1.0])
def test_the_threshold_is_on_the_score_that_is_shown(
    mail: Whole, mode: SearchMode, switch: KillSwitch | None, least: float
) -> None:
    served, query = mail.under(switch), SearchQuery(TEXT, mode=mode, limit=ALL)
    everything = hits(served, query)
    kept = tuple(hit for hit in everything if hit.score >= least)
    assert hits(served, replace(query, min_score=least)) == kept
    assert hits(served, replace(query, min_score=least, limit=5)) == kept[:5]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_never_reaches_a_caller(mail: Whole, value: float) -> None:
    class Bad:
        name = "bad"

        def search(self, *asked: object) -> object:
            found = mail.service.tiers.lexical[FallbackTier.FTS5].search(*asked)  # type: ignore[arg-type]
            first = found.candidates[0]
            spoilt = (MessageCandidate(first.message_id, value), *found.candidates[1:])
            return replace(found, candidates=spoilt)

    tiers = mail.service.tiers
    lexical = {**tiers.lexical, FallbackTier.TANTIVY: Bad()}
    service = replace(mail.service, tiers=replace(tiers, lexical=lexical))  # type: ignore[arg-type]
    found = service.search(SearchQuery(TEXT))
    assert found.explain.engine == "fts5"
    assert all(math.isfinite(hit.score) and math.isfinite(hit.raw_score) for hit in found.hits)


def test_equal_scores_come_by_id_in_every_mode(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ties")
    same = [replace(MAIL.messages[0], message_id=at, subject="moss", body="") for at in (9, 2, 5)]
    build(folder, same)
    with whole(folder) as made:
        for mode in (SearchMode.LEXICAL, SearchMode.SEMANTIC):
            assert [hit.message_id for hit in hits(made, SearchQuery("moss", mode=mode))] == [
                2,
                5,
                9,
            ]
            assert len({hit.score for hit in hits(made, SearchQuery("moss", mode=mode))}) == 1
        served = made.under(KillSwitch.FTS5)
        assert [hit.message_id for hit in hits(served, SearchQuery("moss"))] == [2, 5, 9]


K1, B = 1.2, 0.75
BODIES = {
    1: "moss",
    2: "moss moss stone",
    3: "moss and other things that make it longer than the rest of them",
    4: "stone",
    5: "water",
    6: "salt water",
    7: "salt",
}
WORDS = {at: body.split() for at, body in BODIES.items()}


@pytest.fixture(scope="module")
def mail_bm25(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("bm25")
    build(folder, [one(at, body=body) for at, body in BODIES.items()])
    with whole(folder) as made:
        yield made


def by_hand(word: str, tier: FallbackTier) -> dict[int, float]:
    """Score the messages that have ``word`` in their body, whose weight is 1."""
    have = [at for at, words in WORDS.items() if word in words]
    odds = (len(WORDS) - len(have) + 0.5) / (len(have) + 0.5)
    weight = log(1 + odds) if tier is FallbackTier.TANTIVY else log(odds)
    mean = sum(map(len, WORDS.values())) / len(WORDS)
    found = {}
    for at in have:
        often, long = WORDS[at].count(word), len(WORDS[at])
        found[at] = weight * often * (K1 + 1) / (often + K1 * (1 - B + B * long / mean))
    return found


@pytest.mark.parametrize("tier", [FallbackTier.TANTIVY, FallbackTier.FTS5])
@pytest.mark.parametrize("word", ["moss", "stone", "water", "longer"])
def test_a_word_scores_by_how_rare_it_is_how_often_it_stands_and_how_long_the_text_is(
    mail_bm25: Whole, tier: FallbackTier, word: str
) -> None:
    engine = mail_bm25.service.tiers.lexical[tier]
    found = engine.search(word, Filters(), RankingMode.RELEVANCE, 10).candidates
    scores = {candidate.message_id: candidate.raw_score for candidate in found}
    assert scores == pytest.approx(by_hand(word, tier), rel=1e-5)
    assert scores


@pytest.mark.parametrize("tier", [FallbackTier.TANTIVY, FallbackTier.FTS5])
def test_several_words_score_the_sum(mail_bm25: Whole, tier: FallbackTier) -> None:
    engine = mail_bm25.service.tiers.lexical[tier]
    found = engine.search("moss stone", Filters(), RankingMode.RELEVANCE, 10).candidates
    moss, stone = by_hand("moss", tier), by_hand("stone", tier)
    both = {at: moss.get(at, 0.0) + stone.get(at, 0.0) for at in {*moss, *stone}}
    assert {c.message_id: c.raw_score for c in found} == pytest.approx(both, rel=1e-5)


@pytest.fixture(scope="module")
def mail_shadow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("shadow")
    build(folder, some_mail(56, 120).messages)
    with whole(folder) as made:
        yield made


def test_its_fields_are_the_contracts() -> None:
    assert [field.name for field in fields(ShadowComparison)] == [
        "serving_engine", "shadow_engine", "overlap_jaccard", "ndcg_at_10", "mrr_delta",
        "serving_only", "shadow_only",
    ]  # fmt: skip


def test_a_worked_example_of_a_comparison() -> None:
    found = compare_with_shadow("fts5", [1, 2, 3], "tantivy", [2, 4, 1, 5])
    assert (found.serving_engine, found.shadow_engine) == ("fts5", "tantivy")
    assert found.overlap_jaccard == 2 / 5
    assert (found.serving_only, found.shadow_only) == (1, 2)
    assert found.mrr_delta == pytest.approx(1 / 3 - 1)
    ideal = 10 / log2(2) + 9 / log2(3) + 8 / log2(4)
    assert found.ndcg_at_10 == pytest.approx((9 / log2(2) + 10 / log2(4)) / ideal)


def test_the_same_list_is_perfect_agreement_and_another_is_none() -> None:
    same = compare_with_shadow("a", [3, 1, 2], "b", [3, 1, 2])
    assert (same.overlap_jaccard, same.ndcg_at_10, same.mrr_delta) == (1.0, 1.0, 0.0)
    other = compare_with_shadow("a", [3, 1, 2], "b", [6, 7])
    assert (other.overlap_jaccard, other.ndcg_at_10, other.mrr_delta) == (0.0, 0.0, -1.0)


def test_what_is_not_defined_is_no_number() -> None:
    nothing = compare_with_shadow("a", [], "b", [])
    assert (nothing.overlap_jaccard, nothing.ndcg_at_10, nothing.mrr_delta) == (None, None, None)
    alone = compare_with_shadow("a", [], "b", [1])
    assert (alone.overlap_jaccard, alone.ndcg_at_10, alone.shadow_only) == (0.0, None, 1)


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("ranking", RankingMode)
def test_the_answer_is_that_of_fts5_alone(
    mail_shadow: Whole, mode: SearchMode, ranking: RankingMode
) -> None:
    query = SearchQuery(TEXT, mode=mode, ranking=ranking, limit=7)
    alone = mail_shadow.under(KillSwitch.FTS5).ask(query)
    shadowed = mail_shadow.under(KillSwitch.SHADOW).ask(query)
    assert shadowed.hits == alone.hits != ()
    assert shadowed.next_cursor == alone.next_cursor
    assert shadowed.explain.engine == "fts5"
    own = {"timing", "shadow", "downgrade_reason", "note"}
    for name in {field.name for field in fields(QueryExplain)} - own:
        assert getattr(shadowed.explain, name) == getattr(alone.explain, name)


def test_both_ran_and_the_comparison_is_logged_and_explained(mail_shadow: Whole) -> None:
    query = SearchQuery(TEXT, limit=7)
    mail_shadow.log.events.clear()
    told = mail_shadow.under(KillSwitch.SHADOW).ask(query).explain.shadow
    assert told is not None
    assert mail_shadow.log.events == [(Event.SHADOW_COMPARISON, asdict(told))]
    by_hand = compare_with_shadow(
        "fts5",
        mail_shadow.under(KillSwitch.FTS5).ids(query),
        "tantivy",
        mail_shadow.under(KillSwitch.TANTIVY).ids(query),
    )
    assert told == by_hand


def test_a_later_page_is_not_held_against_a_first(mail_shadow: Whole) -> None:
    """A cursor is one engine's, so only first pages can be compared."""
    shadowed = mail_shadow.under(KillSwitch.SHADOW)
    query = SearchQuery(TEXT, limit=7)
    first = shadowed.ask(query)
    mail_shadow.log.events.clear()
    second = shadowed.ask(replace(query, cursor=first.next_cursor))
    assert {hit.message_id for hit in second.hits}.isdisjoint(h.message_id for h in first.hits)
    assert second.explain.shadow is None
    assert not second.explain.cursor_invalidated
    assert mail_shadow.log.events == []


def test_a_token_that_is_none_is_a_first_page_for_both(mail_shadow: Whole) -> None:
    shadowed, query = mail_shadow.under(KillSwitch.SHADOW), SearchQuery(TEXT, limit=7)
    mail_shadow.log.events.clear()
    told = shadowed.ask(replace(query, cursor="no token")).explain
    assert told.cursor_invalidated
    assert told.shadow == shadowed.ask(query).explain.shadow
    invalidated, *others = (event for event, _ in mail_shadow.log.events)
    assert invalidated is Event.CURSOR_INVALIDATED
    assert others == [Event.SHADOW_COMPARISON] * 2


MB = 1_000_000
WHOLE = {"record": "basic", "tokenizer": "raw"}
INDEX_WORDS = {"record": "position", "tokenizer": "am_normalize"}


@pytest.fixture(scope="module")
def mail_index(tmp_path_factory: pytest.TempPathFactory) -> Case:
    texts = {1: "see br-2tnl", 2: "br and 2tnl apart", 3: "Deployment of the index", 4: "deploy"}
    root = tmp_path_factory.mktemp("index") / "mail"
    return built(root, [one(at, subject) for at, subject in texts.items()])


def fields_index(mail: Case) -> dict[str, dict[str, Any]]:
    meta = json.loads((mail.engine.root / INDEX / "meta.json").read_text())
    return {field["name"]: field["options"] for field in meta["schema"]}


@pytest.mark.parametrize("name", ["message_id", "project_id", "created_ts", "ack_required"])
def test_numbers_are_indexed_stored_and_fast(mail_index: Case, name: str) -> None:
    options = fields_index(mail_index)[name]
    assert options["indexed"]
    assert options["stored"]
    assert options["fast"]


@pytest.mark.parametrize("name", ["subject", "body"])
def test_texts_have_positions_and_are_stored(mail_index: Case, name: str) -> None:
    options = fields_index(mail_index)[name]
    assert options["stored"]
    assert {**options["indexing"], **INDEX_WORDS} == options["indexing"]


@pytest.mark.parametrize("name", ["sender_name", "thread_id", "importance", "recipients"])
def test_names_are_whole_and_stored(mail_index: Case, name: str) -> None:
    options = fields_index(mail_index)[name]
    assert options["stored"]
    assert {**options["indexing"], **WHOLE} == options["indexing"]
    assert bool(options["fast"]) == (name == "thread_id")


def test_beginnings_are_indexed_plainly_and_not_stored(mail_index: Case) -> None:
    options = fields_index(mail_index)["subject_prefix"]
    assert not options["stored"]
    assert {**options["indexing"], **WHOLE} == options["indexing"]


def test_there_is_a_field_for_all_that_the_page_names_but_the_product(mail_index: Case) -> None:
    named = {
        "message_id", "project_id", "subject", "body", "subject_prefix", "sender_name",
        "thread_id", "importance", "created_ts", "ack_required",
    }  # fmt: skip
    assert set(fields_index(mail_index)) - named == {"recipients", "identifiers", "text"}
    assert named <= set(fields_index(mail_index))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Deploy FAILED, again!", ["deploy", "failed", "again"]),
        ("read_csv a.b/c", ["read", "csv", "a", "b", "c"]),
        ("x" * 256 + " kept " + "y" * 255, ["kept", "y" * 255]),
        ("ÄRGER Straße", ["ärger", "straße"]),
    ],
)
def test_am_normalize_splits_lower_cases_and_drops_what_is_endless(
    text: str, tokens: list[str]
) -> None:
    assert analyzer("none").analyze(text) == tokens


def test_the_tokens_of_the_index_are_those_of_am_normalize(mail_index: Case) -> None:
    index = tantivy.Index.open(str(mail_index.engine.root / INDEX))
    index.register_tokenizer("am_normalize", analyzer("none"))
    searcher = index.searcher()
    for word, count in {"deployment": 1, "Deployment": 0, "2tnl": 2, "br-2tnl": 0}.items():
        term = tantivy.Query.term_query(index.schema, "subject", word)
        assert len(searcher.search(term, 9).hits) == count


def test_a_hyphenated_token_is_found_whole(mail_index: Case) -> None:
    assert mail_index.ids("br-2tnl") == [1]
    assert set(mail_index.ids("br 2tnl")) == {1, 2}


def test_a_subject_is_found_while_it_is_typed(mail_index: Case) -> None:
    found = [c.message_id for c in mail_index.engine.typeahead("depl", NONE, 9)]
    assert sorted(found) == [3, 4]


def test_the_hash_of_the_schema_stands_beside_the_index(mail_index: Case) -> None:
    assert HASH == "schema_hash.json"
    assert json.loads((mail_index.engine.root / HASH).read_text()) == {
        "sha256": schema_hash(mail_index.engine.weights)
    }
    assert {HASH, INDEX} <= {path.name for path in mail_index.engine.root.iterdir()}


def size(path: Path, count: int, dimension: int) -> int:
    vectors = np.zeros((count, dimension), dtype=np.float16)
    amvi.write_amvi(path, "hash", np.arange(count, dtype=np.int64), vectors)
    return path.stat().st_size


def test_ten_thousand_messages_take_eight_megabytes_and_a_hundred_thousand_ten_times_that(
    tmp_path: Path,
) -> None:
    """Of a vector of 384 dimensions in half precision; the head and the padding are small."""
    dimension = HashEmbedder().dimension
    assert dimension == 384
    few, more = size(tmp_path / "a", 100, dimension), size(tmp_path / "b", 1_100, dimension)
    each = (more - few) / 1_000
    assert each == pytest.approx(2 * dimension + 12, abs=0.1)
    assert few - 100 * each < 128
    assert 7.5 * MB < 10_000 * each < 8.5 * MB
    assert 75 * MB < 100_000 * each < 80 * MB


def test_the_vector_of_a_message_is_read_from_the_file_when_it_is_needed(tmp_path: Path) -> None:
    size(tmp_path / "a", 100, 384)
    index = amvi.AmviIndex.open(tmp_path / "a", "hash", 384)
    assert isinstance(index.vectors, np.memmap)
    assert index.vectors.dtype == np.float16


def test_the_hash_embedder_needs_no_model_and_is_not_taken_for_one() -> None:
    embedder = HashEmbedder()
    assert embedder.embed(["deployment issues"]).shape == (1, 384)
    near, far = embedder.embed(["deployment issues", "rollout problems"])
    assert float(near @ far) == pytest.approx(0, abs=0.2), "it knows words, not meanings"
    assert not isinstance(embedder, OnnxEmbedder)
    assert embedder.identity == "fnv1a-64, 384 dimensions", "its index is signed as a hash"
