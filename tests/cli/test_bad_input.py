"""Input that is wrong, missing, or hostile ends in one line and exit code 2."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.errors import BadName, HarnessError
from harness.pipeline.layout import Layout
from harness.shadow.http import check_address
from harness.shadow.mcp import McpServer
from tests.cli.conftest import Harness, seen
from tests.cli.offline import can_forbid
from tests.make import search_server
from tests.make.damage import NAMES as NAMES_OF_SECRETS
from tests.make.damage import PLANTED, holding
from tests.make.toy import Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow
TSV = "query-id\tcorpus-id\tscore\n"
RUN_BEIR = ("run", "--dataset", "beir", "--arms", "fts5", "--out", "out")
INDEX = ("stage", "index", "--dataset", "toy", "--arm")
CORPUS, QUERIES, QRELS = "beir/corpus.jsonl", "beir/queries.jsonl", "beir/qrels/test.tsv"
FOLDERS = [
    (CORPUS, None, '{"_id": "x", \n', r"corpus\.jsonl:61: "),
    (CORPUS, None, '{"_id": "d00", "text": "again"}\n', r"jsonl:61: the id 'd00' is on line"),
    (CORPUS, "", "\udcff\udcfe", r"corpus\.jsonl:1: .*UTF-8"),
    (CORPUS, "", None, r"corpus\.jsonl: missing file"),
    (QUERIES, "", "", r"(queries\.jsonl|none of the 0 queries)"),
    (QRELS, "", TSV + "q00\td00\n", r"test\.tsv:2: the line has 2 columns, not 3"),
    (QRELS, "", TSV + "q00\td00\tgood\n", r"test\.tsv:2: the grade 'good'"),
    (QRELS, "", TSV + "zzz\td00\t1\n", "none of the 41 queries is judged"),
]
"""A file of a data set, what goes, what comes, and what is said."""


@pytest.mark.parametrize("wrong", FOLDERS, ids=lambda wrong: wrong[-1][:20])
def test_a_folder_that_is_malformed(
    project: Toy, harness: Harness, wrong: tuple[str, str | None, str | None, str]
) -> None:
    file, old, new, says = wrong
    path = project.root / file
    if new is None:
        path.unlink()
    else:
        path.write_bytes(os.fsencode((path.read_text() if old is None else "") + new))
    for words in (RUN_BEIR, ("import", "beir", "beir", "--name", "other")):
        assert re.search(says, harness(*words).error)
    assert not (project.root / "datasets" / "other").exists()
    assert not (project.root / "out" / "scores.json").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*INDEX, "fts4"), "no arm named 'fts4'; there is code-"),
        (("stage", "index", "--dataset", "toys", "--arm", "fts5"), "named 'toys'; there is toy"),
        (("gate", "--step", "hybird"), "no step named 'hybird'; there is tantivy"),
        ((*RUN_BEIR[:2], "a/nope", *RUN_BEIR[3:]), "a/nope: no such folder"),
        ((*RUN_BEIR, "--control", "x"), "no arm to be the control named 'x'; there is fts5"),
        (("stage", "replay", "--dataset", "toy", "--arm", "dense"),
         "harness stage index --dataset toy --arm dense"),
    ],
)  # fmt: skip
def test_what_does_not_exist_is_told_what_does(
    harness: Harness, words: tuple[str, ...], says: str
) -> None:
    assert says in harness(*words).error


PARAMS, POLICY = "params.yaml", "policy/toy.toml"


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        (PARAMS, ("nDCG@10,", "nDGC@10,"), "nDGC@10"),
        (PARAMS, ("k: 50,", "k: fifty,"), r"params\.yaml: replay\.k: .*integer"),
        (PARAMS, ("k: 50,", "k: 50"), r"params\.yaml:\d+: not YAML"),
        (POLICY, ('rule = "identity"', 'rule = "x"'), r"toy\.toml:\d+: no rule named 'x'; there"),
        (POLICY, ("margin = 0.15", ""), r"toy\.toml:\d+: gate 'Quality' .* has no margin"),
        (POLICY, ("margin = 0.15", "margin = "), r"toy\.toml:\d+: is not TOML"),
        (POLICY, ("nDCG@10", "nDCG@7"), r"has no nDCG@7, only .*nDCG@10"),
    ],
)
def test_a_setting_that_is_wrong_is_named_with_its_line(
    project: Toy, harness: Harness, file: str, change: tuple[str, str], says: str
) -> None:
    path = project.root / file
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change, 1))
    words = ("stage", "score", "--dataset", "toy") if file == PARAMS else ("gate",)
    assert re.search(says, harness(*words).error)
    assert not project.layout.decision.exists()


NAMES = (".", "", "..", "../x", "../../../x", "/", "a/b", "-x", "a b", "a\0b", "x" * 300, "a,b")
IMPORT = ("import", "beir", "beir", "--split", "test")
FILES = ("beir/corpus.jsonl", "beir/queries.jsonl", "qrels/toy/test.qrels")
RUN = ("run", "--dataset", "toy", "--out", "out")


@pytest.mark.parametrize(
    ("words", "option", "says"),
    [
        (IMPORT, "--name={}", "is not a name of a data set"),
        ((*IMPORT, "--force"), "--name={}", "is not a name of a data set"),
        (("import", "beir", "beir", "--name", "new"), "--split={}", "is not a name of a split"),
        (("import", "jsonl", *FILES, "--name", "new"), "--split={}", "is not a name of a split"),
        (RUN_BEIR, "--split={}", "is not a name of a split"),
        ((*RUN, "--arms", "fts5"), "--split={}", "is not a name of a split"),
        (RUN, "--trec-run={}=x.trec", ""),
    ],
)
def test_a_hostile_name_touches_nothing(
    project: Toy, harness: Harness, words: tuple[str, ...], option: str, says: str
) -> None:
    """``--name . --force`` deleted all of ``datasets/``; an absolute name deleted any tree."""
    victim = project.root.with_name("victim")
    victim.mkdir()
    for path in (victim / "precious", project.root / "x.trec"):
        path.write_text("q00 Q0 d00 1 1.5 x\n")
    before = seen(victim.parent)
    for name in (str(victim), *NAMES):
        assert says in harness(*words, option.format(name)).error, name
    claimed = {"project/out", "project/out/harness-run.txt"} if option == "--split={}" else set()
    assert seen(victim.parent).keys() - before.keys() <= claimed
    assert before.items() <= seen(victim.parent).items()


def test_no_layout_makes_a_path_of_anything_else(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "build", tmp_path / "perf", tmp_path / "cache")
    for make in (layout.index, layout.manifest, layout.run, layout.again, layout.run_receipt,
                 layout.replayed, layout.parts):  # fmt: skip
        assert make("fts5").is_relative_to(tmp_path)
        with pytest.raises(BadName, match="is not a name of an arm"):
            make("../../fts5")


def test_force_replaces_only_what_an_import_wrote(project: Toy, harness: Harness) -> None:
    root = project.root
    words = (*IMPORT, "--name", "other")
    assert harness(*words).code == 0
    assert "exists; choose another name, or replace it" in harness(*words).error
    assert harness(*words, "--force").code == 0
    own = root / "datasets" / "other" / "notes.md"
    own.write_text("mine")
    before = seen(root)
    assert "was not written by an import; move it away" in harness(*words, "--force").error
    assert seen(root) == before
    own.unlink()
    card = root / "datasets" / "other" / "card.toml"
    card.write_text(card.read_text().replace('name = "other"', 'name = "another"'))
    assert "its card is of 'another'" in harness(*words, "--force").error
    card.unlink()
    before = seen(root)
    assert "bears no card of an import" in harness(*words, "--force").error
    assert seen(root) == before


def test_force_follows_no_link_and_takes_no_judgements(project: Toy, harness: Harness) -> None:
    root, words = project.root, (*IMPORT, "--name", "other")
    (root / "elsewhere").mkdir()
    (root / "datasets" / "other").symlink_to(root / "elsewhere")
    assert "a link" in harness(*words, "--force").error
    (root / "datasets" / "other").unlink()
    judged = root / "qrels" / "other" / "test.qrels"
    judged.parent.mkdir()
    judged.write_text("mine")
    for force in ((), ("--force",)):
        assert "test.qrels: is there, and no data set" in harness(*words, *force).error
    assert judged.read_text() == "mine"


def test_an_import_never_replaces_what_it_reads(project: Toy, harness: Harness) -> None:
    root = project.root
    (root / "qrels" / "toy" / "toy.qrels").write_text("q00 0 d00 1\n")
    corpus, queries = root / "datasets/toy/corpus.jsonl", root / "datasets/toy/queries.jsonl"
    before = seen(root)
    words = ("import", "jsonl", corpus, queries, root / "qrels" / "toy" / "toy.qrels")
    assert "which is read" in harness(*words, "--name", "toy", "--force").error
    assert seen(root) == before


SHADOW_RUN = (
    "shadow", "run", "--dataset", "toy", "--control", "fts5", "--candidate", "tantivy",
    "--out", "log", "--count", "5", "--shadow-settings", "shadow.toml",
)  # fmt: skip


def test_no_secret_of_the_environment_is_written_or_said(
    monkeypatch: pytest.MonkeyPatch, project: Toy, harness: Harness
) -> None:
    for name in NAMES_OF_SECRETS:
        monkeypatch.setenv(name, f"{PLANTED}-{name}")
    shutil.copy(ROOT / "policy" / "shadow.toml", project.root)
    for words, code in (
        ((*RUN, "--arms", "fts5,tantivy", "--control", "fts5"), 0),
        (SHADOW_RUN, 0),
        (("export", "--dataset", "toy", "--control", "fts5", "--out", "tables"), 0),
        (("doctor",), 0),
        ((*INDEX, "none", "--debug"), 2),
    ):
        done = harness(*words)
        assert done.code == code, done.err
        assert PLANTED not in done.out + done.err, words
    assert (project.root / "out" / "index.html").is_file()
    assert holding(project.root) == []


@pytest.mark.parametrize(
    ("read", "address", "says"),
    [
        (check_address, f"http://me:{PLANTED}@127.0.0.1:9", "is not an address of a server"),
        (check_address, f"http://127.0.0.1:9/?key={PLANTED}", "is not an address of a server"),
        (McpServer.of, f"https://a/mcp?token={PLANTED}", "HARNESS_CONTROL_TOKEN"),
    ],
)
def test_a_secret_of_an_address_is_not_in_its_refusal(
    read: Callable[[str], object], address: str, says: str
) -> None:
    with pytest.raises(HarnessError, match=says) as told:
        read(address)
    assert PLANTED not in str(told.value)


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
        ("run", "--dataset", "few", "--arms", "tantivy,hybrid-rerank", "--out", "out"),
        ("ask", "lo", "--dataset", "toy", "--arm", "fts5"),
        SHADOW_RUN,
        ("doctor",),
    ],
    ids=lambda words: words[0],
)
def test_a_command_needs_no_network(project: Toy, words: tuple[str, ...]) -> None:
    search_server.collection(project.root / "few")
    shutil.copy(ROOT / "policy" / "shadow.toml", project.root)
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.offline", *words],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
