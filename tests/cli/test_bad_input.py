"""Whatever is wrong, a person gets one line that names the file, the line and the hint."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engines.stacks.text.fts5 import FILE
from harness.core.engine import Hit
from harness.core.errors import BadFile, RunError
from harness.core.run import Row, Run, Status
from harness.corpus import trec
from tests.cli.conftest import Harness
from tests.make.toy import GATES, HEAD, PARAMS, STEP, Toy

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

from engines import contract as manifest


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
