"""Input that is wrong, missing, or hostile ends in one line and exit code 2."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.api.data import load_run
from harness.core.engine import Hit
from harness.core.errors import BadFile, BadName, HarnessError, RunError
from harness.core.run import Row, Run, Status
from harness.corpus import trec
from harness.corpus.runs import read_run
from harness.pipeline.layout import Layout
from harness.shadow.http import check_address
from harness_engines.stacks.text.fts5 import FILE
from tests.cli.conftest import Harness
from tests.cli.offline import can_forbid
from tests.make.damage import NAMES as NAMES_OF_SECRETS
from tests.make.damage import PLANTED, holding
from tests.make.decisions import of_gate
from tests.make.toy import GATES, HEAD, PARAMS, STEP, Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow

Spoil = Callable[[Path], object]


def put(name: str, text: str) -> Spoil:
    return lambda folder: (folder / name).write_text(text)


def add(name: str, text: str) -> Spoil:
    return lambda folder: (folder / name).write_text((folder / name).read_text() + text)


TSV = "query-id\tcorpus-id\tscore\n"


FOLDERS = [
    (add("corpus.jsonl", '{"_id": "x", \n'), r"corpus\.jsonl:61: "),
    (add("corpus.jsonl", "[1]\n"), r"corpus\.jsonl:61: "),
    (add("corpus.jsonl", '{"title": "no id", "text": "a"}\n'), r"corpus\.jsonl:61: .*_id"),
    (
        add("corpus.jsonl", '{"_id": "d00", "text": "again"}\n'),
        r"jsonl:61: the id 'd00' is on line",
    ),
    (add("corpus.jsonl", '{"_id": "d x", "text": "a"}\n'), r"corpus\.jsonl:61: .*white space"),
    (put("corpus.jsonl", ""), r"corpus\.jsonl.*(empty|no document)"),
    (lambda folder: (folder / "corpus.jsonl").unlink(), r"corpus\.jsonl: missing file"),
    (
        lambda folder: (folder / "corpus.jsonl").write_bytes(b"\xff\xfe"),
        r"corpus\.jsonl:1: .*UTF-8",
    ),
    (put("queries.jsonl", ""), r"(queries\.jsonl|none of the 0 queries)"),
    (add("queries.jsonl", '{"_id": "q00", "text": "twice"}\n'), r"queries\.jsonl:42: .*q00"),
    (add("queries.jsonl", "{\n"), r"queries\.jsonl:42: "),
    (put("qrels/test.tsv", TSV), r"test\.tsv: it holds no judgement"),
    (put("qrels/test.tsv", TSV + "q00\td00\n"), r"test\.tsv:2: the line has 2 columns, not 3"),
    (put("qrels/test.tsv", TSV + "q00\td00\tgood\n"), r"test\.tsv:2: the grade 'good'"),
    (put("qrels/test.tsv", TSV + "q00\td00\t0.5\n"), r"test\.tsv:2: the grade '0\.5'"),
    (put("qrels/test.tsv", TSV + "q00\td00\t1\nq00\td00\t2\n"), r"test\.tsv:3: .* on line 2"),
    (put("qrels/test.tsv", TSV + "zzz\td00\t1\n"), "none of the 41 queries is judged"),
]


@pytest.mark.parametrize(("spoil", "says"), FOLDERS)
@pytest.mark.parametrize("command", ["run", "import"])
def test_a_folder_that_is_malformed(
    project: Toy, harness: Harness, command: str, spoil: Spoil, says: str
) -> None:
    folder = project.root / "beir"
    spoil(folder)
    words = {
        "run": ("run", "--dataset", folder, "--arms", "fts5", "--out", "out"),
        "import": ("import", "beir", folder, "--name", "other"),
    }[command]
    assert re.search(says, harness(*words).error)
    assert not (project.root / "datasets" / "other").exists()
    assert not (project.root / "out" / "scores.json").exists()


@pytest.mark.parametrize("line", ["q00\tnone\t1\n", "none\td00\t1\n"])
def test_judgements_of_what_does_not_exist(project: Toy, harness: Harness, line: str) -> None:
    add("qrels/test.tsv", line)(project.root / "beir")
    said = harness("import", "beir", "beir", "--name", "other").error
    assert re.search(r"name 1 (document|query) not in the .*: none", said)
    assert "--allow-dangling" in said
    assert harness("import", "beir", "beir", "--name", "other", "--allow-dangling").code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("stage", "index", "--dataset", "toy", "--arm", "fts4"),
            "no arm named 'fts4'; there is code-",
        ),
        (
            ("stage", "index", "--dataset", "toys", "--arm", "fts5"),
            "no dataset named 'toys'; there is toy",
        ),
        (("gate", "--step", "hybird"), "no step named 'hybird'; there is tantivy"),
        (("run", "--dataset", "nope", "--arms", "fts5", "--out", "o"), "no dataset named 'nope'"),
        (("run", "--dataset", "toy", "--arms", "x", "--out", "o"), "no arm named 'x'"),
        (("run", "--dataset", "a/nope", "--arms", "fts5", "--out", "o"), "a/nope: no such folder"),
        (
            ("run", "--dataset", "toy", "--arms", "fts5", "--control", "x", "--out", "o"),
            "no arm to be the control named 'x'; there is fts5",
        ),
        (("import", "beir", "none", "--name", "x"), "missing file"),
        (
            ("stage", "replay", "--dataset", "toy", "--arm", "dense"),
            "harness stage index --dataset toy --arm dense",
        ),
    ],
)
def test_what_does_not_exist_is_told_what_does(
    harness: Harness, words: tuple[str, ...], says: str
) -> None:
    assert says in harness(*words).error


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("nDCG@10,", "nDGC@10,", "nDGC@10"),
        ("k: 50,", "k: fifty,", r"params\.yaml: replay\.k: .*integer"),
        ("k: 50,", "k: 50", r"params\.yaml:\d+: not YAML"),
        ("arms: [fts5,", "arms: [dense, fts5,", "harness stage index --dataset toy --arm dense"),
    ],
)
def test_params_that_are_wrong(
    project: Toy, harness: Harness, old: str, new: str, says: str
) -> None:
    assert old in PARAMS
    (project.root / "params.yaml").write_text(PARAMS.replace(old, new, 1))
    assert re.search(says, harness("stage", "score", "--dataset", "toy").error)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            'rule = "identity"',
            'rule = "identify"',
            r"toy\.toml:27: no rule named 'identify'; .*ident",
        ),
        ("margin = 0.15", "", r"toy\.toml:\d+: gate 'Quality' .* has no margin"),
        ("margin = 0.15", "margn = 0.1", r"toy\.toml:\d+: .* unknown key margn"),
        ("margin = 0.15", "margin = 10", r"toy\.toml:\d+: .*margin is 10"),
        ("margin = 0.15", "margin = ", r"toy\.toml:\d+: is not TOML"),
        ('measure = "tau"', 'measure = "taux"', r"toy\.toml:\d+: .*taux has no known least"),
        ('measure = "nDCG@10"', 'measure = "nDCG@7"', r"has no nDCG@7, only .*nDCG@10"),
    ],
)
def test_a_policy_that_is_wrong(
    project: Toy, harness: Harness, old: str, new: str, says: str
) -> None:
    project.untimed()
    project.policy((HEAD + STEP + GATES).replace(old, new, 1))
    assert re.search(says, harness("gate").error)
    assert not project.layout.decision.exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stack = ", r"mine\.toml:1: not TOML"),
        ('stack = "fts5"\n', r"mine\.toml: summary: is missing"),
        ('summary = "s"\nstack = "fts6"\n', "no stack named 'fts6'; there is blend, code, dense,"),
        ('summary = "s"\nstack = "x.py"\n', r"mine\.toml.*: no file .*x\.py"),
        ('summary = "s"\nstack = "fts5"\n[settings]\njoined = 3\n', r"mine\.toml:?\d*: settings\."),
    ],
)
def test_an_arm_that_is_wrong(project: Toy, harness: Harness, text: str, says: str) -> None:
    (project.root / "mine.toml").write_text(text)
    assert re.search(
        says, harness("stage", "index", "--dataset", "toy", "--arm", "mine.toml").error
    )


def test_a_dropped_table_is_invalid(project: Toy, harness: Harness) -> None:
    assert harness("gate").code == 0
    with closing(sqlite3.connect(project.layout.index("fts5") / FILE)) as db, db:
        db.execute("DROP TABLE search")
    said = harness("stage", "replay", "--dataset", "toy", "--arm", "fts5").error
    assert "fts5.db: was changed since" in said
    assert "harness stage index" in said
    assert "fts5.db: was changed since" in harness("race", "--dataset", "toy").error


def test_an_engine_that_breaks_while_it_is_asked_gives_no_number(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "broken.toml").write_text('summary = "s"\nstack = "broken.py"\n')
    out = project.root / "out"
    words = ("run", "--dataset", "toy", "--arms", f"fts5,{tmp_path / 'broken.toml'}")
    said = harness(*words, "--control", "fts5", "--out", out)
    assert "broken: not one of 41 queries was answered" in said.error
    assert "table is gone" in said.error
    assert not (out / "decision.json").exists()
    assert not (out / "scores.json").exists()


BROKEN = '''
"""A stack that breaks whenever it is asked."""

from contextlib import contextmanager

from harness_engines import contract as manifest


class Searcher:
    def __init__(self, made):
        self.manifest = made

    def search(self, text, k):
        raise RuntimeError("the table is gone")


class Engine:
    def build(self, documents, index):
        def fill(passing):
            list(passing)

        return manifest.record(
            index, documents, fill, engine="broken", version="1", settings={}
        )

    @contextmanager
    def open(self, index):
        yield Searcher(manifest.read(index))


def engine(settings, cache):
    return Engine()
'''


def test_a_score_that_is_no_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    path.write_text("q00 Q0 d00 1 1.5 x\nq00 Q0 d01 2 nan x\n")
    with pytest.raises(BadFile, match=r"run\.trec:2: the score 'nan' is not a finite number"):
        trec.read_run(path, "x")
    with pytest.raises(RunError, match="score must be a finite number"):
        Run.of("x", [Row("q00", Status.ANSWERED, [Hit("d00", float("nan"), 0.0)])])


@pytest.mark.parametrize("words", [("tune",), ("run", "--arms", "fts5"), ("nothing",)])
def test_a_command_that_is_typed_wrongly_exits_with_two(
    harness: Harness, words: tuple[str, ...]
) -> None:
    said = harness(*words)
    assert said.code == 2
    assert "Traceback" not in said.err
    assert said.out == ""


def test_a_policy_that_is_not_there(project: Toy, harness: Harness) -> None:
    (project.root / "policy" / "toy.toml").unlink()
    assert re.search(r"toy\.toml: cannot be read .* Give the path", harness("gate").error)


def test_the_old_scores_are_kept_where_scoring_fails(project: Toy, harness: Harness) -> None:
    before = json.loads(project.layout.scores.read_text())
    (project.root / "params.yaml").write_text(PARAMS.replace("RR@10", "RX@10"))
    assert "RX@10" in harness("stage", "score", "--dataset", "toy").error
    assert json.loads(project.layout.scores.read_text()) == before


NAMES = (".", "", "..", "../x", "../../../x", "/", "a/b", "-x", "a b", "a\0b", "x" * 300, "a,b")


IMPORT = ("import", "beir", "beir", "--split", "test")


FILES = ("beir/corpus.jsonl", "beir/queries.jsonl", "qrels/toy/test.qrels")


RUN = ("run", "--dataset", "toy", "--out", "out")


def seen(folder: Path) -> Mapping[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


def changed(folder: Path, before: Mapping[str, bytes]) -> set[str]:
    after = seen(folder)
    assert not before.keys() - after.keys()
    return {path for path, text in after.items() if before.get(path) != text}


def test_an_import_of_a_hostile_name_touches_nothing(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    """``--name . --force`` deleted all of ``datasets/``; an absolute name deleted any tree."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("mine")
    before = seen(tmp_path)
    for name in (str(victim), *NAMES):
        for force in ((), ("--force",)):
            said = harness(*IMPORT, f"--name={name}", *force)
            assert "is not a name of a data set" in said.error, name
    assert seen(tmp_path) == before
    assert project


def test_a_hostile_split_touches_nothing(project: Toy, harness: Harness, tmp_path: Path) -> None:
    before = seen(tmp_path)
    for name in NAMES:
        for words in (
            ("import", "beir", "beir", "--name", "new"),
            ("import", "jsonl", *FILES, "--name", "new"),
            ("run", "--dataset", "beir", "--arms", "fts5", "--out", "out"),
            ("run", "--dataset", "toy", "--arms", "fts5", "--out", "out"),
        ):
            assert "is not a name of a split" in harness(*words, f"--split={name}").error, name
    assert changed(tmp_path, before) == {"project/out", "project/out/harness-run.txt"}
    assert project


def test_a_hostile_name_of_a_run_touches_nothing(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    (project.root / "x.trec").write_text("q00 Q0 d00 1 1.5 x\n")
    before = seen(tmp_path)
    for name in NAMES:
        assert harness(*RUN, "--trec-run", f"{name}=x.trec").error, name
    assert changed(tmp_path, before) == set()


@pytest.mark.parametrize(
    "words",
    [
        ("stage", "prepare", "--dataset={}"),
        ("gate", "--dataset={}"),
        ("stage", "index", "--dataset", "toy", "--arm={}"),
        ("stage", "replay", "--dataset", "toy", "--arm={}"),
        ("ask", "x", "--dataset", "toy", "--arm={}"),
        ("decompose", "--dataset", "toy", "--control", "fts5", "--candidate={}"),
        ("pool", "--dataset", "toy", "--control={}", "--candidate", "fts5", "--measure", "nDCG@10",
         "--size", "1", "--out", "new.pool"),
        ("shadow", "traffic", "log", "--dataset", "toy", "--control={}", "--candidate", "fts5"),
        ("judge", "x.pool", "--by", "a", "--merge={}"),
        (*RUN, "--arms={}"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_hostile_name_of_an_arm_or_a_data_set_is_refused(
    project: Toy, harness: Harness, words: tuple[str, ...]
) -> None:
    before = seen(project.root)
    for name in ("../../x", "/", "..", "a\0b", "x" * 300):
        said = harness(*(word.format(name) for word in words)).error
        assert len(said) < 1_600
    assert {path for path in changed(project.root, before) if not path.startswith("out")} == set()


def test_a_folder_that_is_run_has_a_name(project: Toy, harness: Harness) -> None:
    (project.root / "beir").rename(project.root / "my data")
    said = harness("run", "--dataset", "my data", "--arms", "fts5", "--out", "out").error
    assert "'my data' is not a name of a data set" in said


def test_names_that_differ_by_their_case_are_refused(project: Toy, harness: Harness) -> None:
    assert "toy differs from it only by its case" in harness(*IMPORT, "--name", "Toy").error
    (project.root / "x.trec").write_text("q00 Q0 d00 1 1.5 x\n")
    words = (*RUN, "--arms", "fts5", "--trec-run", "FTS5=x.trec")
    assert "differs from it only by its case" in harness(*words).error


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("params.yaml", "datasets: [toy]", "datasets: [../toy]"),
        ("params.yaml", "arms: [fts5,", "arms: [../fts5,"),
        ("policy/toy.toml", 'candidate = "tantivy"', 'candidate = "../tantivy"'),
        ("policy/toy.toml", 'name = "tantivy"', 'name = "tan\\ntivy"'),
        ("policy/toy.toml", 'name = "toy migration"', 'name = "\\u001b[31m"'),
        ("datasets/toy/card.toml", 'name = "toy"', 'name = ".."'),
        ("datasets/toy/card.toml", 'split = "test"', 'split = "../test"'),
    ],
)
def test_a_hostile_name_in_a_file_is_refused_where_it_stands(
    project: Toy, harness: Harness, file: str, old: str, new: str
) -> None:
    path = project.root / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    words = ("stage", "prepare", "--dataset", "toy") if path.name == "card.toml" else ("gate",)
    assert path.name in harness(*words).error


def test_an_arm_has_the_name_of_its_file(project: Toy, harness: Harness) -> None:
    arm = project.root / "my arm.toml"
    arm.write_text('summary = "s"\nstack = "fts5"\n')
    said = harness("stage", "index", "--dataset", "toy", "--arm", arm).error
    assert "'my arm' is not a name of an arm" in said


def test_no_layout_makes_a_path_of_anything_else(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "build", tmp_path / "perf", tmp_path / "cache")
    for make in (layout.index, layout.manifest, layout.run, layout.again, layout.run_receipt,
                 layout.replayed, layout.parts):  # fmt: skip
        assert make("fts5").is_relative_to(tmp_path)
        with pytest.raises(BadName, match="is not a name of an arm"):
            make("../../fts5")


def test_from_python_a_run_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "my run.trec").write_text("q00 Q0 d00 1 1.5 x\n")
    assert load_run(tmp_path / "my run.trec", "mine").arm == "mine"
    for arm in ("", "../x"):
        with pytest.raises(HarnessError, match="is not a name of an arm"):
            load_run(tmp_path / "my run.trec", arm)


def test_force_replaces_only_what_an_import_wrote(project: Toy, harness: Harness) -> None:
    root = project.root
    words = (*IMPORT, "--name", "other")
    assert harness(*words).code == 0
    assert "exists; choose another name, or replace it" in harness(*words).error
    assert harness(*words, "--force").code == 0
    for name in ("notes.md", "corpus.jsonl.dvc", "raw/corpus.jsonl"):
        own = root / "datasets" / "other" / name
        own.parent.mkdir(exist_ok=True)
        own.write_text("mine")
        before = seen(root)
        said = harness(*words, "--force").error
        assert "was not written by an import; move it away" in said
        assert seen(root) == before
        own.unlink()
        if own.parent.name == "raw":
            own.parent.rmdir()
    card = root / "datasets" / "other" / "card.toml"
    card.write_text(card.read_text().replace('name = "other"', 'name = "another"'))
    assert "its card is of 'another'" in harness(*words, "--force").error
    card.unlink()
    before = seen(root)
    assert "bears no card of an import" in harness(*words, "--force").error
    assert seen(root) == before


def test_force_follows_no_link_and_takes_no_judgements(project: Toy, harness: Harness) -> None:
    root = project.root
    (root / "elsewhere").mkdir()
    (root / "datasets" / "other").symlink_to(root / "elsewhere")
    assert "a link" in harness(*IMPORT, "--name", "other", "--force").error
    (root / "datasets" / "other").unlink()
    (root / "qrels" / "other").mkdir()
    (root / "qrels" / "other" / "test.qrels").write_text("mine")
    for force in ((), ("--force",)):
        said = harness(*IMPORT, "--name", "other", *force).error
        assert "test.qrels: is there, and no data set" in said
    assert (root / "qrels" / "other" / "test.qrels").read_text() == "mine"


def test_an_import_never_replaces_what_it_reads(project: Toy, harness: Harness) -> None:
    root = project.root
    (root / "qrels" / "toy" / "toy.qrels").write_text("q00 0 d00 1\n")
    corpus, queries = root / "datasets/toy/corpus.jsonl", root / "datasets/toy/queries.jsonl"
    before = seen(root)
    words = ("import", "jsonl", corpus, queries, root / "qrels" / "toy" / "toy.qrels")
    assert "which is read" in harness(*words, "--name", "toy", "--force").error
    assert seen(root) == before


GONE = 4


def leaving_out(project: Toy, count: int) -> list[str]:
    """Let ``x`` be the control and show what fts5 shows, less its first queries.

    One more has no line, for fts5 finds nothing for it.
    """
    rows = [*read_run(project.layout.run("fts5")).rows()]
    lines = [
        f"{row.query_id} Q0 {hit.doc_id} {rank} {-rank} x\n"
        for row in rows[count:]
        for rank, hit in enumerate(row.hits, start=1)
    ]
    (project.root / "x.trec").write_text("".join(lines))
    words = ("--dataset", "toy", "--arms", "fts5", "--trec-run", "x=x.trec", "--out", "out")
    return ["run", *words, "--control", "x"]


def quality(project: Toy) -> Any:  # noqa: ANN401  what json gives back
    return of_gate(project.root / "out" / "decision.json", "Quality")


def test_what_the_control_leaves_out_is_no_gain(project: Toy, harness: Harness) -> None:
    words = leaving_out(project, GONE)
    said = harness(*words)
    assert said.code == 0, said
    assert f"x: {GONE + 1} of 41 queries have no line: they are lost" in " ".join(said.err.split())
    lost = quality(project)
    assert lost["estimate"]["value"] == 0
    assert f"x has no value for {GONE + 1} queries that the other has one for" in lost["reason"]
    assert lost["verdict"] != "pass"
    assert f"x left {GONE + 1} unanswered" in (project.root / "out" / "index.html").read_text()
    assert harness(*words, "--missing", "empty").code == 0
    empty = quality(project)
    assert empty["estimate"]["value"] > 0
    assert "has no value" not in empty["reason"]


def test_a_rule_for_missing_lines_that_is_none_is_named(project: Toy, harness: Harness) -> None:
    said = harness(*leaving_out(project, GONE), "--missing", "maybe")
    assert "no rule for queries without a line named 'maybe'; there is lost, empty" in said.error


LEAKS = '''
"""The stack fts5, whose errors tell what is in the environment."""

import os

from harness_engines.stacks.text import fts5

SETTINGS = {"tokenize": "unicode61", "title_weight": 2.0, "text_weight": 1.0, "joined": "both"}


def engine(settings, cache):
    raise RuntimeError(os.environ["GITHUB_TOKEN"])
'''


COMMANDS = (
    ("run", "--dataset", "toy", "--arms", "fts5,tantivy", "--control", "fts5", "--out", "out"),
    ("shadow", "run", "--dataset", "toy", "--control", "fts5", "--candidate", "tantivy",
     "--out", "log", "--count", "5", "--shadow-settings", "shadow.toml"),
    ("export", "--dataset", "toy", "--control", "fts5", "--out", "tables"),
    ("doctor",),
    ("stage", "index", "--dataset", "toy", "--arm", "none", "--debug"),
)  # fmt: skip


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, project: Toy) -> Toy:
    """Put a secret into every variable that usually has one."""
    for name in NAMES_OF_SECRETS:
        monkeypatch.setenv(name, f"{PLANTED}-{name}")
    shutil.copy(ROOT / "policy" / "shadow.toml", project.root)
    return project


def test_no_secret_of_the_environment_is_written_or_said(planted: Toy, harness: Harness) -> None:
    for words in COMMANDS:
        done = harness(*words)
        assert done.code == (2 if "none" in words else 0), done.err
        assert PLANTED not in done.out + done.err, words
    assert (planted.root / "out" / "index.html").is_file()
    assert holding(planted.root) == []


def test_a_secret_that_is_written_would_be_seen(planted: Toy, harness: Harness) -> None:
    (planted.root / "leaks.toml").write_text('summary = "fts5"\nstack = "leaks.py"\n')
    (planted.root / "leaks.py").write_text(LEAKS)
    assert PLANTED in harness("stage", "index", "--dataset", "toy", "--arm", "leaks.toml").err
    (planted.root / "log.txt").write_text(PLANTED)
    assert holding(planted.root) == ["log.txt"]


@pytest.mark.parametrize(
    "address", [f"http://me:{PLANTED}@127.0.0.1:9", f"http://127.0.0.1:9/?key={PLANTED}"]
)
def test_a_secret_of_an_address_is_not_in_its_refusal(address: str) -> None:
    with pytest.raises(HarnessError, match="is not an address of a server") as told:
        check_address(address)
    assert PLANTED not in str(told.value)


ASKS = '''
"""The stack fts5, which asks the network for something."""

import socket

from harness_engines.stacks.text import fts5

SETTINGS = {"tokenize": "unicode61", "title_weight": 2.0, "text_weight": 1.0, "joined": "both"}


def engine(settings, cache):
    with socket.socket(socket.AF_INET6):
        return fts5.engine(SETTINGS, cache)
'''


def offline(project: Toy, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.cli.offline", *map(str, words)],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not can_forbid(), reason="the system cannot forbid sockets")
def test_libraries_are_told_to_report_nothing() -> None:
    """Not each release of onnxruntime, and not at each start, asks for a socket."""
    prints = "import os, harness_engines; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    words = [sys.executable, "-c", prints]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "engines"), "ORT_DISABLE_TELEMETRY": "0"}
    assert subprocess.run(words, env=env, capture_output=True, check=True).stdout == b"1\n"


@pytest.mark.skipif(not can_forbid(), reason="the system cannot forbid sockets")
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "words",
    [
        ("run", "--dataset", "toy", "--arms", "tantivy,hybrid-rerank", "--control", "tantivy",
         "--out", "out"),
        ("ask", "lo", "--dataset", "toy", "--arm", "fts5"),
        ("shadow", "run", "--dataset", "toy", "--control", "fts5", "--candidate", "tantivy",
         "--out", "log", "--count", "5", "--shadow-settings", "shadow.toml"),
        ("doctor",),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_command_needs_no_network(project: Toy, words: tuple[str, ...]) -> None:
    shutil.copy(ROOT / "policy" / "shadow.toml", project.root)
    done = offline(project, *words)
    assert done.returncode >= 0, done.stderr
    assert "sockets cannot be forbidden" not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not can_forbid(), reason="the system cannot forbid sockets")
@pytest.mark.whole("tests/cli/test_bad_input.py::test_a_command_needs_no_network")
def test_the_whole_demo_needs_no_network(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.offline", "demo"],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (clone / "reports" / "index.html").is_file()


@pytest.mark.skipif(not can_forbid(), reason="the system cannot forbid sockets")
def test_whoever_asks_is_killed(project: Toy, tmp_path: Path) -> None:
    (tmp_path / "asks.toml").write_text('summary = "fts5"\nstack = "asks.py"\n')
    (tmp_path / "asks.py").write_text(ASKS)
    done = offline(project, "stage", "index", "--dataset", "toy", "--arm", tmp_path / "asks.toml")
    assert done.returncode == -signal.SIGSYS
