"""Candidates of a Tantivy query in the orders of section 3, one more than is shown."""

from __future__ import annotations

from collections.abc import Sequence

import tantivy

from engines.lexical.tantivy_hits import Columns, columns, first
from engines.stacks.agent_mail.contract.lifecycle import Candidate, CandidateList, Candidates
from engines.stacks.agent_mail.contract.query import RankingMode
from engines.stacks.agent_mail.tantivy.filters import among
from engines.stacks.agent_mail.tantivy.index import Opened

ID, SENT = "message_id", "created_ts"


def matching(now: Opened, query: tantivy.Query, ranking: RankingMode, depth: int) -> Candidates:
    """Give one more than ``depth`` of what ``query`` finds, where there are so many.

    By relevance: best first, equal scores by id. By recency: newest first, equal times by id,
    each with its score.
    """
    if ranking is RankingMode.RELEVANCE:
        return Candidates(*ranked(now, query, depth + 1))
    ids = ranked(now, query, depth + 1, by=SENT).documents
    these = tantivy.Query.const_score_query(among(now.folder.schema, ID, ids), 0.0)
    both = tantivy.Query.boolean_query([(tantivy.Occur.Must, part) for part in (query, these)])
    score = dict(zip(*ranked(now, both, len(ids)), strict=True))
    return Candidates(ids, [score[message_id] for message_id in ids])


def highest(now: Opened, query: tantivy.Query) -> float | None:
    """Give the best score of all that ``query`` finds; None where it finds nothing."""
    scores = ranked(now, query, 1).keys
    return scores[0] if scores else None


def listed(now: Opened, query: tantivy.Query, ranking: RankingMode, depth: int) -> Candidates:
    """Give one more than ``depth`` of what ``query`` finds, each with score 0, where so many are.

    By relevance they come by id, by recency newest first and equal times by id.
    """
    if ranking is RankingMode.RECENCY:
        ids = ranked(now, query, depth + 1, by=SENT).documents
    else:
        limit = min(depth + 1, max(1, now.searcher.num_docs))
        order = tantivy.Order.Asc
        hits = now.searcher.search(query, limit, count=False, order_by_field=ID, order=order).hits
        ids = [int(message_id) for message_id, _ in hits]
    return Candidates(ids, [0.0] * len(ids))


def ranked(now: Opened, query: tantivy.Query, k: int, by: str | None = None) -> Columns:
    """Give the ``k`` best messages by score, or by the field ``by``; equal ones by id."""
    if now.in_order:
        return first(now.searcher, query, k, ids=ID, by=by)
    return columns(now.searcher, query, k, schema=now.folder.schema, ids=ID, by=by)


def counted(searcher: tantivy.Searcher, query: tantivy.Query) -> int:
    """Count what ``query`` finds."""
    return int(searcher.search(query, 1).count)  # type: ignore[attr-defined]  # not in its stubs


def cut(
    candidates: Sequence[Candidate], depth: int, method: str, normalized_query: str | None
) -> CandidateList:
    """Show at most ``depth`` candidates, and say whether there were more."""
    shown = Candidates.of(candidates)[:depth]
    return CandidateList(shown, len(candidates) == len(shown), method, normalized_query)
