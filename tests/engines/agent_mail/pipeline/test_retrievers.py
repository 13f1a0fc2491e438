"""The tiers of a chain: which parts they ask, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from engines.stacks.agent_mail.contract import SearchMode, SearchQuery
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import some_mail

pytestmark = pytest.mark.slow
TEXT = "deployment review"


@pytest.fixture
def mail(tmp_path: Path) -> Iterator[Whole]:
    build(tmp_path, some_mail(54, 60).messages)
    with whole(tmp_path) as made:
        yield made


@dataclass(frozen=True)
class Recorded:
    """A part that writes down when it is asked, and with what."""

    part: Any
    name: str
    calls: list[tuple[str, tuple[Any, ...]]]

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*given: Any) -> Any:  # noqa: ANN401  whatever the part takes and gives
            self.calls.append((self.name, given))
            return getattr(self.part, method)(*given)

        return call


def test_vectors_words_fusion_and_reranking_follow_each_other(mail: Whole) -> None:
    """What is reranked are the first of the fused list, in its order."""
    calls: list[tuple[str, tuple[Any, ...]]] = []
    tiers = mail.service.tiers
    recorded = replace(
        tiers,
        lexical={
            FallbackTier.TANTIVY: cast(
                "Any", Recorded(tiers.lexical[FallbackTier.TANTIVY], "words", calls)
            )
        },
        semantic=cast("Any", Recorded(tiers.semantic, "vectors", calls)),
        reranker=cast("Any", Recorded(tiers.reranker, "reranking", calls)),
    )
    service = replace(mail.service, tiers=recorded)
    query = SearchQuery(TEXT, mode=SearchMode.HYBRID_RERANK, rerank_top_k=10)
    assert service.search(query).served_by == FallbackTier.RERANK
    assert [name for name, _ in calls] == ["vectors", "words", "reranking"]
    _, ids, _ = calls[-1][1]
    assert [*ids] == mail.ids(SearchQuery(TEXT, mode=SearchMode.HYBRID, limit=10))
