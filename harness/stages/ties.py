"""What the order of equal scores could have done to the means of an imported run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.core.files import write_json
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.measures.tie_sensitivity import Ties, count_ties, tie_sensitivity
from harness.stages.layout import Layout


def ties(layout: Layout, arms: Sequence[str], measures: Sequence[str], to: Path) -> dict[str, Ties]:
    """Write into ``to``, by arm, the share of tied hits and the least and largest of each mean.

    The mean that is reported lies between: equal scores stand in the order of trec_eval, the
    greater document id first. A measure without a kernel, or without a value, is left out.
    """
    data = Prepared.open(layout.data)
    asked = [query.query_id for query in data.queries()]
    qrels = data.qrels()
    counted: dict[str, Ties] = {}
    written: dict[str, object] = {}
    for arm in arms:
        run = read_run(layout.run(arm))
        counted[arm] = found = count_ties(run)
        spreads = tie_sensitivity(run, qrels, measures, asked)
        written[arm] = {
            "hits": found.hits,
            "tied": found.tied,
            "tied_in_float32_only": found.only_float64,
            "measures": {
                name: {
                    "least": spread.least.mean,
                    "expected": spread.expected.mean,
                    "most": spread.most.mean,
                }
                for name, spread in spreads.items()
                if spread.most.mean is not None
            },
        }
    write_json(to, written)
    return counted
