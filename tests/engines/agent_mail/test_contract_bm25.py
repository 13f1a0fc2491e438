"""The lexical scores are BM25, by the formulas of each engine's documentation, reckoned by hand.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; k1 is 1.2
and b is 0.75 in both engines. They differ in the weight of a rare word.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import pytest

from engines.stacks.agent_mail.contract import Filters, RankingMode
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import one

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
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
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
    mail: Whole, tier: FallbackTier, word: str
) -> None:
    engine = mail.service.tiers.lexical[tier]
    found = engine.search(word, Filters(), RankingMode.RELEVANCE, 10).candidates
    scores = {candidate.message_id: candidate.raw_score for candidate in found}
    assert scores == pytest.approx(by_hand(word, tier), rel=1e-5)
    assert scores


@pytest.mark.parametrize("tier", [FallbackTier.TANTIVY, FallbackTier.FTS5])
def test_several_words_score_the_sum(mail: Whole, tier: FallbackTier) -> None:
    engine = mail.service.tiers.lexical[tier]
    found = engine.search("moss stone", Filters(), RankingMode.RELEVANCE, 10).candidates
    moss, stone = by_hand("moss", tier), by_hand("stone", tier)
    both = {at: moss.get(at, 0.0) + stone.get(at, 0.0) for at in {*moss, *stone}}
    assert {c.message_id: c.raw_score for c in found} == pytest.approx(both, rel=1e-5)
