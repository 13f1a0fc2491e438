"""A cross-encoder, and the window of candidates that it orders anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from harness.core.digest import of_file
from harness_engines.contract import EngineError, FeatureUnavailable, SearchError
from harness_engines.vector.embedder import session, tokenizer_of

LEAST = 1e-6
"""Lowest score of a window with candidates below it: they need room to keep their order."""


class Reranked(NamedTuple):
    """What a reranker says of one candidate."""

    score: float
    """In [0, 1], higher is better."""
    raw_score: float
    """What the reranker counts in: a logit, or a mean of cosines."""


class Reranker(Protocol):
    """Reads query and candidate together; slower and better than comparing two vectors."""

    @property
    def identity(self) -> str:
        """Everything that a score depends on beside query and candidates."""
        ...

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:
        """Judge each candidate of the window."""
        ...


@dataclass(frozen=True, slots=True)
class UnavailableReranker:
    """Stands for a reranker that was requested and could not be opened."""

    why: SearchError

    @property
    def identity(self) -> str:
        return "absent"

    def rerank(self, *_: object) -> Sequence[Reranked]:
        """Return why there is none."""
        raise type(self.why)(str(self.why))


class Joined(NamedTuple):
    """Final scores of a window and of what lies below it."""

    window: tuple[Reranked, ...]
    below: tuple[float, ...]


def joined(window: Sequence[Reranked], below: Sequence[float]) -> Joined:
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
    return Joined(tuple(window), tuple(score * floor for score in below))


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
    def load(cls, folder: Path, max_tokens: int, sha256: str = "") -> CrossEncoder:
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
        for batch in _batches(order):
            found[batch] = self._run([pairs[at] for at in batch])
        return found

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


@dataclass(frozen=True, slots=True)
class CrossEncoding:
    """Replaces the window's scores by sigmoids of logits (decision 17)."""

    model: CrossEncoder
    texts: Callable[[Sequence[int]], Sequence[str]]
    """What candidates say, in their order."""

    @property
    def identity(self) -> str:
        return self.model.identity

    def rerank(self, text: str, ids: Sequence[int], fused: Sequence[float]) -> Sequence[Reranked]:  # noqa: ARG002  the model's own score replaces it
        logits = self.model.logits(text, self.texts(ids))
        pairs = zip(sigmoid(logits).tolist(), logits.tolist(), strict=True)
        return [Reranked(score, logit) for score, logit in pairs]


def sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute 1 / (1 + exp(-x)) without overflow, also far from 0."""
    away = np.exp(-np.abs(logits))
    return np.where(logits >= 0, 1.0, away) / (1.0 + away)


def _batches(order: Sequence[int]) -> Iterator[list[int]]:
    for low in range(0, len(order), BATCH):
        yield list(order[low : low + BATCH])
