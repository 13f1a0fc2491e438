"""One contestant of ``benchmarks/measures.py``: times itself, a round for each line it is sent.

Values of nDCG@10, RR@10, P@10, R@100 and AP@100 for every query, and the five means. ``native`` is
what each library works on: dictionaries, its own objects, or coded columns; it is made before the
clock starts.
A peer that has no RR@10 computes RR. Imports of others' libraries stand inside the functions:
each contestant runs in an environment that has its own.
"""

# ruff: noqa: T201  a contestant imports its own library alone, and talks over a pipe
import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Round = Callable[[], list[float]]
TREC = {"ndcg_cut.10", "recip_rank", "P.10", "recall.100", "map_cut.100"}
TREC_KEYS = ("ndcg_cut_10", "recip_rank", "P_10", "recall_100", "map_cut_100")
RANX = ["ndcg@10", "mrr@10", "precision@10", "recall@100", "map@100"]
OURS = (("nDCG", 10), ("RR", 10), ("P", 10), ("R", 100), ("AP", 100))
NAMES = tuple(f"{name}@{cutoff}" for name, cutoff in OURS)


def dictionaries(table: pa.Table, value: str) -> dict[str, dict[str, Any]]:
    """Rows by query and document; the rows of a query lie together."""
    queries, docs = table.column("query_id").to_pylist(), table.column("doc_id").to_pylist()
    values = table.column(value).to_pylist()
    starts = [0, *(at for at in range(1, len(queries)) if queries[at] != queries[at - 1])]
    ends = [*starts[1:], len(queries)]
    return {
        queries[low]: dict(zip(docs[low:high], values[low:high], strict=True))
        for low, high in zip(starts, ends, strict=True)
    }


def pytrec(run: dict[str, dict[str, float]], qrels: dict[str, dict[str, int]]) -> list[float]:
    """Values and means by pytrec_eval."""
    import pytrec_eval

    found = pytrec_eval.RelevanceEvaluator(qrels, TREC).evaluate(run)
    return [sum(row[key] for row in found.values()) / len(found) for key in TREC_KEYS]


def ranx_means(qrels: Any, run: Any) -> list[float]:  # noqa: ANN401  of a library we do not have
    """Values and means by ranx."""
    import ranx

    found = ranx.evaluate(qrels, run, RANX, return_mean=False)
    return [float(found[name].mean()) for name in RANX]


def library(run: dict[str, dict[str, float]], qrels: dict[str, dict[str, int]]) -> list[float]:
    """Values and means by ir-measures."""
    import ir_measures

    measures = [ir_measures.parse_measure(name) for name in NAMES]
    found: dict[Any, list[float]] = {measure: [] for measure in measures}
    for metric in ir_measures.iter_calc(measures, qrels, run):
        found[metric.measure].append(metric.value)
    return [sum(values) / len(values) for values in found.values()]


def ours(graded: Any) -> list[float]:  # noqa: ANN401  a Graded, imported where it is made
    """Values and means by our kernels."""
    from harness.measures import kernels
    from harness.measures.kernels import MeasureSpec

    return [float(kernels.evaluate(graded, MeasureSpec(*asked)).mean()) for asked in OURS]


def contestant(name: str, run: pa.Table, qrels: pa.Table) -> Round:
    """Prepare a contestant; what it returns is what is timed."""
    who, start = name.split("-")
    if who == "ours":
        return _ours(start, run, qrels)
    if who == "ranx":
        import ranx

        objects = ranx.Qrels(dictionaries(qrels, "grade")), ranx.Run(dictionaries(run, "score"))
        return lambda: ranx_means(*objects)
    compute = pytrec if who == "pytrec" else library
    made = dictionaries(run, "score"), dictionaries(qrels, "grade")
    return lambda: compute(*made)


def _ours(start: str, run: pa.Table, qrels: pa.Table) -> Round:
    from harness.core.records import Qrels
    from harness.core.run import Run, Status
    from harness.measures.columns import EncodedQrels
    from harness.measures.kernels import Graded
    from harness.measures.quality import score

    coded = EncodedQrels.of(Qrels(dictionaries(qrels, "grade")))
    docs = run.column("doc_id").combine_chunks().dictionary_encode()
    vocabulary = sorted(docs.dictionary.to_pylist())
    place = {doc_id: at for at, doc_id in enumerate(vocabulary)}
    ours_of = np.array([place[doc_id] for doc_id in docs.dictionary.to_pylist()], dtype=np.int32)
    codes = ours_of[docs.indices.to_numpy()]
    queries = run.column("query_id").combine_chunks().dictionary_encode()
    starts = np.flatnonzero(np.diff(queries.indices.to_numpy(), prepend=-1))
    offsets = np.append(starts, len(codes)).astype(np.int64)
    ids = tuple(queries.dictionary.to_pylist())
    if start == "coded":
        rows = np.array([coded.position[query_id] for query_id in ids], dtype=np.int64)
        same = coded.translation(vocabulary)[codes]
        coded.lookup  # noqa: B018  coded once, before the clock starts
        return lambda: ours(Graded.of_rows(coded, rows, offsets, same))
    scores = run.column("score").to_numpy()
    nothing = ("",) * len(ids)
    zeros = np.zeros(len(ids), dtype=np.int32)
    whole = Run(
        "x", ids, tuple(vocabulary), offsets, codes, scores, scores,
        np.full(len(ids), Status.ANSWERED, dtype=np.uint8), nothing, nothing, zeros,
    )  # fmt: skip
    if start == "run":
        return lambda: ours(Graded.of(whole, coded))
    judged = Qrels(dictionaries(qrels, "grade"))
    return lambda: [found.mean or 0.0 for found in score(whole, judged, NAMES, ids).values()]


def peak_bytes(*, reset: bool) -> int:
    """Largest resident memory since the last reset (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main() -> None:
    """Run a round for each line of the input, and write its seconds, means and memory.

    A round is computed twice and the second time counts: the caches of the processor then hold what
    is this contestant's own, not what the one before left there.
    """
    name, folder = sys.argv[1], Path(sys.argv[2])
    run, qrels = (pq.read_table(folder / f"{what}.parquet") for what in ("run", "qrels"))
    compute = contestant(name, run, qrels)
    gc.collect()
    before = peak_bytes(reset=True)
    compute()
    extra = peak_bytes(reset=False) - before
    print("ready", flush=True)
    for _ in sys.stdin:
        compute()
        gc.collect()
        start, busy = perf_counter(), process_time()
        means = compute()
        seconds, cpu = perf_counter() - start, process_time() - busy
        row = {"seconds": seconds, "cpu": cpu, "means": means, "extra": extra}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
