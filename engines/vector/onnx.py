"""A sentence encoder run by onnxruntime on one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from engines.vector import eight_bits
from engines.vector.embedder import Reading, unit
from engines.vector.models import Model

CHARACTERS_A_TOKEN = 100
"""WordPiece takes longer words for unknown ones; so text this far on is beyond the last token."""


@dataclass(frozen=True, slots=True)
class OnnxEmbedder:
    """Tokens in, mean of the last hidden states out; text beyond ``max_tokens`` is not read."""

    model: Model
    max_tokens: int
    tokenizer: Tokenizer
    session: Any

    @classmethod
    def load(cls, model: Model, max_tokens: int) -> OnnxEmbedder:
        """Open the model's files.

        Raises:
            ModelNotReady: one of them is absent or not the pinned one.
        """
        tokenizer = Tokenizer.from_file(str(model.tokenizer.path()))
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        weights = model.weights.path()
        if model.eight_bits:
            return cls(model, max_tokens, tokenizer, eight_bits.session(weights, options))
        session = onnxruntime.InferenceSession(
            str(weights), options, providers=["CPUExecutionProvider"]
        )
        return cls(model, max_tokens, tokenizer, session)

    def __reduce__(self) -> tuple[Callable[[Model, int], OnnxEmbedder], tuple[Model, int]]:
        """Let another process load the same model, once."""
        return _loaded, (self.model, self.max_tokens)

    @property
    def dimension(self) -> int:
        return self.model.dimension

    @property
    def identity(self) -> str:
        return identity_of(self.model, self.max_tokens)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.model.eight_bits:
            return np.concatenate([_mean(*self._states([text])) for text in texts])
        return _mean(*self._states(texts))

    def read(self, texts: Sequence[str]) -> Reading:
        if self.model.eight_bits and len(texts) > 1:
            alone = [self.read([text]) for text in texts]
            pooled = np.concatenate([one.pooled for one in alone])
            return Reading(pooled, tuple(one.tokens[0] for one in alone))
        states, mask = self._states(texts)
        lengths = mask.sum(axis=1)
        tokens = [unit(row[:length]) for row, length in zip(states, lengths, strict=True)]
        return Reading(_mean(states, mask), tuple(tokens))

    def _states(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Give the last hidden states, shape (texts, tokens, dimension), and which are real."""
        most = self.max_tokens * CHARACTERS_A_TOKEN
        cut = [text[:most] for text in texts]
        if len(cut) == 1:  # a batch waits for threads that share it
            encoded = [self.tokenizer.encode(cut[0])]
        else:
            encoded = self.tokenizer.encode_batch(cut)
        longest = max(len(one.ids) for one in encoded)
        ids = np.zeros((len(texts), longest), dtype=np.int64)
        mask = np.zeros((len(texts), longest), dtype=np.int64)
        for row, one in enumerate(encoded):
            ids[row, : len(one.ids)] = one.ids
            mask[row, : len(one.ids)] = 1
        feed = {"input_ids": ids}
        if not self.model.eight_bits:  # one text is whole, and a lone segment is the first
            feed |= {"attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return self.session.run(None, feed)[0], mask


def identity_of(model: Model, max_tokens: int) -> str:
    """Say what a vector depends on beside its text, without opening the model."""
    identity = f"{model.identity}, {max_tokens} tokens, onnxruntime {version('onnxruntime')}"
    return f"{identity}, {eight_bits.made_by()}" if model.eight_bits else identity


def _mean(states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    weight = mask[:, :, None].astype(np.float32)
    mean: NDArray[np.float32] = (states * weight).sum(axis=1) / weight.sum(axis=1)
    return unit(mean)


@lru_cache(maxsize=1)
def _loaded(model: Model, max_tokens: int) -> OnnxEmbedder:
    return OnnxEmbedder.load(model, max_tokens)
