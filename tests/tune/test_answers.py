"""A last step that is repeated gives what a search under the same settings gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.records import Scalar
from harness.corpus.prepared import Prepared
from harness.tune.stage import Answers, Collection, before_last_step, settings_of
from harness_engines import registry
from tests.make.toy import Toy

WORDS = 'bm25_over = "document", title_weight = 2.0, text_weight = 1.0, joined = "both"'
HYBRID = f"""\
summary = "x"
stack = "hybrid"
[settings]
rrf_k = 60
depth = 20
[settings.legs.lexical]
stack = "tantivy"
weight = 1.0
settings = {{language = "none", {WORDS}}}
[settings.legs.semantic]
stack = "dense"
weight = 1.0
settings = {{embedder = "hash", max_tokens = 64}}
"""
BLEND = f"""\
summary = "x"
stack = "blend"
[settings]
depth = 20
vector_share = 0.7
name_share = 0.2
words = {{language = "english", {WORDS}}}
names = {{language = "none", {WORDS}}}
vectors = {{embedder = "hash", max_tokens = 64}}
"""
OTHERS: dict[str, tuple[dict[str, Scalar], ...]] = {
    "hybrid": ({"rrf_k": 1}, {"rrf_k": 60, "legs.lexical.weight": 3.0}),
    "blend": ({"vector_share": 0.1}, {"vector_share": 0.9, "name_share": 1.0}),
}


@pytest.fixture
def collection(project: Toy) -> Collection:
    data = Prepared.open(project.layout.data)
    return Collection(data, data.queries(), data.qrels())


@pytest.mark.parametrize(("stack", "text"), [("hybrid", HYBRID), ("blend", BLEND)])
def test_one_index_answers_for_all_candidates_of_a_last_step(
    collection: Collection, tmp_path: Path, stack: str, text: str
) -> None:
    (tmp_path / "x.toml").write_text(text)
    path = str(tmp_path / "x.toml")
    arms = [registry.load(path, tmp_path, one) for one in (None, *OTHERS[stack])]
    answers = Answers(arms, 10, 10.0, tmp_path / "index", "code")
    shown = []
    for at, arm in enumerate(arms):
        found = [row.hits for row in answers.of(at, collection, collection.queries)]
        index = tmp_path / f"alone{at}"
        index.mkdir()
        arm.build(collection.data.documents(), index)
        with arm.open(index) as alone:
            assert found == [alone.search(query.text, 10).hits for query in collection.queries]
        shown.append(found)
    assert shown[0] != shown[1] != shown[2]
    assert len(list((tmp_path / "index").iterdir())) == 1
    deeper = registry.load(path, tmp_path, {"depth": 15})
    assert before_last_step(deeper) != before_last_step(arms[0]) == before_last_step(arms[2])
    assert settings_of(deeper.settings)["depth"] == 15
