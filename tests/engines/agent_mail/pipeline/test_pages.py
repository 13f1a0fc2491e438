"""A query on its way: its words, its order and its pages."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness_engines.contract import EngineError
from harness_engines.lexical.grammar import exact_clauses as clauses
from harness_engines.stacks.agent_mail.contract import (
    Candidate,
    CandidateList,
    Event,
    ExplainTiming,
    Filters,
    MailEngine,
    RankingMode,
    SearchQuery,
)
from harness_engines.stacks.agent_mail.pipeline.plan import (
    MAX_WORDS,
    CursorEngine,
    KillSwitch,
    SearchCursor,
    bounded,
)
from harness_engines.stacks.agent_mail.pipeline.retrievers import Scored, in_order, of_lexical
from harness_engines.stacks.agent_mail.pipeline.scope import REDACTED, Scope, Visibility, viewer
from harness_engines.stacks.agent_mail.sqlite.search import Fts5Engine, Weights, matching_ids
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore
from tests.engines.agent_mail.fakes import Log, message, service
from tests.make.mail.messages import Mail, passes
from tests.make.mail.tantivy import built


@given(st.lists(st.sampled_from(["plan", '"a plan"', "+x", "-y", "br-2tnl", "(", "部署", "a*"])))
def test_what_people_type_is_left_alone(pieces: list[str]) -> None:
    text = " ".join(pieces[:50])
    assert bounded(text) == (text, "")


def test_one_word_many_times_is_one_word() -> None:
    assert bounded("deployment " * 700).text == "deployment"
    assert bounded('"Plan" plan +plan ' * 700).text == '"Plan"'


@given(
    st.lists(st.text(min_size=1, max_size=6), min_size=250, max_size=500),
    st.sampled_from([" ", "-", '" "', "*", "_"]),
)
def test_no_more_words_are_searched_for(words: list[str], between: str) -> None:
    text = between.join(words)
    found = bounded(text)
    assert sum(len(clause.words) for clause in clauses(found.text)) <= MAX_WORDS or not found.note


def test_a_phrase_that_is_too_long_is_cut_and_stays_a_phrase() -> None:
    (clause,) = clauses(bounded('"' + "a b " * 400 + '"').text)
    assert (clause.quoted, len(clause.words)) == (True, MAX_WORDS)


def test_a_caller_is_told() -> None:
    found = service([message(1, "plan")]).search(SearchQuery("plan " * 201))
    assert [hit.message_id for hit in found.hits] == [1]
    assert "201 words" in found.explain.note
    assert service([]).search(SearchQuery("plan " * 200)).explain.note == ""


def test_an_emoji_is_a_word_as_it_is_for_an_index() -> None:
    text = " ".join(f"a{chr(0x2600 + at)}" for at in range(150))
    found = bounded(text)
    assert found.note.startswith("300 words")
    assert sum(len(clause.words) for clause in clauses(found.text)) == MAX_WORDS


def found(*scores: float) -> CandidateList:
    candidates = tuple(Candidate(at, score) for at, score in enumerate(scores, start=1))
    return CandidateList(candidates, exhausted=True, method="m", normalized_query=None)


def test_a_score_is_a_share_of_the_best_and_a_single_hit_has_one() -> None:
    hits = of_lexical(found(4.0, 1.0), ExplainTiming()).hits
    assert [(hit.score, hit.raw_score) for hit in hits] == [(1.0, 4.0), (0.25, 1.0)]
    assert of_lexical(found(0.3), ExplainTiming()).hits[0].score == 1.0


def test_a_listing_without_scores_has_zeros_in_order_of_ids() -> None:
    hits = of_lexical(found(0.0, 0.0), ExplainTiming()).hits
    assert [(hit.message_id, hit.score) for hit in hits] == [(1, 0.0), (2, 0.0)]


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_an_error(score: float) -> None:
    with pytest.raises(EngineError, match="message 1"):
        of_lexical(found(score), ExplainTiming())


def test_order_is_by_key_and_then_by_id() -> None:
    hits = [Scored(3, 0.5, 1), Scored(1, 0.5, 1), Scored(2, 0.9, 1), Scored(9, 0.1, 1)]
    assert [hit.message_id for hit in in_order(hits)] == [2, 1, 3, 9]
    timed = [Scored(1, 0.9, 1, sent=5), Scored(2, 0.1, 1, sent=7)]
    assert [hit.message_id for hit in in_order(timed)] == [2, 1]
    late = [Scored(1, 0, 0, sent=2**53), Scored(2, 0, 0, sent=2**53 + 1)]
    assert [hit.message_id for hit in in_order(late)] == [2, 1], "no float holds both"


def test_matching_ids_are_those_that_pass_in_order(store: MessageStore, mail: Mail) -> None:
    for filters in (Filters(), Filters(project_id=2), Filters(ack_required=True)):
        wanted = sorted(m.message_id for m in mail.messages if passes(m, filters))
        assert matching_ids(store, filters).tolist() == wanted


@pytest.mark.parametrize("engine", ["fts5", "tantivy"])
def test_by_recency_a_score_depends_neither_on_page_nor_depth(
    store: MessageStore, mail: Mail, tmp_path: Path, engine: str
) -> None:
    asked: MailEngine = (
        Fts5Engine(store, Weights(2.0, 1.0, 4.0))
        if engine == "fts5"
        else built(tmp_path / "mail", mail.messages).engine
    )
    text = "deployment review br-2tnl failed"

    def scores(ranking: RankingMode, depth: int) -> dict[int, float]:
        hits = of_lexical(
            asked.search(text, Filters(project_id=2), ranking, depth), ExplainTiming()
        ).hits
        return {hit.message_id: hit.score for hit in hits}

    whole = scores(RankingMode.RELEVANCE, 1_000)
    assert scores(RankingMode.RECENCY, 1_000) == pytest.approx(whole, abs=1e-12)
    for depth in (1, 2, 3, 5, 8):
        few = scores(RankingMode.RECENCY, depth)
        assert few == pytest.approx({at: whole[at] for at in few}, abs=1e-12)
    assert max(scores(RankingMode.RECENCY, 1).values()) < 1.0


SUBJECTS = st.lists(st.sampled_from(["a", "a a", "a b", "b", "a a a"]), min_size=0, max_size=40)


@settings(deadline=None, max_examples=60)
@given(
    subjects=SUBJECTS,
    limit=st.integers(1, 7),
    denied=st.frozensets(st.integers(1, 40)),
    deleted=st.frozensets(st.integers(1, 40)),
    recent=st.booleans(),
)
def test_paging_to_the_end_visits_each_visible_message_exactly_once(
    subjects: list[str],
    limit: int,
    denied: frozenset[int],
    deleted: frozenset[int],
    recent: bool,  # noqa: FBT001  hypothesis passes by name
) -> None:
    messages = [message(at, subject) for at, subject in enumerate(subjects, start=1)]
    search = service(messages, deleted=deleted)
    scope = Scope("some", lambda m: Visibility.DENY if m.message_id in denied else Visibility.ALLOW)
    ranking = RankingMode.RECENCY if recent else RankingMode.RELEVANCE
    query = SearchQuery("a", limit=limit, ranking=ranking)
    seen: list[int] = []
    pages = 0
    while True:
        found = search.search(query, scope)
        seen += [hit.message_id for hit in found.hits]
        pages += 1
        if found.next_cursor is None:
            break
        assert len(found.hits) == limit
        query = replace(query, cursor=found.next_cursor)
    visible = {m.message_id for m in messages if "a" in m.subject.split()} - denied - deleted
    assert sorted(seen) == sorted(visible)
    assert pages <= len(visible) // limit + 1


@given(st.text(max_size=60))
def test_any_bytes_for_a_cursor_start_at_page_one(token: str) -> None:
    search = service([message(1, "a"), message(2, "a")])
    plain = search.search(SearchQuery("a"))
    found = search.search(SearchQuery("a", cursor=token))
    if found.explain.cursor_invalidated:
        assert found.hits == plain.hits


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**62), 2**62))
def test_a_cursor_reads_back_bit_for_bit(score: float, message_id: int) -> None:
    assert SearchCursor.decode(SearchCursor(score, message_id).encode()) is not None
    for engine, seen in product(CursorEngine, ((), (3,), (-(2**63), -1, 0, 7, 2**63 - 1))):
        query = "0123456789abcdef" if seen else ""
        cursor = SearchCursor(score, message_id, engine, query, frozenset(seen))
        assert SearchCursor.decode(cursor.encode()) == cursor


def test_the_wire_format_is_the_specifications() -> None:
    assert SearchCursor(0.5, 42).encode() == "s3fe0000000000000:i42"
    assert SearchCursor(0.5, 42, CursorEngine.TANTIVY).encode() == "s3fe0000000000000:i42:etantivy"
    for bad in (
        "s7ff0000000000000:i1",
        "s7ff8000000000000:i1",
        "s3fe:i1",
        "",
        "s3fe0000000000000:i1:elucene",
        "s3fe0000000000000:i1:elike:b1,2",
        "s3fe0000000000000:i1:elike:q0123456789abcdef",
        "s3fe0000000000000:i1:elike:q0123456789abcdef:x",
        "s3fe0000000000000:i1:elike:q0123456789abcdef:xAB",
        "s3fe0000000000000:i1:elike:q0123456789abcdef:x" + "_" * 40,
    ):
        assert SearchCursor.decode(bad) is None


def test_another_engines_cursor_restarts_and_says_so() -> None:
    log = Log()
    messages = [message(at, "a") for at in range(1, 6)]
    first = service(messages).search(SearchQuery("a", limit=2))
    moved = service(messages, switch=KillSwitch.FTS5, log=log)
    found = moved.search(SearchQuery("a", limit=2, cursor=first.next_cursor))
    assert [hit.message_id for hit in found.hits] == [1, 2]
    assert found.explain.cursor_invalidated
    assert log.events[-1][0] is Event.CURSOR_INVALIDATED


def test_a_v2_cursor_goes_on_in_any_engine() -> None:
    messages = [message(at, "a") for at in range(1, 6)]
    found = service(messages).search(
        SearchQuery("a", limit=2, cursor=SearchCursor(1.0, 2).encode())
    )
    assert [hit.message_id for hit in found.hits] == [3, 4]
    assert not found.explain.cursor_invalidated


def test_redaction_hides_subject_and_body_and_is_counted() -> None:
    messages = [
        message(1, "a secret", project=9, sender="Eve"),
        message(2, "a", project=9, sender="Mal"),
    ]
    seen = viewer("Zoe", frozenset({1}), frozenset({"Eve"}))
    found = service(messages).search(SearchQuery("", project_id=9), seen)
    assert [(hit.subject, hit.body, hit.redacted) for hit in found.hits] == [
        (REDACTED, REDACTED, True)
    ]
    assert (found.explain.denied_count, found.explain.redacted_count) == (0, 1)
    assert found.explain.scope_policy == "viewer:Zoe"
    audited = service(messages).search(SearchQuery("a"), replace(seen, audited=True))
    assert (audited.explain.denied_count, audited.explain.redacted_count) == (1, 1)


def test_a_redacted_text_cannot_be_searched() -> None:
    messages = [message(1, "a secret", project=9, sender="Eve")]
    seen = viewer("Zoe", frozenset({1}), frozenset({"Eve"}))
    assert service(messages).search(SearchQuery("secret"), seen).hits == ()


def test_a_viewer_sees_own_mail_and_its_projects() -> None:
    messages = [message(1, "a", project=9), message(2, "a", project=1, sender="Mal")]
    assert (
        len(
            service(messages).search(SearchQuery("a"), viewer("Bob", frozenset(), frozenset())).hits
        )
        == 2
    )
    assert [
        h.message_id
        for h in service(messages)
        .search(SearchQuery("a"), viewer("Zoe", frozenset({1}), frozenset()))
        .hits
    ] == [2]


FIVE = ["a a a a", "a a", "a a", "a", "a"]


def second_page(before: list[str], after: dict[int, str], *, limit: int) -> list[int]:
    """Make the first page of ``before``, and the second when there are ``after`` instead."""
    made = [message(at, subject) for at, subject in enumerate(before, start=1)]
    token = service(made).search(SearchQuery("a", limit=limit)).next_cursor
    now = [message(at, subject) for at, subject in after.items()]
    found = service(now).search(SearchQuery("a", limit=limit, cursor=token))
    assert not found.explain.cursor_invalidated
    return [hit.message_id for hit in found.hits]


def test_after_the_best_is_deleted_a_page_goes_on_where_the_last_one_ended() -> None:
    left = {2: "a a", 3: "a a", 4: "a", 5: "a"}
    assert second_page(FIVE, left, limit=2) == [3, 4]


def test_after_better_ones_are_written_a_page_goes_on_where_the_last_one_ended() -> None:
    better = dict.fromkeys(range(11, 31), "a a a") | {10: " a" * 100}
    now = dict(enumerate(FIVE, start=1)) | better
    assert second_page(FIVE, now, limit=2) == [3, 4]


def test_after_its_message_is_deleted_a_page_goes_on_below_its_score() -> None:
    left = {1: "a a a a", 3: "a a", 4: "a", 5: "a"}
    assert second_page(FIVE, left, limit=2) == [3, 4]
