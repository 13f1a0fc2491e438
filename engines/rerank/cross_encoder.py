"""A cross-encoder in FlashRank's folder layout: ``model.onnx`` and ``tokenizer.json``.

Nogueira and Cho, "Passage Re-ranking with BERT", 2019: query and text are one input, and the
model's one output is how well they go together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from engines.contract.errors import EngineError, FeatureUnavailable
from engines.rerank.window import Reranked
from harness.core.digest import of_file

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
        """Open a folder; nothing is ever fetched. Empty ``sha256`` takes any weights.

        Raises:
            FeatureUnavailable: a file is absent, or the weights are not the stated ones.
            EngineError: a file is damaged, or the model does not read tokens.
        """
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
            tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
            tokenizer.no_padding()
            tokenizer.enable_truncation(max_tokens)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.inter_op_num_threads = 1
            session = onnxruntime.InferenceSession(
                str(folder / MODEL), options, providers=["CPUExecutionProvider"]
            )
        except Exception as exc:
            raise EngineError(f"{folder}: cannot be opened: {exc}") from exc
        if unknown := sorted({one.name for one in session.get_inputs()} - set(READS)):
            raise EngineError(f"{folder / MODEL}: reads {', '.join(unknown)}, which is not known")
        return cls(folder, found, max_tokens, tokenizer, session)

    @property
    def identity(self) -> str:
        runtime = version("onnxruntime")
        words = of_file(self.folder / TOKENIZER)[:16]
        return (
            f"cross-encoder {self.sha256[:16]}/{words}, {self.max_tokens} tokens,"
            f" onnxruntime {runtime}"
        )

    def logits(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Judge ``texts`` for ``query``; shape (texts,).

        Texts are taken by length, so that a text's company depends on the texts and not on the
        order they come in.

        Raises:
            EngineError: the model fails, or its output is not one finite number a pair.
        """
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
