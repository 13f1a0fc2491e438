"""``docs/reference.md``, made from the code: settings, arms, measures, files.

    python3 run.py python -m tests.docs.reference

writes it anew. What only people can say, such as what a file is for, stands in
``reference_words``; all else is read from the program.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import typer
from ir_measures.measures import registry as measures
from pydantic import BaseModel

from engines import registry as arms
from harness.agreement import agree
from harness.cli import application
from harness.core.engine import Hit
from harness.core.errors import HarnessError
from harness.core.files import write_text
from harness.core.names import LONGEST, LONGEST_LABEL, MAY
from harness.core.run import Row, Run, Status
from harness.gates.base import rules as base_rules
from harness.measures.completion_bounds import BOUNDED
from harness.measures.kernels import KERNELS
from harness.measures.name import parse
from harness.pipeline.layout import Declared, Layout
from harness.pipeline.params import Params
from harness.policy.model import Demands, Header, Premises, StepTable
from tests.docs import reference_words as words
from tests.docs.pages import COMMAND, ROOT

PAGE = ROOT / "docs" / "reference.md"
MAKE = f"{COMMAND} python -m tests.docs.reference"
EXAMPLE = re.compile(r": (harness (?:[^.]|\.(?! [A-Z]))+)")
"""A command line within a help text; it ends with its block or its sentence."""
PLURAL = {"text": "texts", "number": "numbers", "whole number": "whole numbers"}
HEAD = f"""\
# Reference: keys, arms, measures, variables, files

For looking up, not for reading. This page is made from the code, and a test says when it is not
up to date; so change the code, and then run

    {MAKE}

What a setting means stands in [params.md](params.md), what a number means in
[method.md](method.md), how to do a thing in [the guides](README.md).
Options of commands: `--help`, or [the command line](command-line.md) on the site.
"""


def page() -> str:
    """Write the page from what the program says of itself."""
    parts = [
        HEAD,
        *_exits(),
        *_params(),
        *_policy(),
        *_arms(),
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
    yield from _table(("code", "means"), ((str(code), said) for code, said in words.EXITS.items()))


def _params() -> Iterator[str]:
    yield "## `params.yaml`\n"
    yield "Every key must be there. What each means: [params.md](params.md#paramsyaml).\n"
    rows: list[tuple[str, ...]] = []
    for name, field in Params.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            rows += [(f"`{name}.{key}`", said) for key, said, _ in keys(inner)]
        else:
            rows += [(f"`{key}`", said) for key, said, _ in keys(Params) if key == name]
    yield from _table(("key", "takes"), rows)


def _policy() -> Iterator[str]:
    yield "## Policies\n"
    yield "What each key means, and what has to be in a policy: [params.md](params.md#a-policy).\n"
    rows = [(f"`[policy]` `{key}`", said, must) for key, said, must in keys(Header)]
    rows += [(f"`[policy.evidence]` `{key}`", said, must) for key, said, must in keys(Demands)]
    rows += [(f"`[policy.premises]` `{key}`", said, must) for key, said, must in keys(Premises)]
    rows += [(f"`[[step]]` `{key}`", said, must) for key, said, must in keys(StepTable)]
    rows += [(f"`[[step.gate]]` `{key}`", "text", "must be there") for key in ("name", "rule")]
    yield from _table(("key", "takes", "without it"), rows)
    yield "### Rules\n"
    yield "The keys of a `[[step.gate]]` beside `name` and `rule`.\n"
    rules = []
    for name in base_rules.names():
        given = keys(base_rules.load(name).settings)
        said = "; ".join(
            f"`{key}` {what}{', optional' if must != 'must be there' else ''}"
            for key, what, must in given
        )
        about = (base_rules.load(name).settings.__doc__ or "").split("\n")[0]
        rules.append((f"[`{name}`](params.md#{name})", _plain(about), said))
    yield from _table(("rule", "asks", "keys"), rules)


def keys(model: type[BaseModel]) -> list[tuple[str, str, str]]:
    """Key, what it takes and what stands for it where it is absent; but for keys of no value."""
    schema = model.model_json_schema()
    found = []
    for key, about in schema["properties"].items():
        if about.get("type") == "null":
            continue
        default = about.get("default")
        absent = "must be there" if key in schema.get("required", ()) else ""
        absent = absent or (f"`{str(default).lower()}`" if default not in (None, [], ()) else "")
        found.append((key, _schema(about, schema.get("$defs", {})), absent))
    return found


def _schema(about: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    if "$ref" in about:
        return _schema(defs[about["$ref"].rpartition("/")[2]], defs)
    if "anyOf" in about:
        kinds = [_schema(one, defs) for one in about["anyOf"] if one.get("type") != "null"]
        return " or ".join(kinds)
    if "enum" in about:
        return ", ".join(f"`{value}`" for value in about["enum"])
    if about.get("type") == "array":
        inner = _schema(about["items"], defs).partition(", ")[0]
        return f"list of {PLURAL.get(inner, inner)}"
    plain = {"integer": "whole number", "number": "number", "string": "text", "boolean": "boolean"}
    said = plain.get(about.get("type", ""), "table")
    for key, word in words.LIMITS.items():
        if key in about:
            value = about[key]
            said += f", {word} {value:g}" if isinstance(value, (int, float)) else f", {word}"
    return said


def _arms() -> Iterator[str]:
    yield "## Arms\n"
    yield "Why each is here, and the settings of the stacks: [engines.md](engines.md).\n"
    rows = []
    for name in arms.names():
        about = tomllib.loads(arms.path_of(name).read_text(encoding="utf-8"))
        stack = str(about["stack"])
        link = f"[`{stack}`](engines.md#{stack.replace('/', '')})"
        rows.append((f"`{name}`", link, _plain(about["summary"])))
    yield from _table(("arm", "stack", "what it is"), rows)


def _measures() -> Iterator[str]:
    yield "## Measures\n"
    yield words.MEASURES
    rows = []
    for name, measure in sorted(measures.items()):
        forms = [form for form in (name, f"{name}@10") if _known(form)]
        if forms and name == measure.NAME:
            given = (key for key in measure.SUPPORTED_PARAMS if key != "cutoff")
            yes = ["arrays" if name in KERNELS else "ir-measures"]
            bounds = "yes" if f"{name}@k" in BOUNDED else ""
            shown = ", ".join(f"`{form.replace('10', 'k')}`" for form in forms)
            rows.append((shown, ", ".join(f"`{key}`" for key in given), *yes, bounds))
    head = ("measure", "settings", "computed by", "bounds of missing judgements")
    yield from _table(head, rows)
    yield "### Agreement\n"
    yield words.AGREEMENT
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
    rows += [(f"`{name}`", said) for name, said in words.ENVIRONMENT.items()]
    yield from _table(("variable", "what it does"), sorted(rows))


def _names() -> Iterator[str]:
    yield "## Names\n"
    yield (
        f"Data sets, splits and arms are called by one word of at most {LONGEST} bytes:"
        f" {MAY}.\nTwo that differ only by their case are one. A policy, a step and a gate are"
        f" called by a line of at most {LONGEST_LABEL}\ncharacters. Anything else, in an option or"
        " in a file, is refused before a path is made of it.\n"
    )


def _files() -> Iterator[str]:
    yield "## Files\n"
    yield words.FILES_HEAD
    rows = [(f"`{path}`", said) for path, said in layout().items()]
    rows += [(f"`{path}`", said) for path, said in words.PIPELINE.items()]
    yield from _table(("file", "what is in it"), sorted(rows))
    for head, files in words.FILES.items():
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
