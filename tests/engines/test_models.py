"""Models, and processors that run them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from benchmarks import processors
from harness.core.errors import ModelNotReady, UnknownName
from harness.core.records import Document
from harness_engines.stacks.text.dense import Dense, DenseSettings
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
from tests.make.toy import Toy


def test_a_worked_example() -> None:
    rows = np.array([[3, 4], [0, 0], [0, -2]], dtype=np.float32)
    assert unit(rows).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0], [0, -1]]


@given(arrays(np.float32, (5, 3), elements=st.floats(-100, 100, width=32)))
def test_every_row_has_length_one_or_was_nothing(rows: np.ndarray) -> None:
    length = np.linalg.norm(rows, axis=1)
    kept = rows[(length == 0) | (length > 1e-3)]
    found = np.linalg.norm(unit(kept), axis=1)
    assert np.all((np.abs(found - 1) < 1e-5) | (found == 0))
    assert np.array_equal(found == 0, np.linalg.norm(kept, axis=1) == 0)


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


def test_an_unknown_model_is_told_what_there_is() -> None:
    with pytest.raises(UnknownName, match="all-MiniLM-L6-v2"):
        model("word2vec")


@pytest.mark.parametrize("known", MODELS, ids=lambda known: known.name)
def test_every_model_of_the_table_is_installed_as_pinned(known: Model) -> None:
    assert model(known.name) is known
    assert known.weights.path().is_file()
    assert known.tokenizer.path().is_file()
    assert known.licence


@pytest.mark.usefixtures("package")
def test_an_arm_needs_its_model(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = MODELS[0]
    spoilt = replace(known, weights=pinned(sha256=known.weights.sha256))
    engine = Dense(DenseSettings(embedder=known.name, max_tokens=16), index / "cache")
    engine.build([Document("a", "", "water")], index)
    monkeypatch.setattr("harness_engines.vector.embedder.model", lambda _: spoilt)
    with pytest.raises(ModelNotReady), engine.open(index):
        pass
    with pytest.raises(ModelNotReady):
        engine.build([Document("a", "", "water")], index)


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", 0xCBF29CE484222325),
        (b"a", 0xAF63DC4C8601EC8C),
        (b"b", 0xAF63DF4C8601F1A5),
        (b"fo", 0x08985907B541D342),
        (b"foo", 0xDCB27518FED9D577),
        (b"foob", 0xDD120E790C2512AF),
        (b"fooba", 0xCAC165AFA2FEF40A),
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


def test_words_are_lower_cased_and_counted() -> None:
    embedder = HashEmbedder()
    once, twice, loud, split = embedder.embed(["a fo", "a a fo", "A, FO!", "a_fo"])
    assert np.array_equal(once, loud)
    assert np.array_equal(once, split)
    assert sorted(np.abs(twice[twice != 0])) == pytest.approx([1 / 5**0.5, 2 / 5**0.5])
    one, other = HashEmbedder().embed(["salt sea water", "water salt sea"])
    assert np.array_equal(one, other)
    assert HashEmbedder(64).identity != HashEmbedder(128).identity


@pytest.mark.parametrize("text", ["", "!?", "\0", "_"])
def test_no_word_gives_zeros(text: str) -> None:
    assert not HashEmbedder().embed([text]).any()


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


def test_every_vector_has_length_one(onnx: OnnxEmbedder) -> None:
    found = onnx.embed(TEXTS)
    assert found.shape == (len(TEXTS), onnx.dimension)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-6)
    asked, meant, other = onnx.embed([TEXTS[2], TEXTS[3], TEXTS[4]])
    assert asked @ meant > asked @ other + 0.2
    anew = OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)
    first = onnx.embed(TEXTS)
    assert np.array_equal(onnx.embed(TEXTS), first)
    assert np.array_equal(anew.embed(TEXTS), first)


@pytest.mark.parametrize("order", [1, -1])
def test_a_batch_of_mixed_lengths_is_its_texts_bit_for_bit(onnx: OnnxEmbedder, order: int) -> None:
    texts = TEXTS[::order]
    alone = np.concatenate([onnx.embed([text]) for text in texts])
    assert np.array_equal(onnx.embed(texts), alone)


def test_text_beyond_the_most_tokens_is_not_read(onnx: OnnxEmbedder) -> None:
    begun = "salt " * 30  # and two tokens that frame it
    one, other, cut = onnx.embed([begun + "sea", begun + "opera house", begun])
    assert np.array_equal(one, other)
    assert np.array_equal(one, cut)
    shorter = onnx.embed(["salt " * 29])[0]
    assert not np.array_equal(one, shorter)
    longer = OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 64)
    assert longer.identity != onnx.identity
    begun = "salt " * 30
    one, other = longer.embed([begun + "sea", begun + "opera house"])
    assert not np.array_equal(one, other)


NAME = "all-MiniLM-L6-v2-int8"
READ = ["water", "How do I read a comma-separated file?", "Loading a CSV into pandas", "The aria"]


@pytest.fixture(scope="module")
def eight_bits() -> OnnxEmbedder:
    return OnnxEmbedder.load(model(NAME), 32)


def test_a_text_is_near_what_it_is_in_32_bits_and_not_the_same(eight_bits: OnnxEmbedder) -> None:
    whole = OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)
    cosines = np.sum(eight_bits.embed(READ) * whole.embed(READ), axis=1)
    assert cosines.min() > 0.97
    assert cosines.max() < 0.99999


def test_neighbours_and_another_loading_change_no_bit(eight_bits: OnnxEmbedder) -> None:
    alone = np.concatenate([eight_bits.embed([text]) for text in READ])
    assert np.array_equal(eight_bits.embed(READ), alone)
    assert np.array_equal(eight_bits.read(READ).pooled, alone)
    assert len(eight_bits.read(READ).tokens) == len(READ)
    assert np.array_equal(OnnxEmbedder.load(model(NAME), 32).embed(READ), alone)
    whole = OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)
    assert vector_embedder.made_by() in eight_bits.identity
    assert vector_embedder.made_by() not in whole.identity


def test_what_is_shipped_is_what_the_script_draws(tmp_path: Path) -> None:
    from benchmarks import eight_bits_graph

    eight_bits_graph.write(tmp_path)
    for shipped in (vector_embedder.GRAPH, vector_embedder.PLACES):
        assert (tmp_path / shipped.name).read_bytes() == shipped.read_bytes()


def test_as_many_tokens_as_the_model_has_places(eight_bits: OnnxEmbedder) -> None:
    whole, small = (OnnxEmbedder.load(model(name), 512) for name in ("all-MiniLM-L6-v2", NAME))
    long = " ".join(READ * 60)
    assert float((whole.embed([long]) * small.embed([long])).sum()) > 0.97
    assert small.embed([""]).shape == (1, eight_bits.dimension)


@pytest.mark.slow
@pytest.mark.whole(
    "tests/engines/test_vector_search.py::test_a_processor_that_is_off_by_less_than_a_unit_gives_what_is_recorded"
)
@pytest.mark.skipif(
    not processors.may_hide(), reason="needs AVX-512, a kernel that lets CPUID fault, and cc"
)
def test_the_record_is_used(measured: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {"as it is": "", "without AVX-512": "avx512"}
    monkeypatch.setattr(processors, "HIDDEN", hidden)
    found = dict(processors.rows(tmp_path, measured.layout.data, (12, 12), []))
    assert found.pop("without AVX-512, no record").startswith("differ")
    assert set(found.values()) == {"equal | 0 | 0 | 0.0e+00"}
    assert len(found) == 3


@pytest.mark.slow
@pytest.mark.whole(
    "tests/engines/test_models.py::test_a_text_is_near_what_it_is_in_32_bits_and_not_the_same"
)
@pytest.mark.skipif(
    not processors.may_hide(), reason="needs AVX-512, a kernel that lets CPUID fault, and cc"
)
def test_weights_of_seven_bits_are_the_same_without_vnni(tmp_path: Path) -> None:
    """Eight bits cut off sums of two products there, and components differ by hundredths."""
    texts = ["how to read a table of rows", "cosine transform of a signal", "to frame", "average"]
    here = OnnxEmbedder.load(model("all-MiniLM-L6-v2-int8"), 32).embed(texts)
    there = tmp_path / "there.npy"
    code = (
        "import numpy\n"
        "from harness_engines.vector.embedder import model\n"
        "from harness_engines.vector.embedder import OnnxEmbedder\n"
        "encoder = OnnxEmbedder.load(model('all-MiniLM-L6-v2-int8'), 32)\n"
        f"numpy.save({str(there)!r}, encoder.embed({texts!r}))\n"
    )
    hidden = {"LD_PRELOAD": str(processors.library(tmp_path)), "HIDDEN_FEATURES": "avx512"}
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **hidden}, check=True)
    assert np.abs(np.load(there) - here).max() < 1e-5
