"""SPLADE computed another way: plain loops over heads in double precision, and no blocks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from engines.sparse import SparseModel

Double = NDArray[np.float64]


def weights_of(model: SparseModel, text: str, max_tokens: int) -> Double:
    """Weight of every term of the vocabulary, shape (terms,)."""
    held = load_file(str(model.weights.path()))
    tensor = {name: value.astype(np.float64) for name, value in held.items()}
    tokenizer = Tokenizer.from_file(str(model.tokenizer.path()))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    ids = tokenizer.encode(text).ids
    words = tensor["bert.embeddings.word_embeddings.weight"]
    x = np.array([
        words[token]
        + tensor["bert.embeddings.position_embeddings.weight"][place]
        + tensor["bert.embeddings.token_type_embeddings.weight"][0]
        for place, token in enumerate(ids)
    ])
    x = norm(tensor, "bert.embeddings", x)
    for layer in range(model.layers):
        x = one_layer(tensor, f"bert.encoder.layer.{layer}", x, model.heads)
    x = norm(
        tensor, "cls.predictions.transform", gelu(linear(tensor, "cls.predictions.transform", x))
    )
    logits = np.einsum("td,vd->tv", x, words) + tensor["cls.predictions.bias"]
    double: Double = np.log(1 + np.maximum(logits, 0)).max(axis=0)
    return double


def one_layer(tensor: dict[str, Double], name: str, x: Double, heads: int) -> Double:
    own = f"{name}.attention.self"
    query, key, value = (
        x @ tensor[f"{own}.{part}.weight"].T + tensor[f"{own}.{part}.bias"]
        for part in ("query", "key", "value")
    )
    size = x.shape[1] // heads
    seen = []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        likeness = np.einsum("id,jd->ij", query[:, part], key[:, part]) / math.sqrt(size)
        shares = np.exp(likeness)
        seen.append(shares / shares.sum(axis=1, keepdims=True) @ value[:, part])
    x = norm(
        tensor,
        f"{name}.attention.output",
        x + linear(tensor, f"{name}.attention.output", np.hstack(seen)),
    )
    wide = gelu(linear(tensor, f"{name}.intermediate", x))
    return norm(tensor, f"{name}.output", x + linear(tensor, f"{name}.output", wide))


def linear(tensor: dict[str, Double], name: str, x: Double) -> Double:
    mapped: Double = x @ tensor[f"{name}.dense.weight"].T + tensor[f"{name}.dense.bias"]
    return mapped


def norm(tensor: dict[str, Double], name: str, x: Double) -> Double:
    scaled = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-12)
    moved: Double = scaled * tensor[f"{name}.LayerNorm.gamma"] + tensor[f"{name}.LayerNorm.beta"]
    return moved


def gelu(x: Double) -> Double:
    bent: Double = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return bent
