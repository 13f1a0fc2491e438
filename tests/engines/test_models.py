"""Models, and processors that run them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import ModelNotReady
from harness_engines.vector import embedder
from harness_engines.vector import embedder as vector_embedder
from harness_engines.vector.embedder import (
    MODELS,
    HashEmbedder,
    Model,
    ModelFile,
    OnnxEmbedder,
    fnv1a_64,
    model,
    unit,
)


def test_a_worked_example() -> None:
    rows = np.array([[3, 4], [0, 0], [0, -2]], dtype=np.float32)
    assert unit(rows).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0], [0, -1]]


WEIGHTS = b"weights"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a package that carries a file; importing it would fail."""
    folder = tmp_path / "site" / "carrier_of_a_model"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('the code of a carrier was run')")
    (folder / "weights.bin").write_bytes(WEIGHTS)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    embedder._verified.cache_clear()  # noqa: SLF001  one carrier a test
    return folder


def pinned(inside: str = "weights.bin", sha256: str = "") -> ModelFile:
    wanted = sha256 or hashlib.sha256(WEIGHTS).hexdigest()
    return ModelFile("carrier_of_a_model", inside, wanted)


def test_the_pinned_file_is_found_and_no_code_is_run(package: Path) -> None:
    absent = ModelFile("no_such_carrier", "weights.bin", "0" * 64)
    for wrong, why in (
        (pinned(sha256="0" * 64), "pinned is 0000"),
        (pinned("other.bin"), r"other\.bin"),
        (absent, "no_such_carrier"),
    ):
        with pytest.raises(ModelNotReady, match=why):
            wrong.path()
    (package / "weights.bin").write_bytes(b"cut")
    with pytest.raises(ModelNotReady):
        pinned().path()
    (package / "weights.bin").write_bytes(WEIGHTS)
    assert pinned().path() == package / "weights.bin", "a failure is not remembered"


@pytest.mark.parametrize("known", MODELS, ids=lambda known: known.name)
def test_every_model_of_the_table_is_installed_as_pinned(known: Model) -> None:
    assert model(known.name) is known
    assert known.weights.path().is_file()
    assert known.tokenizer.path().is_file()
    assert known.licence


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"foobar", 0x85944171F73967E8),
        (b"chongo was here!\n", 0x46810940EFF5F915),
    ],
)
def test_published_values_of_the_hash(data: bytes, hashed: int) -> None:
    assert fnv1a_64(data) == hashed


def test_a_word_lands_in_its_bucket_with_its_sign() -> None:
    (found,) = HashEmbedder(10).embed(["a"])
    expected = np.zeros(10)
    expected[0xAF63DC4C8601EC8C % 10] = 1.0  # the highest bit of af... is set
    assert found.tolist() == expected.tolist()
    (found,) = HashEmbedder(10).embed(["fo"])
    assert found[0x08985907B541D342 % 10] == -1.0  # that of 08... is not
    texts = ["salt", "", "a word with \ud800 half a pair", "東京"]
    embedder = HashEmbedder(64)
    together = embedder.embed(texts)
    assert together.shape == (4, 64)
    assert together.dtype == np.float32
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    assert np.array_equal(together, alone)


TEXTS = [
    "water",
    "",
    "How do I read a comma-separated file into a data frame?",
    "Loading a CSV into pandas",
    "The soprano sings an aria while the orchestra plays softly in the pit. " * 6,
    "!?",
    "東京 😀",
]


@pytest.fixture(scope="module")
def onnx() -> OnnxEmbedder:
    return OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)


@pytest.mark.parametrize("order", [1, -1])
def test_a_batch_of_mixed_lengths_is_its_texts_bit_for_bit(onnx: OnnxEmbedder, order: int) -> None:
    texts = TEXTS[::order]
    alone = np.concatenate([onnx.embed([text]) for text in texts])
    assert np.array_equal(onnx.embed(texts), alone)


def test_what_is_shipped_is_what_the_script_draws(tmp_path: Path) -> None:
    from benchmarks import eight_bits_graph

    eight_bits_graph.write(tmp_path)
    for shipped in (vector_embedder.GRAPH, vector_embedder.PLACES):
        assert (tmp_path / shipped.name).read_bytes() == shipped.read_bytes()
