"""The reference is of this code, and simulated tables are."""

import pkgutil
import re
import shlex
import sys
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

import run
from harness.cli import application
from harness.cli.command import NO_CODE, QUIET
from harness.cli.exit_codes import DEBUG
from harness.gates.base import rules
from harness.pipeline.oneshot import RESULTS
from harness.pipeline.params import Params
from harness.policy.model import GateHead, Header, Premises, StepTable
from harness_engines import registry as arms
from harness_engines import stacks
from tests.docs import reference
from tests.docs.contract import PAGE, missing, rows
from tests.docs.pages import ASSIGNED, COMMAND, ROOT, Page, page, pages
from tests.mutants.listed import mutants

PARAMS, ENGINES = page("docs/params.md"), page("docs/engines.md")
STACKS = arms.STACKS
SECTIONS = {
    name: field.annotation
    for name, field in Params.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}


def stack_of(name: str) -> type[BaseModel]:
    return reference.settings_of(pkgutil.resolve_name(f"{stacks.__name__}.{STACKS[name]}"))


DESCRIBED: list[tuple[Page, str, type[BaseModel]]] = [
    (PARAMS, "`params.yaml`", Params),
    (PARAMS, "`[policy]`", Header),
    (PARAMS, "`[policy.premises]`", Premises),
    (PARAMS, "`[[step]]`", StepTable),
    (PARAMS, "`[[step.gate]]`", GateHead),
    *((PARAMS, f"`{name}`", model) for name, model in SECTIONS.items()),
    *((PARAMS, f"`{name}`", rules.load(name)) for name in rules.names()),
    *((ENGINES, f"`{name}`", stack_of(name)) for name in STACKS),
]


@pytest.mark.parametrize(("page", "heading", "model"), DESCRIBED)
def test_each_key_is_described_and_no_other(
    page: Page, heading: str, model: type[BaseModel]
) -> None:
    assert sorted(page.keys(heading)) == sorted(model.model_fields)


def test_every_decision_is_in_the_list() -> None:
    index = page("docs/decisions/README.md")
    files = {path.name for path in index.path.parent.glob("[0-9]*.md")}
    assert set(index.links()) == files
    for name in files:
        assert page(f"docs/decisions/{name}").text.startswith(f"# {int(name[:4])}. ")


def test_every_arm_has_a_row() -> None:
    assert sorted(ENGINES.keys("The arms")) == sorted(arms.names())


def test_the_page_is_up_to_date_and_lists_what_a_run_leaves() -> None:
    """Where it is not: ``python3 run.py python -m tests.docs.reference``."""
    assert set(RESULTS) <= {name for files in reference.TOLD["files"].values() for name in files}
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), reference.MAKE


def test_examples_of_help_texts_can_be_typed() -> None:
    for _, command in reference.commands():
        for line in reference.examples(command.help):
            parse(shlex.split(line)[1:])


CLI: Any = typer.main.get_command(application())


def parse(words: list[str]) -> None:
    """Parse the words of one command of ``harness``, and run nothing."""
    group, names = CLI, []
    words = [word for word in words if word not in {DEBUG, NO_CODE, *QUIET}]
    while hasattr(group, "commands"):
        if not words or words[0].startswith("-"):
            assert set(words) <= {"--help", "--version"}
            return
        names.append(words[0])
        assert words[0] in group.commands, f"no command {' '.join(names)}"
        group, words = group.commands[words[0]], words[1:]
    if words != ["--help"]:
        group.make_context(" ".join(names), list(words))


def check(line: str) -> None:
    words = shlex.split(line, comments=True)
    words = list(dropwhile(ASSIGNED.match, words))
    if words[0].endswith(".sh") or not (words := words[len(COMMAND.split()) :]):
        return
    first, *rest = words
    first, *rest = [*run.SHORT.get(first, [first]), *rest]
    if first == "harness":
        parse(rest)
        return
    assert (Path(sys.executable).parent / first).exists(), f"{first} is not in the environment"
    for before, word in pairwise([first, *rest]):
        a_path = first == "pytest" and before not in {"-m", "-k"} and not word.startswith("-")
        if word.endswith(".py") or a_path:
            assert (ROOT / word).exists(), f"there is no {word}"


PAGES = {page.name: page for page in pages()}


@pytest.mark.parametrize("name", PAGES)
def test_commands_can_be_typed_and_links_lead_somewhere(name: str) -> None:
    for line in PAGES[name].commands():
        check(line)
    for target in PAGES[name].links():
        to, _, anchor = target.partition("#")
        path = (PAGES[name].path.parent / to).resolve() if to else PAGES[name].path
        assert path.exists(), f"a link leads to {target}"
        assert path.is_relative_to(ROOT)
        assert not anchor or anchor in Page(path).anchors(), target


def test_every_command_of_the_program_is_on_a_page() -> None:
    everything = "\n".join(page.text for page in pages())
    for name in CLI.commands:
        assert re.search(rf"\bharness {name}\b", everything), f"no page names harness {name}"


ROWS = rows()


def test_an_id_names_one_promise_which_has_a_fault_and_the_page_says_so() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))
    assert {name[0] for name in names} == {*"QAWDCE"}
    lines = PAGE.text.splitlines()
    heads = sum(line.startswith("| id |") for line in lines)
    assert len(names) == sum(line.startswith("| ") for line in lines) - 2 * heads
    assert {row for one in mutants() for row in one.rows} == set(names)
    assert f"Each of the {len(ROWS)} rows has a planted fault" in PAGE.text


def test_each_way_to_a_promise_is_there() -> None:
    ways = [(row.name, missing(way)) for row in ROWS for way in row.reached_by]
    assert [f"{name}: {said}" for name, said in ways if said] == []
