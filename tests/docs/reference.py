"""``docs/reference.md``, made from the code: keys, measures, variables, files.

    python3 run.py python -m tests.docs.reference

writes it anew. What only people can say, such as what a file is for, stands in ``reference.toml``;
all else is read from the program.
"""

import pkgutil
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from ir_measures.measures import registry as measures
from pydantic import BaseModel, ValidationError

from harness.agreement import agree
from harness.cli import application
from harness.core.engine import Hit
from harness.core.errors import HarnessError
from harness.core.files import write_text
from harness.core.names import LONGEST, LONGEST_LABEL, MAY
from harness.core.run import Row, Run, Status
from harness.corpus.card import DatasetCard
from harness.gates.base import rules as base_rules
from harness.judge.machine import EndpointSettings
from harness.measures.completion_bounds import BOUNDED
from harness.measures.name import parse
from harness.pipeline.layout import Declared, Layout
from harness.pipeline.params import Params
from harness.policy.model import GateHead, Header, StepTable
from harness.shadow.divergences import AcceptedDivergence
from harness.shadow.settings import ComparisonSettings, TrafficReading
from harness.shadow.summary import AlarmBounds
from harness.tune.stage import SearchTable
from harness_engines import registry as arms
from harness_engines import stacks
from harness_engines.stacks.agent_mail.pipeline.scope import ListedViewer
from tests.docs.pages import COMMAND, ROOT


class Arm(BaseModel):
    """The keys of an arm's file, which the registry reads by hand."""

    summary: str
    stack: str
    settings: dict[str, Any] = {}
    tuning: str = ""


PAGE = ROOT / "docs" / "reference.md"
MAKE = f"{COMMAND} python -m tests.docs.reference"
EXAMPLE = re.compile(r": (harness (?:[^.]|\.(?! [A-Z]))+)")
"""A command line within a help text; it ends with its block or its sentence."""
MODELS: tuple[tuple[str, str, type[BaseModel]], ...] = (
    ("`params.yaml`", "", Params), ("a policy", "policy", Header),
    ("a policy", "[[step]]", StepTable), ("a policy", "[[step.gate]]", GateHead),
    ("an arm", "", Arm), ("`card.toml`", "", DatasetCard),
    ("`--search` of `harness tune`", "search", SearchTable), ("`--machine`", "", EndpointSettings),
    ("`policy/shadow.toml`", "", ComparisonSettings), ("`--reading`", "", TrafficReading),
    ("`policy/watch.toml`", "", AlarmBounds),
    ("`policy/accepted.toml`", "[[accepted]]", AcceptedDivergence),
    ("`--viewers`", "viewers.NAME", ListedViewer),
)  # fmt: skip
"""Files that a person writes, a table of each, and what reads it."""
HEAD = f"""\
# Reference: keys, measures, variables, files

What exists, in tables made from the code. What a setting means: [settings](params.md) and
[engines](engines.md). What a number means: [method](method.md). Options of commands:
`--help`, or [the command line](command-line.md). Rebuild this page with `{MAKE}`.
"""


TOLD: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def page() -> str:
    """Write the page from what the program says of itself."""
    parts = [
        HEAD,
        *_exits(),
        *_keys(),
        *_measures(),
        *_environment(),
        *_names(),
        *_files(),
    ]
    return "\n".join(parts)


@cache
def _tree() -> Any:  # noqa: ANN401  click's group, which typer brings along
    return typer.main.get_command(application())


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with its words."""
    yield from _below(_tree(), ("harness",))


def _below(group: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401  click's group, which typer brings along
    for name, found in sorted(group.commands.items()):
        if hasattr(found, "commands"):
            yield from _below(found, (*names, name))
        else:
            yield (*names, name), found


def examples(help_text: str) -> list[str]:
    """Command lines of a help text, behind the word Example."""
    blocks = [" ".join(block.split()) for block in help_text.split("\n\n")]
    return [line for block in blocks for line in EXAMPLE.findall(block)]


def variables() -> dict[str, list[str]]:
    """Options that the environment can set: the variable, and where it counts."""
    found: dict[str, list[str]] = {}
    for names, command in commands():
        for param in command.params:
            for name in [param.envvar] if isinstance(param.envvar, str) else param.envvar or ():
                found.setdefault(name, []).append(f"{' '.join(names)} {param.opts[0]}")
    return found


def _exits() -> Iterator[str]:
    yield "## Exit codes\n"
    yield from _table(("code", "means"), TOLD["exits"].items())


def _keys() -> Iterator[str]:
    yield "## Keys of every TOML file\n"
    yield TOLD["keys"]
    rows: list[tuple[str, ...]] = []
    for file, table, model in MODELS:
        rows += [(file, *cells) for cells in keys(model, table)]
    yield from _table(("file", "table", "required", "optional"), rows)
    rows = []
    for name in base_rules.names():
        where = f"[`{name}`](params.md#{name})"
        rows += [(where, *cells) for _, *cells in keys(base_rules.load(name))]
    yield from _table(("rule of a `[[step.gate]]`", "required", "optional"), rows)
    rows = []
    for name, module in sorted(arms.STACKS.items()):
        settings = settings_of(pkgutil.resolve_name(f"{stacks.__name__}.{module}"))
        where = f"[`{name}`](engines.md#{name.replace('/', '')})"
        both = (", ".join(_named(settings, needed=needed)) for needed in (True, False))
        rows.append((where, *both))
    yield from _table(("stack of an arm, `[settings]`", "required", "optional"), rows)


def settings_of(stack: ModuleType) -> type[BaseModel]:
    """Return the class that a stack reads its settings by, which names itself in a refusal."""
    try:
        stack.engine({"?": 0}, ROOT)
    except ValidationError as exc:
        modules = (one for one in (stack, *vars(stack).values()) if isinstance(one, ModuleType))
        named = {name: one for module in modules for name, one in vars(module).items()}
        found: type[BaseModel] = named[exc.title]
        return found
    raise LookupError(f"{stack.__name__} takes any setting")


def keys(model: type[BaseModel], table: str = "") -> Iterator[tuple[str, str, str]]:
    """Table, required and optional keys of a model, and of each table in it."""
    inner = {
        name: field.annotation
        for name, field in model.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }
    must, may = (
        ", ".join(name for name in _named(model, needed=needed) if name.strip("`") not in inner)
        for needed in (True, False)
    )
    if must or may:
        yield (
            (f"`[{table}]`" if table and "[" not in table else f"`{table}`" * bool(table)),
            must,
            may,
        )
    for name, found in inner.items():
        yield from keys(found, f"{table}.{name}".strip("."))


def _named(model: type[BaseModel], *, needed: bool) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if field.is_required() is needed and field.annotation is not type(None):
            yield f"`{field.alias or name}`"


def _measures() -> Iterator[str]:
    yield "## Measures\n"
    yield TOLD["measures"].format(bounded=", ".join(f"`{name}`" for name in sorted(BOUNDED)))
    rows = []
    for name, measure in sorted(measures.items()):
        forms = [form for form in (name, f"{name}@10") if _known(form)]
        if forms and name == measure.NAME:
            given = (key for key in measure.SUPPORTED_PARAMS if key != "cutoff")

            shown = ", ".join(f"`{form.replace('10', 'k')}`" for form in forms)
            rows.append((shown, ", ".join(f"`{key}`" for key in given)))
    yield from _table(("measure", "settings"), rows)
    yield "### Agreement\n"
    yield TOLD["agreement"]
    said = sorted({name.replace("@10", "@k") for name in _agreements()})
    yield ", ".join(f"`{name.replace('nDCG@k-of', 'nDCG@10-of')}`" for name in said) + ".\n"


def _known(name: str) -> bool:
    try:
        parse(name)
    except HarnessError:
        return False
    return True


def _agreements() -> Iterable[str]:
    row = Row("q", Status.ANSWERED, (Hit("d", 1.0, 1.0),), "somebody")
    run = Run.of("arm", [row])
    return agree(run, run, depths=(10,), p=0.9).scores


def _environment() -> Iterator[str]:
    yield "## Environment\n"
    rows = [(f"`{name}`", f"`{', '.join(of)}`: as the option") for name, of in variables().items()]
    rows += [(f"`{name}`", said) for name, said in TOLD["environment"].items()]
    yield from _table(("variable", "what it does"), sorted(rows))


def _names() -> Iterator[str]:
    yield "## Names\n"
    yield (
        f"The name of a data set, split or arm is one word of at most {LONGEST} bytes:"
        f" {MAY}.\nTwo that differ only by their case are one. The name of a policy, step or gate"
        f" is a line of at most {LONGEST_LABEL}\ncharacters. Other names are refused.\n"
    )


def _files() -> Iterator[str]:
    yield "## Files\n"
    yield TOLD["files_head"]
    every = {**layout(), **TOLD["pipeline"]}
    rows = [
        (f"`{path}`", said)
        for path, said in every.items()
        if not path.startswith(".cache") and not any(f"{path}/" in other for other in every)
    ]
    yield from _table(("file", "what is in it"), sorted(rows))
    for head, files in TOLD["files"].items():
        yield f"### {head}\n"
        yield from _table(
            ("file", "what is in it"), ((f"`{path}`", said) for path, said in files.items())
        )


def layout() -> dict[str, str]:
    """Where the files of a data set lie, what each holds and what makes it, as declared."""
    at = Layout(Path("build/NAME"), Path("perf/NAME"), Path(".cache/NAME"))
    every = (one for one in vars(Layout).values() if isinstance(one, Declared))
    return {
        one.at(at, "ARM").as_posix(): f"{_plain(one.about)} (`harness {one.made_by}`)"
        for one in every
    }


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |\n|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def _plain(text: str) -> str:
    """Words of the code as Markdown shows them: nothing in them is a tag."""
    return text.replace("``", "`").replace("<", "\\<").replace("[[", "\\[[")


if __name__ == "__main__":
    write_text(PAGE, page())
