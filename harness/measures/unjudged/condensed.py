"""Condensed lists: rankings from which every unjudged document is taken out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.core.qrels import Qrels
from harness.core.run import Run


def condense(run: Run, qrels: Qrels) -> Run:
    """Take unjudged documents out of each ranking; the rest close up (Sakai 2007).

    Its score is the value of a measure without unjudged documents; compared with the plain value,
    it shows their weight. A grade below 0 is a judgement here, as it is for ``Judged``, though not
    for ``judged_only`` of trec_eval's code. Queries without any judgement keep their rankings: no
    measure of quality looks at them.
    """
    keep = np.ones(len(run.docs), dtype=bool)
    docs = run.docs.tolist()
    for row, query_id in enumerate(run.query_ids):
        judged = qrels.grades.get(query_id)
        if judged is None:
            continue
        low, high = int(run.offsets[row]), int(run.offsets[row + 1])
        keep[low:high] = [run.vocabulary[doc] in judged for doc in docs[low:high]]
    kept = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])
    return replace(
        run,
        offsets=kept[run.offsets].astype(np.int64),
        docs=run.docs[keep],
        score=run.score[keep],
        raw_score=run.raw_score[keep],
    )
