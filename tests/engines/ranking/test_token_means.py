"""One vector a token, fitted so that their mean is what a model gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from benchmarks.token_means import COUNTS, TokenMeans, cosine, drawn, fitted, sentences, shares
from engines.vector.embedder import unit
from engines.vector.models import MINILM
from engines.vector.onnx import OnnxEmbedder


def planted() -> tuple[sparse.csr_matrix, np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    of = sparse.csr_matrix(random.dirichlet(np.ones(6), size=40), dtype=np.float32)
    tokens = random.normal(size=(6, 4)).astype(np.float32)
    return of, tokens, np.asarray(of @ tokens)


def test_vectors_that_made_the_means_are_found_again() -> None:
    of, tokens, means = planted()
    start = np.zeros_like(tokens)
    found = fitted(of, means, start, 1e-6)
    assert found == pytest.approx(tokens, abs=1e-2)
    assert cosine(of, unit(means), found) == pytest.approx(1, abs=1e-4)
    assert fitted(of, means, start, 1e6) == pytest.approx(start, abs=1e-3)


def test_a_text_is_the_mean_of_its_tokens() -> None:
    tokenizer = OnnxEmbedder.load(MINILM, 16).tokenizer
    of = np.random.default_rng(5).normal(size=(tokenizer.get_vocab_size(), 3)).astype(np.float32)
    (found,) = TokenMeans(tokenizer, of).embed(["moss and moss"])
    ids = tokenizer.encode("moss and moss").ids
    assert found == pytest.approx(unit(of[ids].mean(axis=0, keepdims=True))[0], abs=1e-6)
    assert shares(tokenizer, ["moss and moss"]).sum() == pytest.approx(1)


def test_of_a_message_its_subject_and_what_it_says_itself_are_texts(tmp_path: Path) -> None:
    text = "> was it said before?\nNo, never was. It is new to all of us!\n\nYes"
    message = {"_id": "a", "title": "[list] Re: who said it", "text": text}
    (tmp_path / "corpus.jsonl").write_text(json.dumps(message) + "\n")
    assert list(sentences(tmp_path)) == [
        "who said it",
        "No, never was.",
        "It is new to all of us!",
        "Yes",
    ]
    texts = drawn([tmp_path, tmp_path])
    assert len(COUNTS) == len([tmp_path, tmp_path])
    assert sorted(texts) == sorted(["who said it", "No, never was.", "It is new to all of us!"] * 2)
