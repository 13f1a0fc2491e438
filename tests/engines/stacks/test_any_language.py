"""In any language FTS5 and Tantivy find the same documents for the same words."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.records import Document
from tests.engines.stacks.test_same_meaning import JOINED, Opened, engines
from tests.thinned import examples

WORDS = (
    *("naïve", "cafe", "Café", "Straße", "ﬁne", "smørrebrød", "łódź", "co\xadoperate", "x²"),
    *("елка", "ЁЛКА", "σοφός", "ΣΟΦΟΣ", "हिन्दी", "हिन्दू", "שלום", "שָׁלוֹם", "سلام", "سَلَام"),
    *("東京大学", "大学", "京都", "ｶﾞｲﾄﾞ", "ガイド", "猫", "แมวน้ำ", "น้ำ", "한국어", "한국"),
    *("👍", "👍🏽", "👩\u200d💻", "2020年", "read_csv", "\uff41\uff42\uff43", "abc", "३०", "30"),
)


def some(seed: int) -> list[str]:
    dice = random.Random(seed)
    return [dice.choice(WORDS) for _ in range(dice.randrange(1, 6))]


DOCUMENTS = tuple(
    Document(f"d{seed:03}", some(-seed)[0], " ".join(some(seed))) for seed in range(1, 150)
)


@pytest.fixture(scope="module", params=JOINED)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    with ExitStack() as stack:
        searchers = {}
        for name, engine in engines(request.param).items():
            folder = tmp_path_factory.mktemp("index")
            engine.build(DOCUMENTS, folder)
            searchers[name] = stack.enter_context(engine.open(folder))
        yield Opened(request.param, searchers)


def found(opened: Opened, text: str) -> frozenset[str]:
    """Ask every engine, and see that all find the same."""
    matched = opened.matched(text)
    assert len(set(matched.values())) == 1, matched
    return matched["fts5"]


piece = st.builds(
    lambda sign, word, quoted: sign + (f'"{word}"' if quoted else word),
    st.sampled_from(["", "", "", "+", "-"]),
    st.sampled_from(WORDS) | st.text("".join(WORDS), min_size=1, max_size=6),
    st.booleans(),
)


@settings(max_examples=examples(500), deadline=None)
@given(text=st.lists(piece, min_size=1, max_size=4).map(" ".join))
def test_every_engine_finds_the_same(opened: Opened, text: str) -> None:
    by_form = {found(opened, unicodedata.normalize(kind, text)) for kind in ("NFC", "NFD")}
    assert len(by_form) == 1


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("cafe", "CAFÉ"),
        ("strasse", "Straße"),
        ("fine", "ﬁne"),
        ("cooperate", "co\xadoperate"),
        ("\uff21\uff22\uff23", "abc"),
        ("ёлка", "Елка"),
        ("σοφος", "ΣΟΦΌΣ"),
        ("שלום", "שָׁלוֹם"),
        ("سلام", "سَلَام"),
        ("ガイド", "ｶﾞｲﾄﾞ"),
        ("👍", "👍🏿"),
    ],
)
def test_what_looks_alike_is_found_alike(opened: Opened, text: str, same: str) -> None:
    assert found(opened, text)
    assert found(opened, text) == found(opened, same)


def has(text: str) -> frozenset[str]:
    return frozenset(d.doc_id for d in DOCUMENTS if text in f"{d.title} {d.text}")


@pytest.mark.parametrize("text", ["東京", "大学", "น้ำ", "한국"])
def test_a_part_of_a_run_without_spaces_is_found(opened: Opened, text: str) -> None:
    assert found(opened, f"+{text}") == has(text) != frozenset()


def test_a_run_is_refused_as_a_whole(opened: Opened) -> None:
    every = frozenset(d.doc_id for d in DOCUMENTS)
    assert found(opened, "-東京大学") == every - has("東京大学")
    assert has("大学") - has("東京大学") <= found(opened, "-東京大学")


def test_words_that_differ_in_a_vowel_sign_are_not_the_same(opened: Opened) -> None:
    assert found(opened, "हिन्दी") == has("हिन्दी")
    assert found(opened, "हिन्दू") == has("हिन्दू")
