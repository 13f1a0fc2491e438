"""The encoder in eight bits: near the one it is made from, and each text by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engines.vector import embedder as vector_embedder
from engines.vector.embedder import OnnxEmbedder, model

NAME = "all-MiniLM-L6-v2-int8"
TEXTS = ["water", "How do I read a comma-separated file?", "Loading a CSV into pandas", "The aria"]


@pytest.fixture(scope="module")
def embedder() -> OnnxEmbedder:
    return OnnxEmbedder.load(model(NAME), 32)


def test_a_text_is_near_what_it_is_in_32_bits_and_not_the_same(embedder: OnnxEmbedder) -> None:
    whole = OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)
    cosines = np.sum(embedder.embed(TEXTS) * whole.embed(TEXTS), axis=1)
    assert cosines.min() > 0.97
    assert cosines.max() < 0.99999


def test_neighbours_and_another_loading_change_no_bit(embedder: OnnxEmbedder) -> None:
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    assert np.array_equal(embedder.embed(TEXTS), alone)
    assert np.array_equal(embedder.read(TEXTS).pooled, alone)
    assert len(embedder.read(TEXTS).tokens) == len(TEXTS)
    assert np.array_equal(OnnxEmbedder.load(model(NAME), 32).embed(TEXTS), alone)


def test_its_identity_is_its_own(embedder: OnnxEmbedder) -> None:
    whole = OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)
    assert vector_embedder.made_by() in embedder.identity
    assert vector_embedder.made_by() not in whole.identity


def test_what_is_shipped_is_what_the_script_draws(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the package onnx, which draws the graph, is absent")
    from benchmarks import eight_bits_graph

    eight_bits_graph.write(tmp_path)
    for shipped in (vector_embedder.GRAPH, vector_embedder.PLACES):
        assert (tmp_path / shipped.name).read_bytes() == shipped.read_bytes()


def test_as_many_tokens_as_the_model_has_places(embedder: OnnxEmbedder) -> None:
    whole, small = (OnnxEmbedder.load(model(name), 512) for name in ("all-MiniLM-L6-v2", NAME))
    long = " ".join(TEXTS * 60)
    assert float((whole.embed([long]) * small.embed([long])).sum()) > 0.97
    assert small.embed([""]).shape == (1, embedder.dimension)
