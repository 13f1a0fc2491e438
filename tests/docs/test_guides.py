"""Guides run as they are written."""

from __future__ import annotations

import json
import math
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

import httpx
import pytest
from typer.testing import CliRunner

import harness.gates
from harness.cli import application
from harness.core.engine import Answer, Engine
from harness.core.errors import BadPolicy, IndexNotReady
from harness.core.gate import Finding, Verdict
from harness.core.records import Document
from harness.core.run import Run, Status
from harness.corpus.beir import Beir
from harness.corpus.runs import read_run
from harness.gates.base import rules
from harness.policy.load import load_policy
from harness_engines import registry as arms
from tests.docs.conftest import OWN
from tests.docs.pages import ROOT, page, pages
from tests.make import gate_inputs

EXAMPLE = ROOT / "examples" / "http_engine"
GATE = "empty_answers"
DOCUMENTS = (Document("a", "", "red cone"), Document("b", "cone", "blue"), Document("c", "", "x"))


def block(name: str, language: str) -> str:
    """Give the one block of a page that is written in this language."""
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


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
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


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
@pytest.mark.usefixtures("own_gate")
def test_the_gate_of_the_guide_does_not_count_failures_as_empty() -> None:
    lost = dict.fromkeys(gate_inputs.ids(40), Status.FAILED)
    side = gate_inputs.side("new", 400)
    failed = type(side)(
        side.arm, side.manifest, gate_inputs.run("new", gate_inputs.ids(400), lost), side.scores
    )
    found = gate_inputs.judge(GATE, gate_inputs.evidence(400, candidate=failed), max_share=0.02)
    assert found.verdict is Verdict.PASS


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
def test_a_policy_may_name_the_gate_of_the_guide(own_gate: Path) -> None:
    text = (ROOT / "policy" / "pairwise.toml").read_text("utf-8")
    path = own_gate / "mine.toml"
    path.write_text(f"{text}\n{block('docs/how-to/own-gate.md', 'toml')}", "utf-8")
    assert GATE in rules.names()
    assert load_policy(path).steps[0].gates[-1].rule.name == GATE


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Any]:
    """Start the toy server over a small corpus, on a port of its own."""
    corpus = tmp_path / "corpus.jsonl"
    rows = ({"_id": d.doc_id, "title": d.title, "text": d.text} for d in DOCUMENTS)
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    yield from served(corpus)


def served(corpus: Path) -> Iterator[Any]:
    toy = arms.load(str(EXAMPLE / "over_http.toml"), corpus.parent)
    assert toy.summary
    made: dict[str, Any] = {"__name__": "server"}
    exec(compile((EXAMPLE / "server.py").read_text("utf-8"), "server.py", "exec"), made)  # noqa: S102  the example is a script
    with made["server"](corpus, 0) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


def arm(folder: Path, port: int) -> Path:
    """Copy the arm of the example, and point it at another port."""
    shutil.copy(EXAMPLE / "over_http.py", folder)
    text = (EXAMPLE / "over_http.toml").read_text("utf-8")
    path = folder / "over_http.toml"
    path.write_text(re.sub(r":\d+", f":{port}", text), "utf-8")
    return path


def engine(folder: Path, serving: Any) -> Engine:  # noqa: ANN401  of a class made by a script
    return arms.load(str(arm(folder, serving.server_address[1])), folder).engine


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
def test_the_http_arm_keeps_the_servers_order(tmp_path: Path, serving: Any) -> None:  # noqa: ANN401  as above
    over = engine(tmp_path, serving)
    index = tmp_path / "index"
    index.mkdir()
    made = over.build(DOCUMENTS, index)
    assert made.documents == len(DOCUMENTS)
    with over.open(index) as searcher:
        found = searcher.search("a blue CONE & more", 10)
        assert [hit.doc_id for hit in found.hits] == ["b", "a"]
        assert [hit.score for hit in found.hits] == [1.0, 0.5]
        assert found.served_by == made.fingerprint
        assert searcher.search("cone", 1).hits[0].doc_id == "a"
        assert searcher.search("nothing of that", 10).hits == ()


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
def test_another_version_of_the_server_is_another_engine(tmp_path: Path, serving: Any) -> None:  # noqa: ANN401  as above
    over = engine(tmp_path, serving)
    index = tmp_path / "index"
    index.mkdir()
    made = over.build(DOCUMENTS, index)
    with over.open(index) as searcher:
        serving.RequestHandlerClass.version = "tomorrow"
        assert searcher.search("cone", 10).served_by != made.fingerprint
    with pytest.raises(IndexNotReady, match="tomorrow"), over.open(index):
        pass


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
def test_a_server_that_fails_gives_no_empty_answer(tmp_path: Path, serving: Any) -> None:  # noqa: ANN401  as above
    over = engine(tmp_path, serving)
    index = tmp_path / "index"
    index.mkdir()
    over.build(DOCUMENTS, index)
    with over.open(index) as searcher:
        serving.RequestHandlerClass.do_GET = lambda self: self.send_error(500)
        with pytest.raises(httpx.HTTPStatusError):
            searcher.search("cone", 10)


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    over = arms.load(str(arm(tmp_path, 9)), tmp_path).engine
    with pytest.raises(IndexNotReady, match=r"127\.0\.0\.1:9: .*Start the server"):
        over.build(DOCUMENTS, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
def test_a_run_judges_a_server(tmp_path: Path, collection: Path) -> None:
    """``docs/how-to/engine-elsewhere.md``: words alone, without weights, lose against fts5."""
    for listening in served(collection / "corpus.jsonl"):
        path = arm(tmp_path, listening.server_address[1])
        words = ["run", "--dataset", str(collection), "--arms", f"fts5,{path}"]
        words += ["--control", "fts5", "--out", str(tmp_path / "out")]
        said = CliRunner().invoke(application(), words)
        assert said.exit_code == 0, said.output
    decided = json.loads((tmp_path / "out" / "decision.json").read_text("utf-8"))
    (step,) = decided["datasets"][0]["steps"]
    assert step["candidate"] == "over_http"
    assert "over_http" in decided["datasets"][0]["evidence"]["unprobed"]


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
def test_a_server_is_judged_by_its_file(tmp_path: Path, collection: Path) -> None:
    for listening in served(collection / "corpus.jsonl"):
        text = (EXAMPLE / "http.toml").read_text("utf-8")
        path = tmp_path / "http.toml"
        path.write_text(re.sub(r":\d+/", f":{listening.server_address[1]}/", text), "utf-8")
        words = ["arm", "check", str(path), "--dataset", str(collection)]
        said = CliRunner().invoke(application(), words)
        assert said.exit_code == 0, said.output
        words = ["run", "--dataset", str(collection), "--arms", f"fts5,{path}"]
        words += ["--control", "fts5", "--out", str(tmp_path / "out")]
        said = CliRunner().invoke(application(), words)
        assert said.exit_code == 0, said.output


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
def test_messages_that_a_guide_explains_are_messages_of_the_code() -> None:
    """Words in backticks of the first column; numbers and dots stand for anything."""
    sources = [path for name in ("harness", "engines") for path in (ROOT / name).rglob("*.py")]
    joined = "\n".join(path.read_text("utf-8") for path in sources)
    code = re.sub(r'"\s*\n\s*f?"', "", joined)
    for said in page("docs/how-to/own-engine.md").keys("When it does not work"):
        for part in re.split(r"\d+|\.\.\.", said):
            assert part.strip() in code, said


TEMPLATE = ROOT / "harness" / "pipeline" / "template"
LONG = "Alpha. " + "So it goes on. " * 20 + "omega"


def changed(at: int) -> str:
    """Give the engine of ``harness init`` with the line that a step of the tutorial writes."""
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


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
@pytest.mark.parametrize(
    ("at", "text", "found"), [(0, "csv", ["a"]), (1, "omega", []), (1, "alpha", ["b"])]
)
def test_a_step_of_the_tutorial_changes_the_engine_so(
    at: int, text: str, found: list[str], tmp_path: Path
) -> None:
    assert found_by(changed(at), tmp_path, text) == found


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
def test_the_engine_of_the_tutorial_begins_without_them(tmp_path: Path) -> None:
    source = (TEMPLATE / "engine.py").read_text("utf-8")
    assert found_by(source, tmp_path, "csv") == []
    assert found_by(source, tmp_path / "again", "omega") == ["b"]


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
def test_the_bound_of_the_tutorial_is_another_one_than_before() -> None:
    (after,) = re.findall(r"^margin = ([\d.]+)", block("docs/tutorial.md", "toml"), re.MULTILINE)
    gates = load_policy(TEMPLATE / "policy" / "pairwise.toml").steps[0].gates
    before = {gate.settings.limit for gate in gates if gate.rule.name == "non_inferior"}
    assert {abs(limit or 0) for limit in before} == {0.02}
    assert "less than 0.02" in page("docs/tutorial.md").text
    assert float(after) > max(abs(limit or 0) for limit in before)


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
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


@pytest.mark.slow
@pytest.mark.usefixtures("read_once", "none_drawn")
def test_every_guide_is_in_the_index() -> None:
    index = {link.partition("#")[0] for link in page("docs/README.md").links()}
    for guide in pages():
        if guide.name.startswith("docs/") and guide.name != "docs/README.md":
            name = guide.name.removeprefix("docs/")
            inside = {"decisions/README.md"} if name.startswith("decisions/") else {name}
            assert index & inside, f"docs/README.md does not lead to {guide.name}"


DOCUMENTS_OWN_ENGINE = (
    Document("b", "", "read csv"),
    Document("a", "", "read csv"),
    Document("c", "table", "read_csv reads a table"),
)


def arm_own_engine(folder: Path, **settings: str) -> Engine:
    """Copy the example and change settings of its TOML file."""
    for file in (ROOT / OWN).parent.glob("own.*"):
        shutil.copy(file, folder)
    file = folder / "own.toml"
    lines = file.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line.split(" = ")[0] not in settings]
    changed = [f"{key} = {value}" for key, value in settings.items()]
    file.write_text("\n".join([*kept, *changed]) + "\n", encoding="utf-8")
    return arms.load(str(file), folder).engine


def ask(folder: Path, text: str, k: int = 10, **settings: str) -> Answer:
    engine = arm_own_engine(folder, **settings)
    index = folder / "index"
    index.mkdir()
    engine.build(DOCUMENTS_OWN_ENGINE, index)
    with engine.open(index) as searcher:
        return searcher.search(text, k)


def test_equal_scores_go_by_id_also_where_the_list_is_cut(tmp_path: Path) -> None:
    assert [hit.doc_id for hit in ask(tmp_path, "read csv", k=1).hits] == ["a"]


def test_the_score_is_bm25(tmp_path: Path) -> None:
    """``table`` stands once in the text and once, counted twice, in the title of one of three."""
    (hit,) = ask(tmp_path, "table").hits
    norm = 1.2 * (1 - 0.75 + 0.75 * 6 / ((2 + 2 + 6) / 3))
    assert hit.doc_id == "c"
    assert hit.raw_score == pytest.approx(math.log(1 + 2.5 / 1.5) * 3 * 2.2 / (3 + norm))
    assert hit.score == 1.0


@pytest.mark.parametrize(("joined", "found"), [('"whole"', ["c"]), ('"split"', ["a", "b", "c"])])
def test_a_joined_word_is_one_or_two(tmp_path: Path, joined: str, found: list[str]) -> None:
    assert sorted(hit.doc_id for hit in ask(tmp_path, "read_csv", joined=joined).hits) == found


def test_each_answer_names_who_answered(tmp_path: Path) -> None:
    engine = arm_own_engine(tmp_path)
    index = tmp_path / "index"
    index.mkdir()
    made = engine.build(DOCUMENTS_OWN_ENGINE, index)
    with engine.open(index) as searcher:
        assert searcher.manifest == made
        assert searcher.search("nothing of that", 10) == Answer((), made.fingerprint)


def test_another_setting_is_another_engine(tmp_path: Path) -> None:
    prints: set[str] = set()
    for name, joined in (("one", '"whole"'), ("two", '"split"')):
        folder = tmp_path / name
        folder.mkdir()
        prints.add(ask(folder, "table", joined=joined).served_by)
    assert len(prints) == 2


def test_a_broken_index_is_refused(tmp_path: Path) -> None:
    ask(tmp_path, "table")
    (tmp_path / "index" / "postings.json").write_text("{", encoding="utf-8")
    with pytest.raises(IndexNotReady), arm_own_engine(tmp_path).open(tmp_path / "index"):
        pass


def test_an_index_of_other_settings_is_refused(tmp_path: Path) -> None:
    ask(tmp_path, "table")
    changed = arm_own_engine(tmp_path, joined='"split"')
    with pytest.raises(IndexNotReady, match="settings"), changed.open(tmp_path / "index"):
        pass


def test_an_unknown_setting_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match=r"own\.toml:8: settings\.k2"):
        arm_own_engine(tmp_path, k2="1")


@pytest.mark.slow
def test_a_run_with_it_is_judged_against_the_control(run: Path) -> None:
    step = json.loads((run / "decision.json").read_text("utf-8"))["datasets"][0]["steps"][0]
    scores: dict[str, Any] = json.loads((run / "scores.json").read_text("utf-8"))
    assert (step["control"], step["candidate"]) == ("fts5", "own")
    assert scores["own"]["nDCG@10"]["queries"] == 40
    assert scores["own"]["nDCG@10"]["mean"] == pytest.approx(0.8)
    assert step["outcome"] == "hold"
    assert read_run(run / "runs" / "own.parquet").ranking("q-blue-cone", 1) == ("blue-cone",)
