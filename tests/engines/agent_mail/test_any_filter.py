"""Filters in every engine against columns that know nothing of engines.

The suite asks the first cases of a seeded stream. ``MAIL_FILTER_CASES`` asks more of the same
stream (CONTRIBUTING.md).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from random import Random

import pytest

from engines.stacks.agent_mail.contract import CandidateList, Filters, RankingMode
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from engines.stacks.agent_mail.pipeline.retrievers import Semantic, TierQuery
from tests.engines.agent_mail import anything
from tests.engines.agent_mail.anything import Case, Columns
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import passes

pytestmark = pytest.mark.slow
CASES = int(os.environ.get("MAIL_FILTER_CASES", "1000"))
MAIL = anything.messages(seed=31, count=250)
COLUMNS = anything.columns(MAIL)
TEXTS = ("", "", *(anything.text(Random(at)) for at in range(40)))
ALL, NONE = 10_000, Filters()
Search = Callable[[str, Filters, RankingMode, int], CandidateList]


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("any")
    build(folder, MAIL)
    with whole(folder) as opened:
        yield opened


def cases() -> Iterator[Case]:
    return islice(anything.cases(seed=47, texts=TEXTS), CASES)


def mismatches(search: Search, columns: Columns) -> list[Case]:
    """Find cases in which a filter does anything but choose from the unfiltered answer."""

    @cache
    def unfiltered(text: str, ranking: RankingMode) -> CandidateList:
        return search(text, NONE, ranking, ALL)

    def differs(case: Case) -> bool:
        passing = columns.passing(case.filters)
        base = unfiltered(case.text, case.ranking).candidates
        expected = tuple(c for c in base if c.message_id in passing)
        found = search(*case)
        ends = found.exhausted == (len(expected) <= case.depth)
        return found.candidates != expected[: case.depth] or not ends

    return [case for case in cases() if differs(case)]


@pytest.mark.parametrize("tier", [FallbackTier.FTS5, FallbackTier.TANTIVY, FallbackTier.LIKE])
def test_a_filter_chooses_from_what_words_find(mail: Whole, tier: FallbackTier) -> None:
    search = mail.service.tiers.lexical[tier].search
    everything = search("", NONE, RankingMode.RELEVANCE, ALL).candidates
    assert [c.message_id for c in everything] == [m.message_id for m in MAIL]
    assert mismatches(search, COLUMNS) == []


def test_a_filter_chooses_from_what_is_near(mail: Whole) -> None:
    semantic = mail.service.tiers.semantic
    assert isinstance(semantic, Semantic)

    @cache
    def unfiltered(text: str) -> Mapping[int, float]:
        found = semantic.search(text, NONE, ALL).candidates
        return {c.message_id: c.raw_score for c in found}

    wrong = []
    for text, filters, _, some in cases():
        depth = max(some, 1)
        passing = COLUMNS.passing(filters)
        expected = {at: cosine for at, cosine in unfiltered(text).items() if at in passing}
        found = semantic.search(text, filters, depth).candidates
        if {c.message_id: c.raw_score for c in found} != dict([*expected.items()][:depth]):
            wrong.append((text, filters, depth))
    assert wrong == []


def test_a_filter_chooses_from_either_leg_of_hybrid(mail: Whole) -> None:
    def ids(tier: FallbackTier, text: str, filters: Filters) -> frozenset[int]:
        asked = TierQuery(text, filters, RankingMode.RELEVANCE, rrf_k=60, rerank_top_k=10)
        return frozenset(h.message_id for h in mail.service.tiers.rank(tier, asked, ALL).hits)

    @cache
    def either(text: str) -> frozenset[int]:
        return ids(FallbackTier.TANTIVY, text, NONE) | ids(FallbackTier.SEMANTIC, text, NONE)

    asked = [case for case in cases() if case.text.strip("\0 \t\n")]
    wrong = [
        case
        for case in asked
        if ids(FallbackTier.HYBRID, case.text, case.filters)
        != either(case.text) & COLUMNS.passing(case.filters)
    ]
    assert wrong == []


def test_the_columns_say_what_the_rule_by_hand_says_and_the_cases_are_worth_asking() -> None:
    some = 0
    for case in islice(cases(), 500):
        passing = COLUMNS.passing(case.filters)
        assert passing == {m.message_id for m in MAIL if passes(m, case.filters)}
        some += 0 < len(passing) < len(MAIL)
    assert some > 200
