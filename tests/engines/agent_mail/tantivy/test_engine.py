"""Search over messages by Tantivy: what is found, in which order, and whether there is more."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.stacks.agent_mail.contract import Filters, RankingMode
from engines.stacks.agent_mail.tantivy.engine import LISTING, NAME, NO_WORD
from tests.make.mail.messages import NOON, PHRASES, one, some_filters, some_mail, some_text
from tests.make.mail.tantivy import ALL, NONE, Case, built, upsert

pytestmark = pytest.mark.slow
MAIL = some_mail(5, 500)


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return built(tmp_path_factory.mktemp("engine") / "mail", MAIL.messages)


def test_a_joined_token_whole_comes_before_its_parts(tmp_path: Path) -> None:
    mail = built(
        tmp_path / "mail",
        [
            one(1, body="br 2tnl and nothing more"),
            one(2, body="2tnl"),
            one(3, body="a long text in which br-2tnl is only mentioned, once, near the end of it"),
            one(4, body="br and then 2tnl"),
            one(5, body="br-2tnl.1 is another"),
            one(6, body="BR-2TNL in capitals, in a text of about the same length as the third has"),
        ],
    )
    found = mail.ids("br-2tnl")
    assert set(found[:2]) == {3, 6}
    assert set(found) == {1, 3, 5, 6}
    assert mail.ids("see (br-2tnl), please")[:2] == found[:2]
    assert set(mail.ids('"br-2tnl"')) == {1, 3, 5, 6}
    assert mail.ids('"br-2tnl"')[0] == 1, "in quotation marks it is a phrase and no more"


def test_the_subject_counts_more_than_the_body(tmp_path: Path) -> None:
    mail = built(tmp_path / "mail", [one(1, "moss", "stone"), one(2, "stone", "moss")])
    assert mail.ids("stone") == [2, 1]
    assert mail.ids("moss") == [1, 2]


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("moss stone", {1, 2, 3}),
        ("+moss stone", {1, 3}),
        ("moss -stone", {1}),
        ("moss AND stone", {3}),
        ('"moss stone"', {3}),
        ('"stone moss"', set()),
        ("moss NOT stone", {1}),
        ("MOSS", {1, 3}),
        ("moss*", {1, 3}),
        ("mos*", {1, 3}),
        ("MOS*", {1, 3}),
        ("+mos* -st*", {1}),
        ('"mos*"', set()),
        ("mos**", set()),
        ("*oss", set()),
        ("*", set()),
        ("- moss -", {1, 3}),
        ("moss --", {1, 3}),
        ("-", set()),
        ("-moss", {2}),
        ("-moss -stone", set()),
        ("(moss", {1, 3}),
        ('moss "', {1, 3}),
        ("subject:moss", set()),
        ("moss~2", set()),
        ("moss^3", set()),
        ("[moss TO stone]", {1, 2, 3}),
        ("NEAR (moss stone)", {1, 2, 3}),
        ("IN [moss]", {1, 3}),
    ],
)
def test_what_is_typed_is_words(tmp_path: Path, typed: str, wanted: set[int]) -> None:
    texts = {1: "moss", 2: "stone", 3: "moss stone"}
    mail = built(tmp_path / "mail", [one(at, body=text) for at, text in texts.items()])
    assert set(mail.ids(typed)) == wanted


@pytest.mark.parametrize(
    "text", ["東京", "развёртывания", "हिन्दी", "ไทย", "שָׁלוֹם", "فَشِلَ", "é", "x", "Straße", "ﬁne"]
)
def test_a_word_of_any_script_finds_its_message(tmp_path: Path, text: str) -> None:
    mail = built(tmp_path / "mail", [one(1, body="other words"), one(2, body=f"a {text} here")])
    assert mail.ids(text) == [2]


@pytest.mark.parametrize("text", ["!!!", "§", "-", "x" * 300, '"" ++'])
def test_no_word_is_said_to_be_none(mail: Case, text: str) -> None:
    found = mail.engine.search(text, NONE, RankingMode.RELEVANCE, 10)
    assert (found.candidates, found.exhausted, found.note) == ((), True, NO_WORD)


@given(text=st.text(), ranking=st.sampled_from(RankingMode), depth=st.integers(-1, 20))
def test_any_text_is_a_question(mail: Case, text: str, ranking: RankingMode, depth: int) -> None:
    found = mail.engine.search(text, NONE, ranking, depth)
    assert len(found.candidates) <= max(depth, 0)


@given(
    st.lists(
        st.sampled_from(["AND", "OR", "NOT", "+", "-", '"', "(", ")", "*", "br-2tnl", "done", "~"])
    )
)
def test_any_signs_are_a_question(mail: Case, pieces: list[str]) -> None:
    for between in ("", " "):
        assert mail.ids(between.join(pieces), depth=3) is not None


def test_a_shorter_answer_begins_a_longer_one(mail: Case) -> None:
    rng = Random(8)
    for _ in range(60):
        text, filters = some_text(rng), some_filters(rng) if rng.random() < 0.3 else NONE
        for ranking in RankingMode:
            whole = mail.candidates(text, filters, ranking)
            for depth in (-1, 0, 1, 2, 9, len(whole) - 1, len(whole), len(whole) + 1):
                found = mail.engine.search(text, filters, ranking, depth)
                assert found.candidates == whole[: max(depth, 0)]
                assert found.exhausted == (len(whole) <= max(depth, 0))


def test_the_orders_are_those_of_the_contract(mail: Case) -> None:
    sent = {m.message_id: m.created_ts for m in MAIL.messages}
    for text in ("review", "br-2tnl done", *PHRASES):
        best = mail.candidates(text)
        assert list(best) == sorted(best, key=lambda c: (-c.raw_score, c.message_id))
        recent = mail.candidates(text, ranking=RankingMode.RECENCY)
        assert list(recent) == sorted(best, key=lambda c: (-sent[c.message_id], c.message_id))


def test_no_text_lists_with_score_zero(mail: Case) -> None:
    ids = [m.message_id for m in MAIL.messages]
    newest = sorted(ids, key=lambda at: (-MAIL.by_id[at].created_ts, at))
    for ranking, order in ((RankingMode.RELEVANCE, ids), (RankingMode.RECENCY, newest)):
        found = mail.engine.search("  ", NONE, ranking, ALL)
        assert [c.message_id for c in found.candidates] == order
        assert {c.raw_score for c in found.candidates} == {0.0}
        assert (found.method, found.normalized_query) == (LISTING, None)
    found = mail.engine.search(" a \t b\n", NONE, RankingMode.RELEVANCE, 1)
    assert (found.method, found.normalized_query) == (NAME, "a b")


def test_where_all_messages_tie_the_first_ids_are_shown(tmp_path: Path) -> None:
    ids = Random(2).sample(range(-300, 300), 600)
    mail = built(tmp_path / "mail", [], threads=2)
    mail.engine.update_incremental([upsert(one(at, "moss", "stone")) for at in ids])
    for depth, ranking in itertools.product((1, 3, 599, 600, 601), RankingMode):
        assert mail.ids("moss stone", depth=depth, ranking=ranking) == sorted(ids)[:depth]
    assert mail.ids("", Filters(thread_id=""), depth=3) == sorted(ids)[:3]


def test_how_it_was_written_changes_no_answer(tmp_path: Path) -> None:
    some = some_mail(6, 900).messages
    at_once = built(tmp_path / "at_once", some)
    in_threads = built(tmp_path / "in_threads", some, threads=3)
    in_parts = built(tmp_path / "in_parts", some[:300])
    for start in range(300, 900, 120):
        in_parts.engine.update_incremental([upsert(m) for m in some[start : start + 120]])
    rng = Random(9)
    for _ in range(80):
        text, filters = some_text(rng), some_filters(rng) if rng.random() < 0.3 else NONE
        for ranking, depth in itertools.product(RankingMode, (1, 10, 100)):
            answers = {
                each.candidates(text, filters, ranking, depth)
                for each in (at_once, in_threads, in_parts)
            }
            assert len(answers) == 1


def test_equal_times_go_by_id(tmp_path: Path) -> None:
    mail = built(tmp_path / "mail", [one(at, "moss", created_ts=NOON + at % 2) for at in range(9)])
    assert mail.ids("moss", ranking=RankingMode.RECENCY) == [1, 3, 5, 7, 0, 2, 4, 6, 8]
    assert mail.ids("moss", ranking=RankingMode.RECENCY, depth=2) == [1, 3]
