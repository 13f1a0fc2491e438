"""Guides run as they are written."""

import json
import re
import runpy
import shutil
import sys
import threading
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from typer.testing import CliRunner

import harness.gates
from harness.cli import application
from harness.core.errors import BadPolicy
from harness.core.gate import Finding, Verdict
from harness.core.records import Document
from harness.core.run import Run
from harness.corpus import judgements
from harness.corpus.beir import Beir
from harness.corpus.runs import read_run
from harness.gates.base import rules
from harness.policy.load import load_policy
from harness_engines import registry as arms
from tests.docs.pages import ROOT, page, pages
from tests.make import HEAD, gate_inputs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("read_once", "none_drawn")]
EXAMPLE = ROOT / "examples" / "http_engine"
OTHER = ROOT / "examples" / "other_engine"
GATE = "empty_answers"


def block(name: str, language: str) -> str:
    """Return the one block of a page that is written in this language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", page(name).text, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
def own_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the gate of the guide into the folder of rules, which is the registry."""
    (tmp_path / f"{GATE}.py").write_text(block("docs/how-to/own-gate.md", "python"), "utf-8")
    monkeypatch.setattr(harness.gates, "__path__", [*harness.gates.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, f"harness.gates.{GATE}", raising=False)
    return tmp_path


def judged(empty: int, count: int) -> Finding:
    """Judge a candidate that shows nothing for some of its queries, by the gate of the guide."""
    evidence = gate_inputs.evidence(count)
    rows = [
        row._replace(hits=()) if at < empty else row
        for at, row in enumerate(evidence.candidate.run.rows())
    ]
    side = gate_inputs.side("new", count)
    spoiled = type(side)(side.arm, side.manifest, Run.of("new", rows), side.scores)
    evidence = gate_inputs.evidence(count, candidate=spoiled)
    return gate_inputs.judge(GATE, evidence, max_share=0.02)


@pytest.mark.usefixtures("own_gate")
@pytest.mark.parametrize(
    ("empty", "count", "verdict"),
    [(0, 400, Verdict.PASS), (40, 400, Verdict.FAIL), (0, 50, Verdict.INCONCLUSIVE)],
)
def test_the_gate_of_the_guide_has_three_answers(empty: int, count: int, verdict: Verdict) -> None:
    finding = judged(empty, count)
    assert finding.verdict is verdict
    assert finding.rule == GATE
    assert bool(finding.remedy) is (verdict is Verdict.INCONCLUSIVE)


def test_a_policy_may_name_the_gate_of_the_guide(own_gate: Path) -> None:
    text = (ROOT / "policy" / "pairwise.toml").read_text("utf-8")
    path = own_gate / "mine.toml"
    path.write_text(f"{text}\n{block('docs/how-to/own-gate.md', 'toml')}", "utf-8")
    assert GATE in rules.names()
    assert load_policy(path).steps[0].gates[-1].rule == GATE


@pytest.mark.parametrize(
    "at", ["", f"harness.gates.{GATE}", f"harness.gates.{GATE}:EmptyAnswersSettings"]
)
def test_a_rule_whose_class_does_not_judge_is_refused(
    own_gate: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the folder of rules, or of another package."""
    text = block("docs/how-to/own-gate.md", "python").replace("(ShareSettings)", "(GateSettings)")
    head = "from harness.gates.base.rules import GateSettings\n"
    (own_gate / f"{GATE}.py").write_text(head + text, "utf-8")
    monkeypatch.setattr(rules, "_added", lambda: {"added": at} if at else {})
    policy = (ROOT / "policy" / "pairwise.toml").read_text("utf-8")
    gate = f'[[step.gate]]\nname = "Own"\nrule = "{"added" if at else GATE}"\nmax_share = 0.1\n'
    path = own_gate / "mine.toml"
    path.write_text(f"{policy}\n{gate}", "utf-8")
    with pytest.raises(BadPolicy, match=r"toml:\d+: no rule in one class, .*judge, .*Write"):
        load_policy(path)


def served(corpus: Path, example: Path = EXAMPLE) -> Iterator[Any]:
    made: dict[str, Any] = {"__name__": "server"}
    exec(compile((example / "server.py").read_text("utf-8"), "server.py", "exec"), made)  # noqa: S102  the example is a script
    with made["server"](corpus, 0) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


def typed(*words: str | Path) -> None:
    said = CliRunner().invoke(application(), [*map(str, words)])
    assert said.exit_code == 0, said.output


@pytest.mark.parametrize(
    "file", [EXAMPLE / "over_http.toml", EXAMPLE / "http.toml", OTHER / "bm25s.toml"]
)
def test_a_run_judges_a_server(tmp_path: Path, collection: Path, file: Path) -> None:
    """``docs/how-to/engine-elsewhere.md``: by a file alone, or by code of one's own."""
    path, out = tmp_path / file.name, tmp_path / "out"
    for listening in served(collection / "corpus.jsonl", file.parent):
        shutil.copy(EXAMPLE / "over_http.py", tmp_path)
        port = f":{listening.server_address[1]}"
        path.write_text(re.sub(r"(?<=0\.1):\d+", port, file.read_text("utf-8")), "utf-8")
        if file.stem != "over_http":
            typed("arm", "check", path, "--dataset", collection)
        arms = f"fts5,{path}"
        typed("run", "--dataset", collection, "--arms", arms, "--control", "fts5", "--out", out)
    decided = json.loads((out / "decision.json").read_text("utf-8"))
    (step,) = decided["datasets"][0]["steps"]
    assert step["candidate"] == file.stem
    assert file.stem in decided["datasets"][0]["evidence"]["unprobed"]


TEMPLATE = ROOT / "harness" / "pipeline" / "template"
LONG = "Alpha. " + "So it goes on. " * 20 + "omega"


def changed(at: int) -> str:
    """Return the engine of ``harness init`` with the line that a step of the tutorial writes."""
    lines = re.findall(r"^```python\n(.*)\n```", page("docs/tutorial.md").text, re.MULTILINE)
    engine = (TEMPLATE / "engine.py").read_text("utf-8")
    (old,) = get_close_matches(lines[at], engine.splitlines(), n=1, cutoff=0.8)
    assert old != lines[at]
    return engine.replace(old, lines[at])


def found_by(source: str, folder: Path, text: str) -> list[str]:
    """Ask an engine of this source, over two documents."""
    documents = (Document("a", "", "a params.yaml and a read_csv"), Document("b", "", LONG))
    rows = [{"_id": one.doc_id, "title": one.title, "text": one.text} for one in documents]
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (folder / "engine.py").write_text(source, "utf-8")
    engine = arms.load(f"{folder / 'engine.py'}:search", folder).engine
    engine.build(documents, folder / "index")
    with engine.open(folder / "index") as searcher:
        return [hit.doc_id for hit in searcher.search(text, 10).hits]


@pytest.mark.parametrize(
    ("at", "text", "found"), [(0, "csv", ["a"]), (1, "omega", []), (1, "alpha", ["b"])]
)
def test_a_step_of_the_tutorial_changes_the_engine_so(
    at: int, text: str, found: list[str], tmp_path: Path
) -> None:
    assert found_by(changed(at), tmp_path, text) == found


def test_a_folder_of_texts_becomes_a_collection(tmp_path: Path) -> None:
    folder, to = tmp_path / "texts", tmp_path / "to"
    (folder / "in a").mkdir(parents=True)
    (folder / "one.md").write_text(
        "# One page\nabout cones\n\n```\n# no heading\n```\n## What is it?\nIt is blue.\n", "utf-8"
    )
    (folder / "in a" / "two.txt").write_text("Nothing but words.", "utf-8")
    (folder / "in a" / "two.md").write_text("As many words.", "utf-8")
    script = str(ROOT / "examples" / "folder_corpus.py")
    with mock.patch.object(sys, "argv", [script, str(folder), str(to)]):
        runpy.run_path(script, run_name="__main__")
    made = Beir(to, "test")
    documents = {one.doc_id: one.text for one in made.documents()}
    assert set(documents) == {"in%20a/two", "in%20a/two.txt", "one.0", "one.1"}
    assert "no heading" in documents["one.0"]
    assert [query.text for query in made.queries()] == ["One page", "What is it?"]
    for query in made.queries():
        ((doc_id, grade),) = made.qrels().grades[query.query_id].items()
        assert grade == 1
        assert query.text not in documents[doc_id]


def test_every_guide_is_in_the_index() -> None:
    index = {link.partition("#")[0] for link in page("docs/README.md").links()}
    for guide in pages():
        if guide.name.startswith("docs/") and guide.name != "docs/README.md":
            name = guide.name.removeprefix("docs/")
            inside = {"decisions/README.md"} if name.startswith("decisions/") else {name}
            assert index & inside, f"docs/README.md does not lead to {guide.name}"


def test_a_run_with_it_is_judged_against_the_control(run: Path) -> None:
    step = json.loads((run / "decision.json").read_text("utf-8"))["datasets"][0]["steps"][0]
    scores: dict[str, Any] = json.loads((run / "scores.json").read_text("utf-8"))
    assert (step["control"], step["candidate"]) == ("fts5", "own")
    assert scores["own"]["nDCG@10"]["queries"] == 40
    assert scores["own"]["nDCG@10"]["mean"] == pytest.approx(0.8)
    assert step["outcome"] == "hold"
    assert read_run(run / "runs" / "own.parquet").ranking("q-blue-cone", 1) == ("blue-cone",)


SCRIPT = ROOT / "examples" / "from_a_log" / "judge.py"
QUERIES = ("red shoes", "boots", "a hat")
PAIR = judgements.JudgingPair(
    query_id="", doc_id="", query="", title="", snippet="", narrows=1.0, scale=(0, 1)
)


def test_a_query_that_is_not_judged_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a pool of three queries two are judged, in two files."""
    pairs = [
        PAIR.model_copy(update={"query_id": f"q{at}", "doc_id": f"d{doc}", "query": text})
        for at, text in enumerate(QUERIES)
        for doc in range(2)
    ]
    pool, queries = tmp_path / "first.qrels", tmp_path / "queries.jsonl"
    judgements.begin(pool, judgements.Pool(tuple(pairs), (None,) * len(pairs)))
    rows = ({"_id": f"k{at}", "text": text.title()} for at, text in enumerate(QUERIES))
    queries.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    words = [str(SCRIPT), str(pool), "--queries", str(queries), "--qrels"]
    for name, row in (("dev", "k0\td1\t2"), ("train", "k1\td0\t1")):
        (tmp_path / f"{name}.tsv").write_text(f"{HEAD}{row}\n")
        words.append(str(tmp_path / f"{name}.tsv"))
    monkeypatch.setattr(sys, "argv", words)
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert judgements.read_pool(pool).grades == (0, 1, 1, 0, None, None)
    assert "4 of 6 pairs are judged" in capsys.readouterr().out
