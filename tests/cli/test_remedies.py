"""Every command that a message, a gate or a page prints can be typed as it is printed."""

import ast
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import harness_engines
from harness.core.parts import has
from harness.corpus import judgements
from tests.cli.conftest import Harness, Said
from tests.cli.owned import command_tree
from tests.make.toy import CONTROL, GATES, HEAD, NAME, STEP, Toy
from tests.source import known

pytestmark = pytest.mark.slow
PRINTED = re.compile(r"(?<=: )harness ((?:[a-z][a-z-]*)(?: [^\n;()`]*)?)")
ENDS = re.compile(r"(?:, (?:and|then)|\. |: | and | or |, |$|\.$)")


class Remedy(NamedTuple):
    """A command as it stands in the source; what is filled in is ``X``."""

    place: str
    words: tuple[str, ...]


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield what may be printed: strings that are neither docstrings nor parts of another."""
    nodes = [*ast.walk(tree)]
    beside = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            beside |= {id(part) for part in ast.walk(node)}
            parts = (v.value if isinstance(v, ast.Constant) else "X" for v in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in beside:
            yield node.lineno, str(node.value)


def found() -> Iterator[Remedy]:
    for module in known().values():
        if "harness " not in module.path.read_text(encoding="utf-8"):
            continue
        for line, text in strings(module.tree):
            for match in PRINTED.finditer(text):
                said = ENDS.split(match[1], maxsplit=1)[0].split()
                if said and said[0] in command_tree().commands:
                    yield Remedy(f"{module.file}:{line}", tuple(said))


def wrong(words: tuple[str, ...]) -> list[str]:
    """Name what the command line does not take of a printed command, and what it lacks."""
    at, rest = command_tree(), list(words)
    while rest and hasattr(at, "commands") and rest[0] in at.commands:
        at = at.commands[rest.pop(0)]
    if hasattr(at, "commands"):
        return [f"no such command: {' '.join(words)}"]
    options = {name: one for one in at.params for name in (*one.opts, *one.secondary_opts)}
    given, plain = [], []
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name = word.split("=")[0]
            given.append(name)
            if name in options and not options[name].is_flag and rest and "=" not in word:
                rest.pop(0)
        elif word != "...":
            plain.append(word)
    missing = [
        one.opts[0] for one in at.params
        if one.required and one.param_type_name == "option" and not {*one.opts} & {*given}
    ]  # fmt: skip
    asked = [one for one in at.params if one.required and one.param_type_name == "argument"]
    return [
        *(f"no option {name}" for name in given if name not in options),
        *(f"lacks {name}" for name in missing),
        *(f"lacks {one.name}" for one in asked[len(plain) :]),
    ]


def test_printed_commands_can_be_typed() -> None:
    remedies = [*found()]
    assert len(remedies) > 50
    assert [(one, said) for one in remedies if (said := wrong(one.words))] == []


TYPED = re.compile(r": harness (.+?)(?:, and|; |\.?$)", re.MULTILINE)


def printed(said: Said) -> list[str]:
    """List the commands that were printed, as a person would type them."""
    return TYPED.findall(said.out + said.err)


def typed(harness: Harness, command: str, **values: str) -> Said:
    """Type a printed command, with values for its names in capitals."""
    said = harness(*(values.get(word, word) for word in shlex.split(command)))
    assert said.code != 2, (command, said)
    return said


def unjudged(project: Toy, harness: Harness) -> None:
    """Take judgements away, and ask for a margin that the rest alone would keep."""
    judged = project.root / "qrels" / NAME / "test.qrels"
    lines = judged.read_text().splitlines(keepends=True)
    left = (line for line in lines if not re.match(r"q0\d 0 d[0-2]\d 0$", line))
    judged.write_text("".join(left))
    policy = HEAD.replace("confidence = 0.5", "confidence = 0.9") + STEP + GATES
    project.policy(policy.replace("margin = 0.15", "margin = 0.125"))
    harness("stage", "prepare", "--dataset", NAME, "--update")
    harness("stage", "score")
    harness("stage", "compare")


MOST = 6
"""Steps to a command that works: one for each stage of the pipeline."""


def helped(harness: Harness, *words: str) -> list[str]:
    """Run a command and each remedy that it prints, until it works; return the remedies."""
    remedies: list[str] = []
    for _ in range(MOST):
        said = harness(*words)
        if said.code != 2:
            return remedies
        (remedy,) = printed(said)
        remedies.append(remedy)
        typed(harness, remedy)
    raise AssertionError(remedies)


ASK = "ask balo --dataset toy --arm"


@pytest.mark.parametrize(
    ("gone", "words", "first"),
    [
        ("build/toy/data", f"{ASK} fts5", "stage prepare --dataset toy"),
        (".cache/toy/index/fts5", f"{ASK} fts5", "stage index --dataset toy --arm fts5"),
        (".cache/toy/index/fts5", f"{ASK} mine.toml", "stage index --dataset toy --arm mine.toml"),
        ("build/toy/runs/fts5.parquet", "stage score", "stage replay --dataset toy --arm fts5"),
        ("build/toy/scores/per_query.parquet", "gate", "stage score --dataset toy"),
        ("build/toy/compare/agreement.parquet", "gate", "stage compare --dataset toy"),
        ("perf/toy/decision.json", "verify", "gate --dataset toy"),
    ],
)
def test_what_is_missing_is_made_by_the_remedy(
    project: Toy, harness: Harness, gone: str, words: str, first: str
) -> None:
    mine = Path(harness_engines.__file__).parent / "arms" / "fts5.toml"
    (project.root / "mine.toml").write_text(mine.read_text())
    assert harness("gate").code == 0
    path = project.root / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert helped(harness, *words.split())[0] == first


def test_a_race_that_is_missing_is_run_by_the_remedy(project: Toy, harness: Harness) -> None:
    project.layout.race_receipt.unlink()
    assert printed(harness("gate")) == ["race"]
    typed(harness, "race")
    assert "no race was run" not in harness("gate").out


RUN = ("run", "--dataset", NAME, "--policy", "policy/toy.toml", "--out", "out/mine", "--exit-code")


@pytest.mark.parametrize("words", [("gate",), (*RUN, "--race")], ids=["project", "run"])
def test_what_remains_is_drawn_judged_and_taken_in(
    project: Toy, harness: Harness, words: tuple[str, ...]
) -> None:
    unjudged(project, harness)
    (pool,) = [one for one in printed(harness(*words)) if one.startswith("pool ")]
    (judge,) = printed(typed(harness, pool))
    assert judge == "judge pool.qrels"
    path = project.root / "pool.qrels"
    pairs = judgements.read_pool(path).pairs
    judgements.write_grades(path, judgements.Pool(pairs, (0,) * len(pairs)))
    (labels,) = [one for one in printed(typed(harness, judge)) if one.startswith("labels ")]
    typed(harness, labels, NAME="Ada", POOL="pool.qrels")
    assert "PROMOTE" in harness("gate", *(("--from", "out/mine") if words[0] == "run" else ())).out


def test_a_run_without_a_race_asks_for_one(project: Toy, harness: Harness) -> None:
    assert "run: the same harness run with --race" in harness(*RUN).out
    page = (project.root / "out" / "mine" / "report.md").read_text()
    assert "the same harness run with" in page
    assert "harness race" not in page


def test_a_decision_is_pinned_reported_and_kept_by_what_is_printed(
    project: Toy, harness: Harness
) -> None:
    assert harness("gate").code == 0
    typed(harness, "report")
    page = (project.root / "reports" / "report.md").read_text()
    (pin,) = re.findall(r"Pin it: harness (policy pin .+)", page.replace("\\", ""))
    typed(harness, pin)
    assert harness("gate").code == 0
    (write,) = printed(harness("history", "add"))
    typed(harness, write)
    (add,) = printed(harness("history", "page"))
    typed(harness, add)
    assert harness("history", "page").code == 0


@pytest.mark.skipif(not has("migrate"), reason="the slice was deleted")
def test_a_migration_is_begun_by_the_remedy(project: Toy, harness: Harness) -> None:
    project.policy(HEAD + STEP + 'switch = "tantivy"\n' + GATES)
    (begin,) = printed(harness("migrate", "status"))
    typed(harness, begin, VALUE=CONTROL)
    assert harness("migrate", "status").code == 0
