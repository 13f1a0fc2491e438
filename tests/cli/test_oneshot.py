"""``harness run``: arms and data of one's own, in one go."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Harness
from tests.make.toy import GATES, HEAD, STEP, Toy

pytestmark = pytest.mark.slow
RUN = ("run", "--arms", "fts5, tantivy", "--out", "out")


@pytest.mark.parametrize("dataset", ["toy", "beir"])
def test_a_data_set_by_name_or_by_folder(project: Toy, harness: Harness, dataset: str) -> None:
    said = harness(*RUN, "--dataset", dataset, "--control", "fts5", "--exit-code")
    assert said.code == 0
    assert f"\n{dataset}\n  tantivy    PROMOTE  fts5 -> tantivy\n" in said.out
    assert "The page: out/index.html" in said.out
    assert "indexing fts5 ..." in said.err
    scores = json.loads((project.root / "out" / "scores.json").read_text())
    expected = json.loads(project.layout.scores.read_text())
    assert scores == {arm: expected[arm] for arm in ("fts5", "tantivy")}


def test_the_report_names_the_command(project: Toy, harness: Harness) -> None:
    harness(*RUN, "--dataset", "toy", "--control", "fts5")
    (about,) = json.loads((project.root / "out" / "decision.json").read_text())["datasets"]
    assert about["provenance"]["commands"] == [
        "harness run --arms 'fts5, tantivy' --out out --dataset toy --control fts5"
    ]
    assert about["provenance"]["licence"] == "CC0-1.0"


def test_a_race_is_run_where_it_is_asked_for(project: Toy, harness: Harness) -> None:
    harness(*RUN, "--dataset", "toy", "--control", "fts5", "--race")
    (about,) = json.loads((project.root / "out" / "decision.json").read_text())["datasets"]
    assert set(about["latency"]["percentiles"]) == {"fts5", "tantivy"}


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--exit-code",), 1)])
def test_the_verdict_is_an_exit_code_where_it_is_asked_for(
    project: Toy, harness: Harness, words: tuple[str, ...], code: int
) -> None:
    (project.root / "strict.toml").write_text(
        HEAD + STEP + GATES.replace("floor = 0.6", "floor = 0.999")
    )
    chosen = ("--dataset", "toy", "--control", "fts5", "--policy", "strict.toml")
    assert harness(*RUN, *chosen, *words).code == code


def test_without_a_control_there_is_a_leaderboard(project: Toy, harness: Harness) -> None:
    said = harness(*RUN, "--dataset", "toy", "--exit-code")
    assert said.code == 0
    assert "nDCG@10" in said.out
    assert not (project.root / "out" / "decision.json").exists()


def test_a_policy_of_steps_needs_neither_control_nor_arms(project: Toy, harness: Harness) -> None:
    (project.root / "mine.toml").write_text(HEAD + STEP + GATES)
    chosen = ("--dataset", "toy", "--policy", "mine.toml", "--out", "out")
    said = harness("run", *chosen, "--until", "tantivy", "--exit-code")
    assert said.code == 0
    assert "\ntoy\n  tantivy    PROMOTE  fts5 -> tantivy\n" in said.out
    assert (project.root / "out" / "runs" / "tantivy.trec").is_file()


def test_both_a_control_and_a_policy_of_steps_are_one_too_many(
    project: Toy, harness: Harness
) -> None:
    two = (project.root / "policy" / "toy.toml").read_text()
    (project.root / "two.toml").write_text(two + STEP.replace('"tantivy"', '"again"', 1) + GATES)
    said = harness(*RUN, "--dataset", "toy", "--control", "fts5", "--policy", "two.toml")
    assert "has 2 steps, which name their own arms: leave --control out" in said.error


def test_a_page_says_what_was_searched(project: Toy, harness: Harness) -> None:
    chosen = ("--dataset", "beir", "--fields", "text", "--forms", "--control", "fts5")
    assert harness(*RUN, *chosen).code == 0
    (about,) = json.loads((project.root / "out" / "decision.json").read_text())["datasets"]
    assert about["provenance"]["fields"] == ["text"]
    assert {"form-natural-language", "identifier"} < set(about["quality"]["slices"])
    assert (
        '<bdi>searched in</bdi></th><td data-label="value"><bdi>text</bdi>'
        in (project.root / "out" / "index.html").read_text()
    )
    corpus = project.root / "out" / "work" / "build" / "beir" / "data" / "corpus.jsonl"
    assert {json.loads(line)["title"] for line in corpus.read_text().splitlines()} == {""}


@pytest.mark.parametrize("words", [("--fields", "text"), ("--forms",)])
def test_a_registered_set_is_taken_as_its_card_says(
    harness: Harness, words: tuple[str, ...]
) -> None:
    said = harness(*RUN, "--dataset", "toy", *words)
    assert "toy: --fields and --forms are for folders" in said.error


def test_an_unknown_field_is_named(harness: Harness) -> None:
    said = harness(*RUN, "--dataset", "beir", "--fields", "body")
    assert "no field of a document named 'body'; there is title, text" in said.error


@pytest.mark.parametrize("name", ["cache", "perf"])
def test_a_data_set_may_have_any_name(project: Toy, harness: Harness, name: str) -> None:
    folder = project.root / "mine" / name
    folder.parent.mkdir()
    (project.root / "beir").rename(folder)
    assert harness(*RUN, "--dataset", folder).code == 0
    work = project.root / "out" / "work"
    assert {path.name for path in work.iterdir()} == {"build", "cache", "perf"}


def test_a_run_of_another_engine_with_no_number_is_refused(project: Toy, harness: Harness) -> None:
    (project.root / "x.trec").write_text("q00 Q0 d00 1 1.5 x\nq00 Q0 d01 2 nan x\n")
    said = harness(*RUN, "--dataset", "toy", "--trec-run", "x=x.trec", "--control", "fts5")
    assert "x.trec:2: the score 'nan' is not a finite number" in said.error
    assert not (project.root / "out" / "decision.json").exists()


def test_an_unknown_split_is_named(harness: Harness) -> None:
    assert "dev.tsv" in harness(*RUN, "--dataset", "beir", "--split", "dev").error
