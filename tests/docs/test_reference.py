"""The reference is of this code, and simulated tables are."""

from __future__ import annotations

import ast
import pkgutil
import re
import shlex
import sys
import tomllib
from functools import cache
from itertools import dropwhile, pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from pydantic import BaseModel

from benchmarks.capacity import ARMS, DECADES, draw, read
from harness.cli import application
from harness.cli.command import NO_CODE, QUIET
from harness.cli.exit_codes import DEBUG
from harness.gates.base import rules
from harness.load.paths import history_of, page_of, receipt_of
from harness.pipeline.layout import Layout
from harness.pipeline.oneshot import RESULTS
from harness.pipeline.params import Params
from harness.policy.model import Demands, GateHead, Header, Premises, StepTable
from harness_engines import registry as arms
from harness_engines import stacks
from tests.docs import reference, reference_words
from tests.docs.contract import PAGE, rows, ways
from tests.docs.pages import ASSIGNED, COMMAND, FENCE, HEADING, ROOT, Page, page, pages
from tests.docs.reached import missing, tools
from tests.mutants.listed import mutants

PARAMS, ENGINES = page("docs/params.md"), page("docs/engines.md")
STACKS = arms.known_stacks()
SECTIONS = {
    name: field.annotation
    for name, field in Params.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}


@pytest.mark.parametrize("name", rules.names())
def test_each_rule_has_its_settings_and_no_other(name: str) -> None:
    assert sorted(PARAMS.keys(f"`{name}`")) == sorted(rules.load(name).settings.model_fields)


def test_no_rule_is_described_that_does_not_exist() -> None:
    headings = HEADING.findall(PARAMS.text.partition("## The rules")[2])
    described = {heading.strip("`") for heading in headings if heading.startswith("`")}
    assert described == set(rules.names())


def test_params_yaml_is_described_key_by_key() -> None:
    assert PARAMS.keys("`params.yaml`") == list(Params.model_fields)


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_each_section_of_params_yaml_is_described_key_by_key(section: str) -> None:
    assert PARAMS.keys(f"`{section}`") == list(SECTIONS[section].model_fields)


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("`[policy]`", Header),
        ("`[policy.evidence]`", Demands),
        ("`[policy.premises]`", Premises),
        ("`[[step]]`", StepTable),
        ("`[[step.gate]]`", GateHead),
    ],
)
def test_policy_tables_are_described_key_by_key(heading: str, model: type[BaseModel]) -> None:
    assert PARAMS.keys(heading) == list(model.model_fields)


def test_every_arm_has_a_row() -> None:
    assert sorted(ENGINES.keys("The arms")) == sorted(arms.names())


@pytest.mark.parametrize("stack", STACKS)
def test_each_stack_has_its_settings_and_no_other(stack: str) -> None:
    settings = reference.settings_of(pkgutil.resolve_name(f"{stacks.__name__}.{STACKS[stack]}"))
    assert sorted(ENGINES.keys(f"`{stack}`")) == sorted(settings.model_fields)


def test_every_decision_is_in_the_list() -> None:
    index = page("docs/decisions/README.md")
    files = {path.name for path in index.path.parent.glob("[0-9]*.md")}
    assert set(index.links()) == files
    for name in files:
        assert page(f"docs/decisions/{name}").text.startswith(f"# {int(name[:4])}. ")


def test_every_decision_has_its_evidence_and_its_price() -> None:
    for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        found = path.read_text(encoding="utf-8")
        for part in ("Context", "Decision", "Evidence", "Price"):
            assert f"**{part}.**" in found, f"{path.name} has no {part}"


def test_the_licence_is_the_one_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert project["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0, January 2004" in licence


def test_the_picture_of_the_page_is_small() -> None:
    assert (ROOT / "docs" / "images" / "report.png").stat().st_size < 250_000


SOURCES = ("harness", "engines", "tests", "benchmarks")
READS = re.compile(r"(?:environ\.get\(|environ\[|getenv\(|env\.setdefault\()[\"']?(\w+)")
EXAMPLES = [
    line for _, command in reference.commands() for line in reference.examples(command.help)
]


def test_the_page_is_up_to_date() -> None:
    """Where it is not: ``python3 run.py python -m tests.docs.reference``."""
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), reference.MAKE


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_of_a_help_text_can_be_typed(line: str) -> None:
    _, *words = shlex.split(line)
    parse(words)


def test_most_commands_have_an_example() -> None:
    assert len(EXAMPLES) >= 20


def test_every_command_and_option_has_a_help_text() -> None:
    for names, command in reference.commands():
        assert command.help, names
        for param in command.params:
            assert getattr(param, "help", None), (names, param.name)


def test_every_variable_that_is_read_is_named() -> None:
    """Those handed on to programs of others are not ours; a recorder's are its own."""
    known = {*reference_words.ENVIRONMENT, *reference.variables()}
    read: dict[str, str] = {}
    every = (path for name in SOURCES for path in (ROOT / name).rglob("*.py"))
    files = [path for path in every if "oracle" not in path.parts]
    for path in (*files, ROOT / "run.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search("environ|getenv|env.setdefault", text):
            continue
        tree = ast.parse(text)
        constants = {
            name.id: value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for name, value in _assigned(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, (ast.Call, ast.Subscript)):
                for name in READS.findall(ast.unparse(node)):
                    read[constants.get(name, name)] = path.name
    ours = {name for name in read if name.isupper()} - {"SHELL", "PATH", "UV_DEFAULT_INDEX", "X"}
    assert ours <= known, {name: read[name] for name in ours - known}
    assert {"GITHUB_ACTIONS", "MAIL_FILTER_CASES"} <= ours


def _assigned(node: ast.Assign) -> list[tuple[ast.Name, str]]:
    """Names and texts of ``A = "a"`` and of ``A, B = "a", "b"``."""
    targets, values = node.targets[0], node.value
    pairs = (
        zip(targets.elts, values.elts, strict=False)
        if isinstance(targets, ast.Tuple) and isinstance(values, ast.Tuple)
        else [(targets, values)]
    )
    return [
        (target, value.value)
        for target, value in pairs
        if isinstance(target, ast.Name)
        and isinstance(value, ast.Constant)
        and isinstance(value.value, str)
    ]


def test_every_file_that_a_run_leaves_is_listed() -> None:
    listed = {name for files in reference_words.FILES.values() for name in files}
    assert set(RESULTS) <= listed


def test_every_output_of_the_pipeline_is_listed() -> None:
    known = {*reference.layout(), *reference_words.PIPELINE}
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    for stage in stages.values():
        for out in [*stage.get("outs", []), *stage.get("metrics", []), *stage.get("plots", [])]:
            name = out if isinstance(out, str) else next(iter(out))
            name = name.replace("${item.dataset}", "NAME").replace("${item.arm}", "ARM")
            if not name.startswith("reports/"):
                assert [one for one in known if one == name or one.startswith(f"{name}/")], name


def test_what_is_written_of_files_by_hand_is_in_the_code() -> None:
    at = Path("build/NAME"), Path("perf/NAME"), Path(".cache/NAME")
    of_load = {path(Layout(*at)).as_posix() for path in (history_of, page_of, receipt_of)}
    assert of_load <= set(reference_words.PIPELINE)
    sources = [*(ROOT / "harness").rglob("*.py")]
    everything = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    for files in reference_words.FILES.values():
        for name in files:
            last = re.sub(r"[A-Z]{3,}", "", name.rpartition("/")[2])
            parts = [part for part in re.split(r"[-.~]", last) if part]
            assert all(part in everything for part in parts), name


LINES = [(page.name, line) for page in pages() for line in page.commands()]
LINKS = [(page, target) for page in pages() for target in page.links()]


@cache
def cli() -> Any:  # noqa: ANN401  click's command, which typer brings along
    return typer.main.get_command(application())


def short() -> dict[str, list[str]]:
    """Read the words that run.py knows by itself."""
    for node in ast.parse((ROOT / "run.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHORT":
            words: dict[str, list[str]] = ast.literal_eval(node.value)
            return words
    raise AssertionError("run.py has no SHORT")


def parse(words: list[str]) -> None:
    """Parse the words of one command of ``harness``, and run nothing."""
    group, names = cli(), []
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
    first, *rest = [*short().get(first, [first]), *rest]
    if first == "harness":
        parse(rest)
        return
    assert (Path(sys.executable).parent / first).exists(), f"{first} is not in the environment"
    for before, word in pairwise([first, *rest]):
        a_path = first == "pytest" and before not in {"-m", "-k"} and not word.startswith("-")
        if word.endswith(".py") or a_path:
            assert (ROOT / word).exists(), f"there is no {word}"


@pytest.mark.parametrize(("page", "line"), LINES)
def test_a_command_can_be_typed(page: str, line: str) -> None:
    assert page
    check(line)


@pytest.mark.parametrize(
    "line",
    [
        "python3 run.py harness judge --dataset python-docs",
        "python3 run.py harness stage index --dataset python-docs --arm fts5 --fast",
        "python3 run.py harness tune",
        "python3 run.py harness import xml FILE",
        "python3 run.py python benchmarks/absent.py",
        "python3 run.py no-such-program",
    ],
)
def test_a_command_that_cannot_be_typed_is_noticed(line: str) -> None:
    with pytest.raises(Exception, match=r"(?i)no |missing|not in|option"):
        check(line)


def test_pages_name_commands_and_links_at_all() -> None:
    assert len(LINES) > 20
    assert len(LINKS) > 20
    assert {"python3 run.py demo", "python3 run.py test"} <= {line for _, line in LINES}


@pytest.mark.parametrize(("page", "target"), LINKS, ids=lambda value: getattr(value, "name", value))
def test_a_link_leads_somewhere(page: Page, target: str) -> None:
    name, _, anchor = target.partition("#")
    path = (page.path.parent / name).resolve() if name else page.path
    assert path.exists(), f"{page.name} links to {target}"
    assert path.is_relative_to(ROOT)
    if anchor:
        assert anchor in Page(path).anchors()


def test_every_command_of_the_program_is_on_a_page() -> None:
    everything = "\n".join(page.text for page in pages())
    for name in cli().commands:
        assert re.search(rf"\bharness {name}\b", everything), f"no page names harness {name}"


def test_readme_commands_go_through_run_py() -> None:
    """A stranger has no ``harness`` on the path before run.py has made it."""
    for line in FENCE.sub("", (ROOT / "README.md").read_text(encoding="utf-8")).splitlines():
        if line.startswith("    ") and line.strip():
            assert line.startswith((f"    {COMMAND}", "    git ", "    pip install ")), line


ROWS = rows()


def test_an_id_names_one_promise() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))
    assert {name[0] for name in names} == {"Q", "A", "W", "D", "C", "E"}
    assert len(names) == sum(line.startswith("| ") for line in PAGE.text.splitlines()) - 2 * sum(
        line.startswith("| id |") for line in PAGE.text.splitlines()
    )


def test_each_promise_has_a_fault_and_the_page_says_so() -> None:
    assert {row for one in mutants() for row in one.rows} == {row.name for row in ROWS}
    assert f"Each of the {len(ROWS)} rows has a planted fault" in PAGE.text


def test_each_way_to_a_promise_is_there() -> None:
    wrong = [
        f"{row.name}: {said}" for row in ROWS for way in row.reached_by if (said := missing(way))
    ]
    assert wrong == []


def test_each_tool_is_a_way_to_something() -> None:
    named = {way.partition("(")[0] for row in ROWS for way in row.reached_by}
    assert {"search_messages", "search_messages_product", "complete_subject"} <= named
    assert {"rag_retrieve", "search_collection", "search_code"} <= named & tools().keys()


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("harness ask --explain", ""),
        ("harness notes ask --limit", ""),
        ("harness conjure", "no command conjure"),
        ("harness notes", "group of commands"),
        ("harness ask --loudly", "no option --loudly"),
        ("search_messages(sender, from_agent)", ""),
        ("search_messages(colour)", "takes no colour"),
        ("search_dreams(query)", "no tool search_dreams"),
        ("harness.engine_contract", ""),
        ("harness.no_such_thing", "cannot be called"),
        ("harness_engines.stacks.agent_mail.sqlite.schema.changed_of", "no page tells of"),
        ("by hand", "is no way"),
    ],
)
def test_what_is_not_there_is_told(way: str, said: str) -> None:
    assert said in missing(way) if said else not missing(way)


def test_a_cell_is_a_list_of_ways() -> None:
    assert ways("`harness ask`, `search_code(query)`") == ("harness ask", "search_code(query)")
    for wrong in ("", "harness ask", "`harness ask` and more"):
        with pytest.raises(ValueError, match="not `command`"):
            ways(wrong)


PAGE_CAPACITY = ROOT / "docs" / "capacity.md"
PICTURE = ROOT / "docs" / "images" / "capacity.svg"
POINTS = re.compile(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"')


def test_the_table_is_read_as_it_was_printed() -> None:
    decades = read(PAGE_CAPACITY)
    assert [one.documents for one in decades] == [10.0**at for at in DECADES]
    assert all(len(one.hours) == len(one.gigabytes) == len(ARMS) for one in decades)
    assert decades[-1].money == max(one.money for one in decades) > 0
    assert decades[0].beyond == "nothing"


def test_the_picture_is_that_of_the_table(tmp_path: Path) -> None:
    draw(read(PAGE_CAPACITY), tmp_path / "drawn.svg")
    drawn, kept = (
        [tuple(map(float, at)) for at in POINTS.findall(path.read_text("utf-8"))]
        for path in (tmp_path / "drawn.svg", PICTURE)
    )
    assert len(kept) > len(ARMS) * len(DECADES)
    assert len(drawn) == len(kept)
    assert all(
        abs(a - b) < 1
        for one, other in zip(drawn, kept, strict=True)
        for a, b in zip(one, other, strict=True)
    )
