"""A query encoder without layers: the mean of one vector a token, fitted to what a model gives.

    python3 run.py python benchmarks/token_means.py FOLDER [FOLDER ...] --fit MAIL CHAT --out DIR

Texts of MAIL and CHAT, which no FOLDER has any of, are read by the model and kept below ``--out``.
Each token begins with the model's vector of itself, weighted by how rare it is, and is moved by
ridge regression to where the mean over a text comes near the model's vector of the text. How much a
frequent token counts, and the penalty, are chosen by texts that were held out, without judgements.
Then queries of each FOLDER, by this encoder, are compared with those by the model; documents are
the model's on both sides. The gate is that of decision 152.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from tokenizers import Tokenizer

from benchmarks.choices import Choice, row, table
from benchmarks.choices_more import TWO, added, collections_of, judged, queried, vectors
from benchmarks.legs import Collection, Leg
from engines.vector.embedder import unit
from engines.vector.models import MINILM
from engines.vector.onnx import OnnxEmbedder
from harness.corpus.beir import Beir

COUNTS = 9_000, 6_000
"""Texts of MAIL and of CHAT."""
FEWEST, MOST, LONGEST, SENTENCES = 3, 24, 200, 6
"""Words of a text, its characters, and how many are taken of a message."""
SEED, TOKENS, BATCH, HELD_OUT = 20261124, 64, 16, 0.1
RARE = 1e-4, 1e-3, 1e-2, 1.0
"""A token of this share of all counts half of a rare one."""
PENALTIES = 0.003, 0.03, 0.3
STEPS = 40
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class TokenMeans:
    """Text to the mean of its tokens' vectors, of length 1."""

    tokenizer: Tokenizer
    of: Floats
    """Shape (tokens, dimension)."""

    def embed(self, texts: Sequence[str]) -> Floats:
        return unit(np.asarray(shares(self.tokenizer, texts) @ self.of, dtype=np.float32))


def sentences(folder: Path) -> Iterator[str]:
    """Yield subjects and first sentences of messages, what is quoted left out."""
    for one in Beir(folder, "dev").documents():
        if one.title:
            yield re.sub(r"^(\[[^]]*\]|R-beta:|Re:|RE:|\s)+", "", one.title)
        own = "\n".join(line for line in one.text.split("\n") if not line.startswith(">"))
        for said in re.split(r"(?<=[.?!])\s+|\n\s*\n", own)[:SENTENCES]:
            yield " ".join(said.split())


def drawn(folders: Sequence[Path]) -> list[str]:
    """Draw short texts of each folder."""
    random = np.random.default_rng(SEED)
    texts: list[str] = []
    for folder, count in zip(folders, COUNTS, strict=True):
        short = sorted({
            said
            for said in sentences(folder)
            if FEWEST <= len(said.split()) <= MOST and len(said) < LONGEST
        })
        texts += [short[at] for at in random.permutation(len(short))[:count]]
    return [texts[at] for at in random.permutation(len(texts))]


def read(model: OnnxEmbedder, texts: Sequence[str]) -> Floats:
    """Embed texts, those of a length together."""
    found = np.zeros((len(texts), model.dimension), dtype=np.float32)
    order = np.argsort([len(text) for text in texts], kind="stable")
    for at in range(0, len(order), BATCH):
        rows = order[at : at + BATCH]
        found[rows] = model.embed([texts[one] for one in rows])
    return found


def singles(model: OnnxEmbedder) -> Floats:
    """Give the model's vector of every token by itself."""
    count = model.tokenizer.get_vocab_size()
    frame = [model.tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]")]
    found = []
    for low in range(0, count, 128):
        tokens = np.arange(low, min(count, low + 128))
        ids = np.stack([np.full(len(tokens), frame[0]), tokens, np.full(len(tokens), frame[1])], 1)
        mask = np.ones_like(ids)
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        found.append(unit(model.session.run(None, feed)[0].mean(axis=1)))
    return np.concatenate(found)


def shares(tokenizer: Tokenizer, texts: Sequence[str]) -> sparse.csr_matrix:
    """Give each token's share of each text; shape (texts, tokens)."""
    ids = [one.ids for one in tokenizer.encode_batch(list(texts))]
    rows = np.repeat(np.arange(len(ids)), [len(one) for one in ids])
    values = np.concatenate([np.full(len(one), 1 / len(one)) for one in ids])
    shape = len(ids), tokenizer.get_vocab_size()
    return sparse.csr_matrix((values, (rows, np.concatenate(ids))), shape, dtype=np.float32)


def fitted(of: sparse.csr_matrix, wanted: Floats, start: Floats, penalty: float) -> Floats:
    """Move ``start`` so that ``of @ start`` is near ``wanted`` (ridge, by conjugate gradients)."""
    left = np.asarray(of.T @ (wanted - of @ start))
    moved, step = np.zeros_like(start), left.copy()
    size = (left * left).sum(axis=0)
    for _ in range(STEPS):
        ahead = of.T @ (of @ step) + penalty * step
        by = size / np.maximum((step * ahead).sum(axis=0), 1e-20)
        moved += by * step
        left -= by * ahead
        before, size = size, (left * left).sum(axis=0)
        step = left + size / np.maximum(before, 1e-20) * step
    return start + moved


def cosine(of: sparse.csr_matrix, wanted: Floats, tokens: Floats) -> float:
    """Give the mean cosine of texts with what is wanted."""
    found = unit(np.asarray(of @ tokens, dtype=np.float32))
    return float((found * wanted).sum(axis=1).mean())


def made(fit: Sequence[Path], out: Path) -> TokenMeans:
    """Fit one vector a token, and say how near they come on texts that were held out."""
    model = OnnxEmbedder.load(MINILM, TOKENS)
    kept = out / "token_means.npz"
    if not kept.is_file():
        texts = drawn(fit)
        np.savez(kept, texts=texts, whole=read(model, texts), alone=singles(model))
    with np.load(kept) as file:
        texts, whole, alone = file["texts"].tolist(), file["whole"], file["alone"]
    of, cut = shares(model.tokenizer, texts), int(len(texts) * HELD_OUT)
    held, others = (of[:cut], whole[:cut]), (of[cut:], whole[cut:])
    share = np.asarray(others[0].sum(axis=0)).ravel() / others[0].shape[0]
    starts = {rare: alone * (rare / (rare + share))[:, None].astype(np.float32) for rare in RARE}
    for rare, start in starts.items():
        sys.stdout.write(f"not fitted, {rare:g}: cosine {cosine(*held, start):.4f}\n")
    start = max(starts.values(), key=partial(cosine, *held))
    mean = others[0] @ start
    start *= float((mean * others[1]).sum() / (mean * mean).sum())
    ways = {penalty: fitted(*others, start, penalty) for penalty in PENALTIES}
    for penalty, tokens in ways.items():
        sys.stdout.write(f"fitted, {penalty:g}: cosine {cosine(*held, tokens):.4f}\n")
    return TokenMeans(model.tokenizer, max(ways.values(), key=partial(cosine, *held)))


def main() -> None:
    """Fit, judge, and print the table and the gate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--fit", type=Path, nargs=2, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    means = made(args.fit, args.out)

    def asked(collection: Collection) -> Leg:
        found = means.embed(list(collection.queries.values()))
        return queried(collection, dict(zip(collection.queries, found, strict=True)))

    choices = (
        Choice("vectors, queries by token means", vectors, asked),
        Choice(
            "hybrid, queries by token means",
            partial(added, shares=TWO),
            partial(added, shares=TWO, near=asked),
        ),
    )
    collections = collections_of(args.folders, args.out)
    sys.stdout.write("\n".join(table([row(one, collections) for one in choices])))
    sys.stdout.write(judged(choices[-1], collections))


if __name__ == "__main__":
    main()
