"""Orders of hits: fusion, sums, sparse terms, token vectors, and rerankers with their models."""

import hashlib
import math
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.core.errors import ModelNotReady
from harness_engines import rerank, sparse
from harness_engines.contract import FeatureUnavailable
from harness_engines.ranking import by_best, combine, fuse
from harness_engines.rerank import CrossEncoder, TokenStore, maxsim, write_tokens
from harness_engines.sparse import Splade, Terms
from harness_engines.vector import embedder as embedders
from harness_engines.vector.embedder import HashEmbedder, ModelFile, OnnxEmbedder, model, unit
from harness_engines.vector.scan import Half
from tests.make import models as tiny_model
from tests.make.models import WORDS


def test_a_worked_example_of_fusion() -> None:
    hits = fuse({"l": ["a", "b"], "s": ["b", "c"]}, {"l": 1.0, "s": 1.0}, rrf_k=60, k=10)
    assert [hit.doc_id for hit in hits] == ["b", "a", "c"]
    sums = [1 / 62 + 1 / 61, 1 / 61, 1 / 62]
    assert [hit.raw_score for hit in hits] == pytest.approx(sums, abs=1e-15)
    assert hits[0].score == pytest.approx((1 / 62 + 1 / 61) / (2 / 61), abs=1e-12)
    hits = fuse({"l": ["a"], "s": ["b"]}, {"l": 1.0, "s": 3.0}, rrf_k=1, k=10)
    assert [tuple(hit) for hit in hits] == [("b", 0.75, 1.5), ("a", 0.25, 0.5)]


def test_ties_go_by_id() -> None:
    hits = fuse({"l": ["z", "a"], "s": ["a", "z"]}, {"l": 1.0, "s": 1.0}, rrf_k=60, k=2)
    assert [hit.doc_id for hit in hits] == ["a", "z"]
    assert hits[0].score == hits[1].score
    places = {"a": (1, 7, 2, 3), "b": (7, 2, 3, 1)}
    legs = "lmno"
    rankings = {leg: [f"{leg}{at}" for at in range(1, 8)] for leg in legs}
    for doc_id, ranks in places.items():
        for leg, rank in zip(legs, ranks, strict=True):
            rankings[leg][rank - 1] = doc_id
    first, second = fuse(rankings, dict.fromkeys(legs, 1.0), rrf_k=60, k=2)
    assert (first.doc_id, second.doc_id) == ("a", "b")
    assert first.score == second.score
    assert first.raw_score < second.raw_score, "the sums do differ: nothing else is shown here"


def test_a_silent_leg_adds_nothing_and_lowers_the_share() -> None:
    both = {"l": 1.0, "s": 1.0}
    hits = fuse({"l": ["a"], "s": []}, both, rrf_k=60, k=5)
    assert [(hit.doc_id, hit.score) for hit in hits] == [("a", 0.5)]
    alone = fuse({"l": ["a"]}, both, rrf_k=60, k=5)
    assert [(hit.doc_id, hit.score) for hit in alone] == [("a", 1.0)]
    assert hits[0].raw_score == alone[0].raw_score
    twice = fuse({"l": ["a", "a", "b"], "s": ["b"]}, both, rrf_k=60, k=5)
    assert twice == fuse({"l": ["a", "b"], "s": ["b"]}, both, rrf_k=60, k=5)
    assert fuse({}, {}, rrf_k=60, k=5) == ()
    assert fuse({"l": []}, {"l": 1.0}, rrf_k=60, k=5) == ()


HALVES = {"l": 0.5, "s": 0.5}


def shown(words: dict[str, float], vectors: dict[str, float]) -> list[str]:
    return [hit.doc_id for hit in combine({"l": words, "s": vectors}, HALVES, 10)]


def test_by_hand() -> None:
    hits = combine({"l": {"a": 8.0, "b": 4.0}, "s": {"b": 0.9, "c": 0.3}}, HALVES, 10)
    assert [hit.doc_id for hit in hits] == ["b", "a", "c"]
    sums = [0.5 * 4 / 8 + 0.5, 0.5, 0.5 * 0.3 / 0.9]
    assert [hit.score for hit in hits] == pytest.approx(sums, abs=1e-9)
    near, far = {"a": 1.0, "b": 0.99}, {"b": 1.0, "a": 0.2}
    assert shown(near, far) == ["b", "a"]
    assert shown(far, near) == ["b", "a"]
    assert shown({"b": 2.0, "a": 2.0}, {"b": 0.5, "a": 0.5}) == ["a", "b"]
    assert shown({"a": 1.0}, {"a": -0.5, "b": -0.1}) == ["a"]
    hits = combine({"l": {"a": 1.0}, "s": {"a": -0.5, "b": -0.1, "c": 0.5}}, HALVES, 10)
    assert [(hit.doc_id, hit.score) for hit in hits] == [("a", 0.5), ("c", 0.5)]
    assert combine({"l": {}, "s": {}}, HALVES, 5) == ()
    hits = by_best([("b", 2.0), ("c", 8.0), ("a", 2.0), ("d", 4.0)], 3)
    assert [tuple(hit) for hit in hits] == [("c", 1.0, 8.0), ("d", 0.5, 4.0), ("a", 0.25, 2.0)]
    assert by_best([], 5) == ()
    assert [hit.score for hit in by_best([("a", 0.0), ("b", 0.0)], 5)] == [0.0, 0.0]


TINY = sparse.sparse_model("splade-tiny")
WEIGHED = {
    "customer retention": (14, 10.214595, {"retention": 2.2529, "customer": 2.2471}),
    "The moon pulls the sea, so the water rises twice a day. 東京 café 😀": (
        *(82, 52.463772),
        {"moon": 2.3664, "sea": 2.2046, "water": 2.1332, "moons": 1.9329, "day": 1.5308},
    ),
}
"""Terms, sum of their weights, and some weights, as computed in double precision."""


@pytest.fixture(scope="module")
def splade() -> Splade:
    return Splade.load(TINY, 64)


@pytest.mark.parametrize("text", WEIGHED)
def test_terms_weigh_as_computed_in_double_precision(splade: Splade, text: str) -> None:
    terms, weights = splade.encode(text)
    by_term = dict(zip(map(splade.tokenizer.id_to_token, terms.tolist()), weights, strict=True))
    count, whole, some = WEIGHED[text]
    assert (len(terms), weights.sum()) == (count, pytest.approx(whole, abs=1e-3))
    assert {term: by_term[term] for term in some} == pytest.approx(some, abs=1e-4)
    assert (np.diff(terms) > 0).all()
    assert TINY.weights.sha256[:16] in splade.identity


VOCABULARY = 12
ROW = st.dictionaries(st.integers(0, VOCABULARY - 1), st.floats(0.125, 4, width=16), max_size=6)


def terms_of(row: dict[int, float]) -> Terms:
    terms = np.array(sorted(row), dtype=np.int64)
    return Terms(terms, np.array([row[term] for term in sorted(row)], dtype=np.float32))


@given(rows=st.lists(ROW, max_size=8), query=ROW, data=st.data())
def test_dots_are_those_of_the_dense_vectors(
    rows: list[dict[int, float]], query: dict[int, float], data: st.DataObject
) -> None:
    wanted = data.draw(st.lists(st.sampled_from(range(len(rows))))) if rows else []
    store = sparse.stacked([(t, w.astype(np.float16)) for t, w in map(terms_of, rows)], VOCABULARY)
    found = sparse.dots(store, terms_of(query), np.array(wanted, dtype=np.int64))
    expected = [sum(query.get(t, 0.0) * w for t, w in rows[row].items()) for row in wanted]
    assert found.tolist() == pytest.approx(expected, abs=1e-5)


DIMENSION = 16


class Words:
    """Gives each word a vector of its own, the same wherever it stands; remembers its texts."""

    dimension = DIMENSION

    def __init__(self, identity: str = "words") -> None:
        self.identity = identity
        self.seen: list[str] = []
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.read(texts).pooled

    def read(self, texts: Sequence[str]) -> embedders.ModelPass:
        with self._lock:
            self.seen += texts
        tokens = tuple(
            np.array([word(one) for one in text.split()], dtype=np.float32).reshape(-1, DIMENSION)
            for text in texts
        )
        sums = np.array([one.sum(axis=0) for one in tokens]).reshape(-1, DIMENSION)
        return embedders.ModelPass(unit(sums), tokens)


def word(text: str) -> NDArray[np.float32]:
    """Draw a unit vector by the word's digest."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
    drawn = np.random.default_rng(seed).normal(size=(1, DIMENSION)).astype(np.float32)
    (found,) = unit(drawn)
    return np.asarray(found, dtype=np.float32)


TEXTS = ["a long one " * 40, "short", "", "short", "middle sized"]


def written(folder: Path, texts: Sequence[str], reader: Words) -> TokenStore:
    write_tokens(folder / "tokens", range(1, len(texts) + 1), texts, reader, folder / "cache")
    return TokenStore.open(folder / "tokens", reader.identity, DIMENSION)


def test_each_text_has_the_vectors_of_its_tokens(tmp_path: Path) -> None:
    reader, other = Words(), Words("other")
    for texts, words in ((TEXTS, reader), ([], Words()), (["short"], other)):
        store = written(tmp_path, texts, words)
        assert len(store.ids) == len(texts)
        for number, text in enumerate(texts, start=1):
            expected = Words().read([text]).tokens[0].astype(np.float16)
            assert np.array_equal(store.of(number), expected), text
    assert sorted(reader.seen) == sorted(set(TEXTS))
    assert other.seen == ["short"]


@pytest.fixture(scope="module")
def onnx() -> OnnxEmbedder:
    return OnnxEmbedder.load(model("all-MiniLM-L6-v2"), 32)


def test_the_models_tokens_are_those_that_its_pooled_vector_is_the_mean_of(
    onnx: OnnxEmbedder, tmp_path: Path
) -> None:
    texts = ["read_csv", "The soprano sings an aria while the orchestra plays.", ""]
    reading = onnx.read(texts)
    assert np.array_equal(reading.pooled, onnx.embed(texts))
    assert [len(one) for one in reading.tokens] == [6, 12, 2]
    for one, text in zip(reading.tokens, texts, strict=True):
        assert np.linalg.norm(one, axis=1) == pytest.approx(1, abs=1e-6)
        assert np.array_equal(one, onnx.read([text]).tokens[0])
    write_tokens(tmp_path / "file", [1, 2, 3], texts, onnx, tmp_path / "cache")
    store = TokenStore.open(tmp_path / "file", onnx.identity, onnx.dimension)
    assert np.array_equal(store.of(2), reading.tokens[1].astype(np.float16))


SAID = ["the moon", "salt water", "bread of salt and of water", "", "bees", "salt water"]
FALLING = [1.0, 0.8, 0.6, 0.4, 0.3, 0.2]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    return written(tmp_path_factory.mktemp("tokens"), SAID, Words())


def halves(words: Sequence[str]) -> Half:
    return np.array([word(one) for one in words]).reshape(-1, DIMENSION).astype(np.float16)


def plainly(query: Half, text: Half) -> float:
    """Compute the mean over the query's tokens of the best dot product, one by one."""
    asked, held = query.astype(np.float64), text.astype(np.float64)
    return sum(max(float(q @ t) for t in held) for q in asked) / len(asked)


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6),
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=9),
)
def test_maxsim_is_the_mean_of_the_best_cosines(query: list[str], text: list[str]) -> None:
    found = maxsim(halves(query), halves(text))
    assert found == pytest.approx(plainly(halves(query), halves(text)), abs=2e-6)
    assert maxsim(halves(query), halves(text[::-1])) == found
    if set(query) <= set(text):
        assert found == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("fused_weight", [0.0, 0.4, 1.0])
def test_the_blend_is_of_both_min_maxed_scores(store: TokenStore, fused_weight: float) -> None:
    found = rerank.LateInteraction(Words(), store.of, fused_weight).rerank(
        "salt water", [*range(1, 7)], FALLING
    )
    raw = [maxsim(halves(["salt", "water"]), halves(text.split())) for text in SAID]
    assert [one.raw_score for one in found] == raw
    ours = (np.array(raw) - min(raw)) / (max(raw) - min(raw))
    theirs = (np.array(FALLING) - 0.2) / 0.8
    blend = fused_weight * theirs + (1 - fused_weight) * ours
    assert [one.score for one in found] == pytest.approx(blend.tolist(), abs=1e-6)


def window(*scores: float) -> list[rerank.Reranked]:
    return [rerank.Reranked(score, -score) for score in scores]


def test_a_window_that_reaches_down_to_nothing_is_lifted_and_its_raw_scores_are_not() -> None:
    assert rerank.joined(window(0.9, 0.2), [0.5]) == (window(0.9, 0.2), [0.1])
    assert rerank.joined(window(0.9, 0.0), [])[0] == window(0.9, 0.0)
    assert rerank.joined([], [0.5])[1] == [0.5]
    lifted, below = rerank.joined(window(1.0, 0.5, 0.0), [0.5, 0.25])
    assert [one.score for one in lifted] == pytest.approx(
        [1.0, 0.5, rerank.LEAST], abs=rerank.LEAST
    )
    assert [one.raw_score for one in lifted] == [-1.0, -0.5, 0.0]
    assert below == pytest.approx((rerank.LEAST / 2, rerank.LEAST / 4))


PASSAGES = ["the moon", "salt water", "water salt bread", "bees", "", "a salt sea"]
QUERY = "salt water"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.write(tmp_path_factory.mktemp("model"))


def test_the_logit_is_the_models_own(folder: Path) -> None:
    found = CrossEncoder.load(folder, 32).logits(QUERY, PASSAGES)
    assert found.tolist() == [tiny_model.logit(QUERY, text) for text in PASSAGES]
    assert len(set(found.tolist())) == 3  # the model reads its texts
    short = CrossEncoder.load(folder, 12)
    assert len({*short.logits("salt", ["the " * 20, "the " * 20 + "salt"]).tolist()}) == 1
    assert len({*short.logits("salt", ["the", "the salt"]).tolist()}) == 2
    assert CrossEncoder.load(folder, 32).logits(QUERY, []).shape == (0,)


def test_the_score_is_the_sigmoid_of_the_logit(folder: Path) -> None:
    found = CrossEncoder.load(folder, 32).judge(QUERY, [PASSAGES[at] for at in (1, 0, 5)])
    assert [one.raw_score for one in found] == [1.0, -3.0, -1.0]
    by_hand = [1 / (1 + math.exp(-raw)) for raw in (1, -3, -1)]
    assert [one.score for one in found] == pytest.approx(by_hand)
    scores = rerank.sigmoid(np.array([-1e300, -745.0, -1.0, 0.0, 1.0, 745.0, 1e300]))
    assert (np.diff(scores) >= 0).all()
    assert (scores[0], scores[3], scores[-1]) == (0.0, 0.5, 1.0)


@given(st.lists(st.lists(st.sampled_from(WORDS[4:]), max_size=12), max_size=3 * rerank.BATCH))
def test_a_score_depends_on_the_pair_alone(folder: Path, written: list[list[str]]) -> None:
    texts = [" ".join(words) for words in written]
    model = CrossEncoder.load(folder, 64)
    found = model.logits(QUERY, texts)
    assert found.tolist() == [tiny_model.logit(QUERY, text) for text in texts]
    assert model.logits(QUERY, texts[::-1]).tolist() == found[::-1].tolist()


def test_an_absent_file_is_a_feature_unavailable(tmp_path: Path) -> None:
    (tiny_model.write(tmp_path / "model") / "model.onnx").unlink()
    for folder, missing in (("model", r"model\.onnx"), ("nowhere", "nowhere")):
        with pytest.raises(FeatureUnavailable, match=missing):
            CrossEncoder.load(tmp_path / folder, 32)


WEIGHTS = b"weights"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a package that carries a file; importing it would fail."""
    folder = tmp_path / "site" / "carrier_of_a_model"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('the code of a carrier was run')")
    (folder / "weights.bin").write_bytes(WEIGHTS)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    embedders._verified.cache_clear()  # noqa: SLF001  one carrier a test
    return folder


def pinned(inside: str = "weights.bin", sha256: str = "") -> ModelFile:
    wanted = sha256 or hashlib.sha256(WEIGHTS).hexdigest()
    return ModelFile("carrier_of_a_model", inside, wanted)


def test_the_pinned_file_is_found_and_no_code_is_run(package: Path) -> None:
    for wrong, why in (
        (pinned(sha256="0" * 64), "pinned is 0000"),
        (pinned("other.bin"), r"other\.bin"),
        (ModelFile("no_such_carrier", "weights.bin", "0" * 64), "no_such_carrier"),
    ):
        with pytest.raises(ModelNotReady, match=why):
            wrong.path()
    (package / "weights.bin").write_bytes(b"cut")
    with pytest.raises(ModelNotReady):
        pinned().path()
    (package / "weights.bin").write_bytes(WEIGHTS)
    assert pinned().path() == package / "weights.bin", "a failure is not remembered"


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
    assert embedders.fnv1a_64(data) == hashed


def test_a_word_lands_in_its_bucket_with_its_sign() -> None:
    up, down = HashEmbedder(10).embed(["a", "fo"])
    expected = np.zeros(10)
    expected[0xAF63DC4C8601EC8C % 10] = 1.0  # the highest bit of af... is set
    assert up.tolist() == expected.tolist()
    assert down[0x08985907B541D342 % 10] == -1.0  # that of 08... is not
    texts = ["salt", "", "a word with \ud800 half a pair", "東京"]
    embedder = HashEmbedder(64)
    together = embedder.embed(texts)
    assert (together.shape, together.dtype.name) == ((4, 64), "float32")
    alone = np.concatenate([embedder.embed([text]) for text in texts])
    assert np.array_equal(together, alone)


def test_a_batch_of_mixed_lengths_is_its_texts_bit_for_bit(onnx: OnnxEmbedder) -> None:
    long = "The soprano sings an aria while the orchestra plays softly in the pit. " * 6
    texts = ["water", "", "How do I read a file?", "Loading a CSV", long, "!?", "東京 😀"]
    alone = np.concatenate([onnx.embed([text]) for text in texts])
    assert np.array_equal(onnx.embed(texts), alone)
    assert np.array_equal(onnx.embed(texts[::-1]), alone[::-1])


def test_what_is_shipped_is_what_the_script_draws(tmp_path: Path) -> None:
    from benchmarks import eight_bits_graph

    eight_bits_graph.write(tmp_path)
    for shipped in (embedders.GRAPH, embedders.PLACES):
        assert (tmp_path / shipped.name).read_bytes() == shipped.read_bytes()
