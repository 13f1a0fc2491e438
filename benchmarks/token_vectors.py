"""Token vectors in fewer bits: what a reranker loses by each form, and how large it is.

    python3 run.py python benchmarks/token_vectors.py FOLDER [FOLDER ...] --out out/fusion

Each FOLDER is a collection in BEIR layout with a split test. The arm ``hybrid-rerank`` is indexed
once below the folder of ``--out``; its window is reranked with every form of the token vectors. The
axes of principal components come from the tokens of the documents themselves, so no judgement has
a part in them. The loss counts as none where the whole interval lies within 0.003 of 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.legs import Collection
from engines.lexical.typed import normalise
from engines.rerank.late_interaction import maxsim, spread
from engines.stacks.text.rerank import RerankSearcher
from harness import Inference, compare

MEASURE = "nDCG@10"
MARGIN = 0.003
SURE = Inference(confidence=0.95, resamples=10_000, seed=20261124)
SAMPLE = 100_000
"""Tokens that principal components are taken from."""
TINY = 1e-6
"""Limit of a component that is always 0."""
Floats = NDArray[np.float32]
Restored = Callable[[Floats], Floats]
"""Packs token vectors and unpacks them again."""


@dataclass(frozen=True, slots=True)
class Form:
    """A way to keep a token vector."""

    name: str
    bytes: float
    """Of a token, without what all tokens share."""
    restored: Callable[[Floats], Restored]
    """Learns from a sample of tokens."""


def components(dimension: int, bits: int) -> Callable[[Floats], Restored]:
    """Keep the first principal components, each in ``bits`` between limits that hold nearly all."""

    def learnt(sample: Floats) -> Restored:
        middle = sample.mean(axis=0)
        _, _, axes = np.linalg.svd(np.cov((sample - middle).T))
        axes = axes[:dimension].astype(np.float32)
        most = np.quantile(np.abs((sample - middle) @ axes.T), 0.999, axis=0) + TINY
        levels = (1 << (bits - 1)) - 0.5

        def restored(tokens: Floats) -> Floats:
            kept = np.clip((tokens - middle) @ axes.T / most, -1, 1)
            codes = np.round(kept * levels - 0.5) + 0.5
            found: Floats = (codes / levels * most) @ axes + middle
            return found

        return restored

    return learnt


def signs(sample: Floats) -> Restored:
    """Keep one bit a component."""
    scale = float(np.abs(sample).mean())
    return lambda tokens: np.where(tokens >= 0, scale, -scale).astype(np.float32)


def plain(bits: int) -> Callable[[Floats], Restored]:
    """Keep every component in ``bits``."""

    def learnt(sample: Floats) -> Restored:
        most = np.quantile(np.abs(sample), 0.999, axis=0) + TINY
        levels = (1 << (bits - 1)) - 0.5
        return lambda tokens: (
            (np.round(np.clip(tokens / most, -1, 1) * levels - 0.5) + 0.5) / levels * most
        ).astype(np.float32)

    return learnt


FORMS = (
    Form("384 components, 8 bits", 384, plain(8)),
    Form("384 components, 4 bits", 192, plain(4)),
    Form("384 components, signs", 48, signs),
    Form("128 principal, 8 bits", 128, components(128, 8)),
    Form("128 principal, 4 bits", 64, components(128, 4)),
    Form("96 principal, 4 bits", 48, components(96, 4)),
    Form("64 principal, 8 bits", 64, components(64, 8)),
    Form("64 principal, 4 bits", 32, components(64, 4)),
)
FULL = 768


def table(collection: Collection) -> Iterator[str]:
    """Yield a row for each form."""
    candidates = collection.arm("hybrid-rrf")
    with collection.opened("hybrid-rerank") as searcher:
        assert isinstance(searcher, RerankSearcher)  # noqa: S101  the arm's file says so
        reranker, rows, window = searcher.reranker, searcher.rows, searcher.window
        texts = collection.queries
        asked = {q: reranker.embedder.read([normalise(t)]).tokens[0] for q, t in texts.items()}
        top = {q: list(candidates[q].items())[:window] for q in texts}
        needed = {d for found in top.values() for d, _ in found}
        kept = {d: np.array(reranker.tokens.of(rows[d]), dtype=np.float32) for d in needed}
    everything = np.concatenate([kept[d] for d in sorted(kept)])
    sample = everything[:: max(1, len(everything) // SAMPLE)]

    def ranked(documents: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
        found = {}
        for q, hits in top.items():
            query = asked[q].astype(np.float16)
            similar = np.array([maxsim(query, documents[d].astype(np.float16)) for d, _ in hits])
            best = max((score for _, score in hits), default=1.0)
            blend = reranker.fused_weight * spread(np.array([s / best for _, s in hits]))
            blend = blend + (1 - reranker.fused_weight) * spread(similar)
            order = sorted(range(len(hits)), key=lambda at: (-round(blend[at], 5), hits[at][0]))
            found[q] = {hits[at][0]: -float(rank) for rank, at in enumerate(order)}
        return found

    full = ranked(kept)
    for form in FORMS:
        restored = form.restored(sample)
        found = compare(
            full,
            ranked({d: restored(t) for d, t in kept.items()}),
            collection.qrels,
            MEASURE,
            sure=SURE,
        )
        of = found.estimate
        within = "yes" if max(-of.low, of.high) < MARGIN else "open"
        within = "no" if of.high < -MARGIN else within
        mean = float(found.paired.candidate.mean())
        yield (
            f"| {collection.name} | {form.name} | 1/{FULL / form.bytes:.0f} | {mean:.4f} |"
            f" {of.value:+.4f} [{of.low:+.4f}, {of.high:+.4f}] | {within} |"
        )


def main() -> None:
    """Measure every folder and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    lines = [
        "| collection | form | size | nDCG@10 | less 16 bits | within 0.003 |",
        "|---|---|---|---|---|---|",
        *(line for one in args.folders for line in table(Collection(one, "test", args.out))),
    ]
    text = "\n".join([*lines, ""])
    (args.out / "token_vectors.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
