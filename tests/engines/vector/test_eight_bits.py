"""The encoder in eight bits: near the one it is made from, and each text by itself."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.stacks.text.dense import Dense, Settings
from engines.vector import eight_bits
from engines.vector.models import model
from engines.vector.onnx import OnnxEmbedder
from harness.core.errors import ModelNotReady

NAME = "all-MiniLM-L6-v2-int8"
TEXTS = ["water", "How do I read a comma-separated file?", "Loading a CSV into pandas", "The aria"]


@pytest.fixture(scope="module")
def embedder() -> OnnxEmbedder:
    pytest.importorskip("onnx", reason='needs the extra "int8"')
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
    assert eight_bits.made_by() in embedder.identity
    assert eight_bits.made_by() not in whole.identity


def test_without_the_package_it_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    imported = builtins.__import__

    def absent(name: str, *args: Any, **how: Any) -> Any:  # noqa: ANN401  as the builtin
        if name.partition(".")[0] == "onnx":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return imported(name, *args, **how)

    monkeypatch.setattr(builtins, "__import__", absent)
    monkeypatch.delitem(sys.modules, "onnx", raising=False)
    with pytest.raises(ModelNotReady, match=r"search-harness\[int8\]"):
        Dense(Settings(embedder=NAME, max_tokens=32), tmp_path).embedder()
