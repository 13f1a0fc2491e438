"""``harness decompose``: parts that sum to the difference, on the screen and in a file."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from engines.stacks.text.blend import BlendSearcher
from harness.core.engine import Stage
from harness.corpus.runs import read_scores
from harness.corpus.trec import write_run
from harness.gates.base.rules import Rules
from harness.measures.decompose import Parts
from harness.pipeline.decompose import DecomposeRequest, decompose, kept
from harness.report.explorer_stages import blamed, losers, means, to_json
from tests.cli.conftest import Harness
from tests.make.toy import NAME, Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow
WORDS = ("decompose", "--control", "fts5", "--candidate", "hash-hybrid")
RULES = Rules(confidence=0.95, resamples=1_000, seed=5, power=0.8)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def test_every_query_is_in_the_file_and_its_parts_sum_to_its_difference(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    said = harness(*WORDS, "--dataset", NAME, "--out", tmp_path / "parts.csv", "--top", "3")
    assert said.code == 0, said
    scores = read_scores(project.layout.per_query, ["arm"])
    old, new = (scores[(arm,)]["nDCG@10"].by_query for arm in ("fts5", "hash-hybrid"))
    found = rows(tmp_path / "parts.csv")
    assert [row["query_id"] for row in found] == [q for q in old if q in new]
    parts = ("lexical_shown", "lexical_order", "fused_shown", "fused_order")
    for row in found:
        total = sum(float(row[part]) for part in parts)
        assert total == pytest.approx(new[row["query_id"]] - old[row["query_id"]], abs=1e-9)
        assert float(row["difference"]) == pytest.approx(total, abs=1e-9)
    assert any(float(row["fused_shown"]) or float(row["fused_order"]) for row in found)
    assert any(row["semantic_alone"] != row["candidate"] for row in found)
    (for_the_explorer,) = kept(project.layout)
    assert list(for_the_explorer.steps) == [row["query_id"] for row in found]


def test_the_screen_names_the_largest_losses_and_their_step(project: Toy, harness: Harness) -> None:
    assert project
    said = harness(*WORDS, "--dataset", NAME, "--measure", "nDCG@5", "--top", "2").out
    found = decompose(
        project.layout, DecomposeRequest("fts5", "hash-hybrid", "nDCG@5", 50), RULES, project.cache
    )
    worst = losers(found, 2)
    assert worst
    assert f"The {len(worst)} largest losses" in said
    for at in worst:
        by = blamed(found, at)
        assert f"{found.queries[at].query_id}: {by.step}, {by.part}" in said
    assert found.difference[worst[0]] == found.difference.min()
    assert "nDCG@5, hash-hybrid - fts5" in said


def test_json_has_means_that_sum_to_the_mean_and_slices_that_are_adjusted(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    assert project
    assert harness(*WORDS, "--dataset", NAME, "--out", tmp_path / "parts.json").code == 0
    found = json.loads((tmp_path / "parts.json").read_text(encoding="utf-8"))
    total = sum(step["shown"] + step["order"] for step in found["steps"])
    differences = [query["difference"] for query in found["queries"]]
    assert total == pytest.approx(np.mean(differences), abs=1e-9)
    assert [step["stage"] for step in found["steps"]] == ["lexical", "fused"]
    assert {one["slice"] for one in found["slices"]} > {"all"}
    assert [one["p_adjusted"] for one in found["slices"]] == sorted(
        one["p_adjusted"] for one in found["slices"]
    )


def test_an_arm_without_stages_and_an_imported_run_have_one_step(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    words = ("decompose", "--dataset", NAME, "--control", "fts5", "--candidate", "tantivy")
    assert harness(*words, "--out", tmp_path / "one.csv").code == 0
    assert {"answer_shown", "answer_order"} < set(rows(tmp_path / "one.csv")[0])
    from harness.corpus.runs import read_run

    write_run(tmp_path / "other.trec", read_run(project.layout.run("tantivy")))
    left = tmp_path / "left"
    run = ("run", "--dataset", NAME, "--arms", "fts5", "--control", "fts5", "--out", left)
    imported = ("--trec-run", f"other={tmp_path / 'other.trec'}", "--missing", "empty")
    assert harness(*run, *imported).code == 0
    said = harness(*WORDS[:-1], "other", "--from", left, "--out", tmp_path / "two.csv")
    assert said.code == 0, said
    assert rows(tmp_path / "two.csv") == rows(tmp_path / "one.csv")


def test_an_engine_of_ones_own_is_taken_apart_by_its_file(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    """A path was refused, so no run of such an engine could be taken apart."""
    own = project.root / "mine" / "own.toml"
    shutil.copytree(ROOT / "examples" / "own_engine", own.parent)
    run = ("run", "--dataset", NAME, "--arms", f"fts5,{own}", "--control", "fts5")
    assert harness(*run, "--out", tmp_path / "ran").code == 0
    words = ("decompose", "--control", "fts5", "--candidate", own, "--from", tmp_path / "ran")
    said = harness(*words, "--out", tmp_path / "own.csv")
    assert said.code == 0, said
    assert "own - fts5" in said.out
    difference = [float(row["difference"]) for row in rows(tmp_path / "own.csv")]
    assert f"mean of {len(difference)} queries" in said.out
    own.with_name("own.py").write_text("# changed\n" + own.with_name("own.py").read_text())
    assert "own" in harness(*words).error


def test_stages_that_are_not_of_this_answer_are_refused(
    project: Toy, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project
    monkeypatch.setattr(BlendSearcher, "stages", lambda *_: (Stage("fused", ()),))
    assert "is not what it showed" in harness(*WORDS, "--dataset", NAME).error


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--dataset", NAME, "--measure", "nDGC@10"), "no measure named 'nDGC@10'"),
        (("--dataset", NAME, "--out", "parts.xlsx"), "ends in .csv or .json"),
        (("--dataset", NAME, "--control", "dense"), "dense"),
    ],
)
def test_bad_input_is_two_and_says_what_to_do(
    project: Toy, harness: Harness, words: tuple[str, ...], why: str
) -> None:
    assert project
    assert why in harness(*WORDS, *words).error


def test_a_run_that_was_changed_is_refused(project: Toy, harness: Harness) -> None:
    path = project.layout.run("hash-hybrid")
    path.write_bytes(project.layout.run("fts5").read_bytes())
    assert "was changed since" in harness(*WORDS, "--dataset", NAME).error


def test_blame_falls_on_the_part_that_took_most(project: Toy) -> None:
    wanted = DecomposeRequest("fts5", "hash-hybrid", "nDCG@10", 50)
    found = decompose(project.layout, wanted, RULES, project.cache)
    for at in range(len(found.queries)):
        values = [
            (float(column[at]), name, part)
            for name, one in found.steps.items()
            for part, column in (("shown", one.shown), ("order", one.order))
        ]
        by = blamed(found, at)
        assert by.value == pytest.approx(min(values)[0], abs=1e-11)
    assert losers(found, 0) == ()
    assert means(found)[-1].both == pytest.approx(found.difference.mean(), abs=1e-12)
    assert isinstance(found.steps["fused"], Parts)
    assert to_json(found)["lost"] == {}
