"""The times of the stages: where they are taken, over which chunks, and what is said of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from benchmarks import documents_stages as stages
from benchmarks.documents_stages import BUDGET, Budget
from engines.stacks.documents.collection import Collection
from engines.stacks.documents.texts import Cutting
from harness.core.gate import Verdict
from harness.core.scores import Estimate
from tests.engines.documents.small import built, settings

SMALL = Budget(40, 95.0, 0.95, 200, 7, {"1 recall": 5.0})
CUTTING = Cutting(60, 10)


@pytest.fixture(scope="module")
def pro(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    folder = tmp_path_factory.mktemp("stages")
    with built(folder / "pro", settings(), folder) as opened:
        yield opened


def beir(folder: Path, texts: list[str]) -> Path:
    (folder / "qrels").mkdir(parents=True)
    ids = range(len(texts))
    rows = [json.dumps({"_id": f"d{n}", "title": "", "text": texts[n]}) for n in ids]
    asked = [json.dumps({"_id": f"q{n}", "text": f"{folder.name} question {n}"}) for n in ids]
    (folder / "corpus.jsonl").write_text("\n".join(rows))
    (folder / "queries.jsonl").write_text("\n".join(asked))
    judged = "".join(f"q{n}\td{n}\t1\n" for n in ids)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


def test_a_stage_lasts_from_the_one_before_to_its_own_end(pro: Collection) -> None:
    ticks = count()
    assert stages.one_search(pro, "water of the sea", lambda: next(ticks)) == {
        "1 recall": 1,
        "2 rank: E1": 1,
        "2 rank: E6": 1,
        "2 rank": 3,
        "3 rerank": 1,
        "free, answer and citations": 1,
        "pro, answer and citations": 1,
    }


def test_a_watched_search_answers_as_one_that_is_not(pro: Collection) -> None:
    watched = stages.watched(pro.pipeline, stages.Watch(lambda: 0)).rank("water of the sea")
    plain = pro.pipeline.rank("water of the sea")
    assert watched.rows.tolist() == plain.rows.tolist()
    assert watched.scores.tolist() == plain.scores.tolist()


def test_without_a_model_nothing_is_timed(pro: Collection) -> None:
    gone = pro.pipeline.models.__class__(None, None, None, ())
    lame = pro.pipeline.__class__(pro.pipeline.settings, pro.pipeline.recall, gone)
    with pytest.raises(SystemExit, match="models are missing"):
        stages.watched(lame, stages.Watch(lambda: 0))


def test_a_question_that_finds_nothing_has_no_times(pro: Collection) -> None:
    ticks = count()
    found = stages.timed(pro, ["water", "zzz", "sea"], 2, lambda: next(ticks), 1)
    assert {times.shape for times in found.values()} == {(2, 2)}
    assert stages.timed(pro, ["zzz"], 2, lambda: next(ticks), 1) == {}


def test_the_first_round_is_thrown_away(pro: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()
    monkeypatch.setattr(stages, "one_search", lambda *_: {"1 recall": next(calls)})
    found = stages.timed(pro, ["a", "b"], 2, lambda: 0, 1)["1 recall"]
    assert sorted(found.reshape(-1).tolist()) == [2, 3, 4, 5]


def test_chunks_come_from_documents_that_differ_until_there_are_enough(tmp_path: Path) -> None:
    one = beir(tmp_path / "one", ["Honey bees.", "The sea. " * 20, "Honey bees."])
    other = beir(tmp_path / "other", ["Honey bees.", "A hive.", "A board."])
    found = [source.document_id for source in stages.enough([one, other], CUTTING, 100)]
    names = [name.rpartition("-")[2] for name in found]
    assert names == ["one/d0", "one/d1", "other/d1", "other/d2"]
    assert len(list(stages.enough([one, other], CUTTING, 2))) == 2
    assert len(list(stages.enough([one], CUTTING, 1))) == 1


def test_questions_are_drawn_from_every_collection_alike(tmp_path: Path) -> None:
    folders = [beir(tmp_path / name, ["text"] * 9) for name in ("one", "other")]
    drawn = stages.drawn(folders, 6, 3)
    assert [text.split()[0] for text in drawn] == ["one"] * 3 + ["other"] * 3
    assert len(set(drawn)) == 6
    assert drawn == stages.drawn(folders, 6, 3)
    assert drawn != stages.drawn(folders, 6, 4)


@pytest.mark.parametrize(
    ("low", "high", "chunks", "verdict"),
    [
        (3.0, 4.9, 40, Verdict.PASS),
        (5.1, 9.0, 40, Verdict.FAIL),
        (4.9, 5.1, 40, Verdict.INCONCLUSIVE),
        (3.0, 4.0, 39, Verdict.INCONCLUSIVE),
    ],
)
def test_the_whole_interval_decides_and_too_few_chunks_decide_nothing(
    low: float, high: float, chunks: int, verdict: Verdict
) -> None:
    estimate = Estimate((low + high) / 2, low, high, 9)
    assert stages.verdict_of(estimate, 5.0, chunks, SMALL) is verdict


def test_the_table_shows_each_stage_beside_its_budget() -> None:
    times = np.full((80, 2), 2_000_000)
    texts = [f"text {n // 2}" for n in range(40)]
    rows = list(stages.table({"1 recall": times, "other": times}, texts, SMALL, "a clock"))
    assert "40 chunks, 20 different texts; 80 questions" in rows[0]
    assert "2 rounds; a clock" in rows[1]
    assert rows[-3] == "| 1 recall | 2.00 [2.00, 2.00] | 2.00 [2.00, 2.00] | 5 | PASS |"
    assert rows[-2] == "| other | 2.00 [2.00, 2.00] | 2.00 [2.00, 2.00] |  |  |"


def test_the_budget_is_that_of_the_specification(tmp_path: Path) -> None:
    given = Budget.read(BUDGET)
    assert given.chunks == 10_000
    assert list(given.budget_ms.values()) == [5.0, 80.0, 100.0, 100.0, 200.0]
    (tmp_path / "less.toml").write_text("chunks = 3")
    with pytest.raises(TypeError, match="budget_ms"):
        Budget.read(tmp_path / "less.toml")
