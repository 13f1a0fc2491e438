"""Candidates ordered anew: a window, a cross-encoder, and token vectors of late interaction."""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numkong
import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from harness.core.digest import of_file
from harness.core.files import replacing
from harness_engines.contract import EngineError, FeatureUnavailable, IndexUnavailable
from harness_engines.vector import bulk
from harness_engines.vector.amvi import HALF_BYTES, Format, crc
from harness_engines.vector.embedder import ModelPass, TokenEmbedder, session, tokenizer_of
from harness_engines.vector.scan import COSINE_DIGITS, Half

LEAST = 1e-6
"""Lowest score of a window with candidates below it: they need room to keep their order."""


class Reranked(NamedTuple):
    """What a reranker says of one candidate."""

    score: float
    """In [0, 1], higher is better."""
    raw_score: float
    """What the reranker counts in: a logit, or a mean of cosines."""


Reranker = Callable[[str, Sequence[int], Sequence[float]], Sequence[Reranked]]
"""Judges each candidate of a window: a query, the ids of the candidates and their fused scores."""


def joined(
    window: Sequence[Reranked], below: Sequence[float]
) -> tuple[Sequence[Reranked], Sequence[float]]:
    """Score what lies below a window so that it keeps its order below it (decision 17).

    ``below`` are fused scores under 1; each becomes that share of the window's lowest score. A
    window that reaches down to less than ``LEAST`` is lifted into [``LEAST``, 1] first.
    """
    for judged in window:
        if not (0.0 <= judged.score <= 1.0 and math.isfinite(judged.raw_score)):
            raise EngineError(f"the reranker scored {judged.score}, raw {judged.raw_score}")
    floor = min((judged.score for judged in window), default=1.0)
    if below and floor < LEAST:
        window = [judged._replace(score=LEAST + (1 - LEAST) * judged.score) for judged in window]
        floor = min(judged.score for judged in window)
    return window, [score * floor for score in below]


MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
BATCH = 16
READS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""Inputs that a model may have, and what the tokenizer calls them."""


@dataclass(frozen=True, slots=True)
class CrossEncoder:
    """A model over pairs of query and text; reads at most ``max_tokens`` of a pair."""

    folder: Path
    sha256: str
    """Of the weights."""
    max_tokens: int
    tokenizer: Tokenizer
    session: Any

    @classmethod
    def load(cls, folder: Path, max_tokens: int, sha256: str = "") -> "CrossEncoder":
        """Open a folder; nothing is ever fetched. Empty ``sha256`` takes any weights."""
        for name in (MODEL, TOKENIZER):
            if not (folder / name).is_file():
                raise FeatureUnavailable(
                    f"{folder / name}: no such file. A reranker is a folder with {MODEL} and"
                    f" {TOKENIZER}"
                )
        found = of_file(folder / MODEL)
        if sha256 and found != sha256.lower():
            raise FeatureUnavailable(
                f"{folder / MODEL}: its SHA-256 is {found}, stated is {sha256}"
            )
        try:
            tokenizer = tokenizer_of(folder / TOKENIZER, max_tokens)
            opened = session(str(folder / MODEL))
        except Exception as exc:
            raise EngineError(f"{folder}: cannot be opened: {exc}") from exc
        return cls(folder, found, max_tokens, tokenizer, opened)

    @property
    def identity(self) -> str:
        runtime = version("onnxruntime")
        words = of_file(self.folder / TOKENIZER)[:16]
        return (
            f"cross-encoder {self.sha256[:16]}/{words}, {self.max_tokens} tokens,"
            f" onnxruntime {runtime}"
        )

    def logits(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Judge ``texts`` for ``query``; shape (texts,)."""
        pairs = self.tokenizer.encode_batch([(query, text) for text in texts])
        order = sorted(range(len(texts)), key=lambda at: (len(pairs[at].ids), texts[at]))
        found = np.empty(len(texts))
        for low in range(0, len(order), BATCH):
            batch = order[low : low + BATCH]
            found[batch] = self._run([pairs[at] for at in batch])
        return found

    def judge(self, query: str, texts: Sequence[str]) -> list[Reranked]:
        """Judge ``texts`` by sigmoids of their logits (decision 17)."""
        logits = self.logits(query, texts)
        return list(map(Reranked, sigmoid(logits).tolist(), logits.tolist()))

    def _run(self, pairs: Sequence[Encoding]) -> NDArray[np.float64]:
        longest = max(len(one.ids) for one in pairs)
        feed = {}
        for wanted in self.session.get_inputs():
            rows = np.zeros((len(pairs), longest), dtype=np.int64)
            for row, one in zip(rows, pairs, strict=True):
                row[: len(one.ids)] = getattr(one, READS[wanted.name])
            feed[wanted.name] = rows
        try:
            out = np.asarray(self.session.run(None, feed)[0])
        except Exception as exc:
            raise EngineError(f"{self.folder / MODEL}: {exc}") from exc
        if out.shape != (len(pairs), 1):
            raise EngineError(
                f"{self.folder / MODEL}: its output has the shape {out.shape} for {len(pairs)}"
                " pairs; a cross-encoder gives one logit a pair"
            )
        if not np.isfinite(out).all():
            raise EngineError(f"{self.folder / MODEL}: a logit is not finite")
        return out[:, 0].astype(np.float64)


def sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute 1 / (1 + exp(-x)) without overflow, also far from 0."""
    away = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0, away) / (1.0 + away)


TOKEN_FORMAT = Format(
    "file of token vectors",
    b"TOKS",
    1,
    struct.Struct("<4sHHIQQ4xI4x"),
    lambda name, dimension, texts, tokens: (dimension, name, (2 * texts + 1) * 8, tokens),
)

Ids = NDArray[np.int64]
Fill = Callable[[Half, Ids], None]
"""Writes every vector into a slab of shape (tokens, dimension), text n from offset n on."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenStore:
    """An open file; its vectors stay mapped, also when the file is replaced."""

    ids: Ids
    """Shape (texts,), strictly ascending."""
    offsets: Ids
    """Shape (texts + 1,)."""
    vectors: Half
    """Shape (tokens, dimension), mapped from the file."""

    @classmethod
    def open(cls, path: Path, embedder_id: str, dimension: int) -> "TokenStore":
        """Read and check the whole file once, then map its vectors."""
        try:
            with path.open("rb") as file:
                found, vectors = TOKEN_FORMAT.read(file, embedder_id, dimension)
        except (OSError, ValueError) as exc:
            raise IndexUnavailable(f"{path}: {exc}. Build the token vectors anew") from exc
        table = np.frombuffer(found, dtype="<i8").astype(np.int64)
        ids, offsets = table[: len(table) // 2], table[len(table) // 2 :]
        falls = (ids[1:] <= ids[:-1]).any() or (offsets[1:] < offsets[:-1]).any()
        if falls or offsets[0] != 0 or offsets[-1] != len(vectors):
            raise IndexUnavailable(
                f"{path}: its offsets table is not in order. Build the token vectors anew"
            )
        return cls(ids, offsets, vectors)

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, text_id: int) -> Half:
        """Vectors of one text's tokens, shape (tokens, dimension)."""
        row = int(np.searchsorted(self.ids, text_id))
        if row == len(self.ids) or self.ids[row] != text_id:
            raise EngineError(f"text {text_id} has no token vectors. Build them anew")
        return self.vectors[self.offsets[row] : self.offsets[row + 1]]


def write(
    path: Path, embedder_id: str, dimension: int, ids: Ids, lengths: Ids, *, fill: Fill
) -> None:
    """Write vectors of texts of ascending ``ids`` and so many tokens; an older file is replaced."""
    embedder = embedder_id.encode()
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])
    shape = (int(offsets[-1]), dimension)
    table = ids.astype("<i8").tobytes() + offsets.astype("<i8").tobytes()
    with replacing(path) as beside:
        with beside.open("wb") as file:
            file.seek(TOKEN_FORMAT.header.size)
            file.write(TOKEN_FORMAT.front(embedder, table))
            begin = file.tell()
            file.truncate(begin + shape[0] * dimension * HALF_BYTES)
        if shape[0]:
            slab = np.memmap(beside, dtype="<f2", mode="r+", offset=begin, shape=shape)
            fill(slab, offsets)
            slab.flush()
        with beside.open("r+b") as file:
            file.seek(TOKEN_FORMAT.header.size)
            digest = crc(file)
            file.seek(0)
            file.write(TOKEN_FORMAT.head(len(embedder), dimension, len(ids), shape[0], digest))


def write_tokens(
    path: Path, ids: Sequence[int], texts: Sequence[str], embedder: TokenEmbedder, cache: Path
) -> None:
    """Write the token vectors of ``texts`` into ``path``; ``ids`` ascend."""
    folder = bulk.folder_of(cache, "tokens", embedder)
    rows: dict[bytes, list[int]] = {}
    for row, text in enumerate(texts):
        rows.setdefault(bulk.key_of(text), []).append(row)
    stored = partial(bulk.rows_of, folder, "vectors", wanted=rows)
    held = {key for key, _ in stored()}
    missing = {key: texts[at[0]] for key, at in rows.items() if key not in held}
    pooled = bulk.folder_of(cache, bulk.VECTORS, embedder).absolute()
    bulk.make_parts(missing, embedder.read, partial(_write_both, pooled), folder)
    lengths = np.zeros(len(texts), dtype=np.int64)
    for key, (vectors,) in stored():
        lengths[rows.get(key, [])] = len(vectors)

    def fill(slab: Half, offsets: Ids) -> None:
        for key, (vectors,) in stored():
            for row in rows.get(key, []):
                slab[offsets[row] : offsets[row + 1]] = vectors

    numbers = np.array(ids, dtype=np.int64)
    write(path, embedder.identity, embedder.dimension, numbers, lengths, fill=fill)


def _write_both(folder: Path, part: bulk.Part, readings: Sequence[ModelPass], path: Path) -> None:
    """Keep the tokens of a part in ``path`` and its pooled vectors in ``folder``."""
    tokens = [text.astype(np.float16) for reading in readings for text in reading.tokens]
    pooled = np.concatenate([reading.pooled for reading in readings]).astype(np.float16)
    lengths = np.array([len(text) for text in tokens], dtype=np.int64)
    with replacing(bulk.named(folder, part)) as beside:
        bulk.save(beside, part, pooled)
    bulk.save(path, part, np.concatenate(tokens), lengths=lengths)


FUSED_WEIGHT = 0.4
"""As the specification of the documents stack blends; what it gains is in ``docs/field.md``."""


@dataclass(frozen=True, slots=True)
class LateInteraction:
    """Blends a window's fused scores with its MaxSim."""

    embedder: TokenEmbedder
    tokens: Callable[[int], Half]
    """Vectors of the tokens of a text, shape (tokens, dimension)."""
    fused_weight: float
    """Share of the min-maxed fused score in the blend; MaxSim has the rest."""

    @staticmethod
    def identity_of(embedder: TokenEmbedder, fused_weight: float) -> str:
        """Name what reranks before there are token vectors."""
        return f"maxsim 1, fused {fused_weight}, {embedder.identity}"

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        """Score fused_weight * min-maxed fused score + (1 - fused_weight) * min-maxed MaxSim.

        Both are spread over the window, so its best in both has 1 and its worst in both 0;
        ``raw_score`` is MaxSim, a mean of cosines.
        """
        query = self.embedder.read([text]).tokens[0].astype(np.float16)
        similar = np.array([maxsim(query, self.tokens(one)) for one in ids])
        ours = 1.0 - self.fused_weight
        blend = self.fused_weight * spread(np.array(fused)) + ours * spread(similar)
        held = np.clip(np.round(blend, COSINE_DIGITS), 0.0, 1.0)
        return list(map(Reranked, held.tolist(), similar.tolist()))


def maxsim(query: Half, text: Half) -> float:
    """Mean over the query's tokens of the highest cosine with a token of the text.

    Both are rows of unit vectors, shapes (tokens, dimension). The paper adds up instead; over one
    query the order is the same, and a mean stays within [-1, 1]. Rounded to ``COSINE_DIGITS``,
    below which processors differ. A text without a token is like nothing: 0.
    """
    if not len(query) or not len(text):
        return 0.0
    cosines = np.empty((len(query), len(text)))
    numkong.cdist(query, np.asarray(text), "dot", out=cosines)
    return round(float(cosines.max(axis=1).mean()), COSINE_DIGITS)


def spread(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Min-max over a window: (score - lowest) / (highest - lowest); equal ones are all 1."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    if low == high:
        return np.ones(len(scores))
    spread_out: NDArray[np.float64] = (scores - low) / (high - low)
    return spread_out
