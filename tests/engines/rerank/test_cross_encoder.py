"""A cross-encoder from a folder: what it scores, and everything that may be wrong with it."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.contract import EngineError, FeatureUnavailable
from engines.rerank.cross_encoder import BATCH, CrossEncoder, CrossEncoding, sigmoid
from tests.make import tiny_model
from tests.make.tiny_model import NAMES, WORDS

TEXTS = ["the moon", "salt water", "water salt bread", "bees", "", "a salt sea"]
QUERY = "salt water"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.write(tmp_path_factory.mktemp("model"))


def test_the_logit_is_the_models_own(folder: Path) -> None:
    found = CrossEncoder.load(folder, 32).logits(QUERY, TEXTS)
    assert found.tolist() == [tiny_model.logit(QUERY, text) for text in TEXTS]
    assert len(set(found.tolist())) == 3  # the model reads its texts


def test_the_score_is_the_sigmoid_and_the_fused_one_is_left_aside(folder: Path) -> None:
    said = dict(enumerate(TEXTS))
    encoding = CrossEncoding(CrossEncoder.load(folder, 32), lambda ids: [said[i] for i in ids])
    for fused in ([0.9, 0.8, 0.7], [0.1, 0.1, 0.1]):
        found = encoding.rerank(QUERY, [1, 0, 5], fused)
        assert [one.raw_score for one in found] == [1.0, -3.0, -1.0]
        assert [one.score for one in found] == pytest.approx([
            1 / (1 + math.exp(-raw)) for raw in (1, -3, -1)
        ])


@given(st.lists(st.lists(st.sampled_from(WORDS[4:]), max_size=12), max_size=3 * BATCH))
def test_a_score_depends_on_the_pair_alone(folder: Path, written: list[list[str]]) -> None:
    texts = [" ".join(words) for words in written]
    model = CrossEncoder.load(folder, 64)
    found = model.logits(QUERY, texts)
    assert found.tolist() == [tiny_model.logit(QUERY, text) for text in texts]
    assert model.logits(QUERY, texts[::-1]).tolist() == found[::-1].tolist()


def test_what_is_beyond_the_most_tokens_is_not_read(folder: Path) -> None:
    short = CrossEncoder.load(folder, 12)
    assert len({*short.logits("salt", ["the " * 20, "the " * 20 + "salt"]).tolist()}) == 1
    assert len({*short.logits("salt", ["the", "the salt"]).tolist()}) == 2


def test_no_texts_need_no_model(folder: Path) -> None:
    assert CrossEncoder.load(folder, 32).logits(QUERY, []).shape == (0,)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", ""])
def test_a_file_that_is_absent_is_a_feature_that_is_not_available(
    tmp_path: Path, name: str
) -> None:
    folder = tiny_model.write(tmp_path / "model") if name else tmp_path / "nowhere"
    if name:
        (folder / name).unlink()
    with pytest.raises(FeatureUnavailable, match=name or "nowhere"):
        CrossEncoder.load(folder, 32)


def test_other_weights_than_stated_are_not_taken(folder: Path) -> None:
    found = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    assert CrossEncoder.load(folder, 32, found.upper()).sha256 == found
    with pytest.raises(FeatureUnavailable, match=found):
        CrossEncoder.load(folder, 32, "0" * 64)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_damaged_file_is_an_engine_error(tmp_path: Path, name: str) -> None:
    folder = tiny_model.write(tmp_path)
    raw = (folder / name).read_bytes()
    (folder / name).write_bytes(raw[: len(raw) // 2])
    with pytest.raises(EngineError, match="cannot be opened"):
        CrossEncoder.load(folder, 32)


def test_a_model_of_other_inputs_is_an_engine_error(tmp_path: Path) -> None:
    tiny_model.write(tmp_path, inputs=("pixels", *NAMES[1:]))
    with pytest.raises(EngineError, match="reads pixels"):
        CrossEncoder.load(tmp_path, 32)


def test_an_output_of_another_shape_is_an_engine_error(tmp_path: Path) -> None:
    model = CrossEncoder.load(tiny_model.write(tmp_path, outputs=2), 32)
    with pytest.raises(EngineError, match=r"\(6, 2\) for 6 pairs"):
        model.logits(QUERY, TEXTS)


def test_weights_and_words_and_length_make_the_identity(folder: Path, tmp_path: Path) -> None:
    known = CrossEncoder.load(folder, 32).identity
    assert CrossEncoder.load(folder, 33).identity != known
    assert CrossEncoder.load(tiny_model.write(tmp_path, outputs=2), 32).identity != known
    tiny_model.write(tmp_path)
    assert CrossEncoder.load(tmp_path, 32).identity == known
    with (tmp_path / "tokenizer.json").open("a", encoding="utf-8") as words:
        words.write("\n")
    assert CrossEncoder.load(tmp_path, 32).identity != known


def test_the_sigmoid_is_finite_and_never_falls() -> None:
    at = np.array([-1e300, -745.0, -1.0, 0.0, 1.0, 745.0, 1e300])
    found = sigmoid(at)
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0).all()
    assert (found[0], found[3], found[-1]) == (0.0, 0.5, 1.0)
