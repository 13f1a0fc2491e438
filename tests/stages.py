"""``dvc.yaml``, made from the files that are declared and the modules that a stage reaches.

    python3 run.py python -m tests.stages

writes it anew.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from harness.core.parts import kinds
from harness.gates.base import rules
from harness.pipeline.layout import ROOT as TRACKED
from harness.pipeline.layout import Declared, Layout
from harness.policy.load import load_policy
from tests.source import ROOT, Module, known, reached

FILE = ROOT / "dvc.yaml"
HEAD = """\
# The pipeline: a stage is a module of harness.pipeline, and a command of the CLI. This file is made
# from the code. After a change of the code, make it again: python3 run.py python -m tests.stages
#
# Deterministic work and timed work are apart. What differs from day to day (the times of a race,
# the decision that rests on them, the pages) lies beside a receipt that does not; only receipts
# are tracked. An index is a cache and not tracked either; its manifest is.
"""
SET, ARM = "${item.dataset}", "${item.arm}"
OF_SET = {"dataset": "${datasets}"}
OF_ARM = {**OF_SET, "arm": "${arms}"}
SEVERAL = ("manifests", "runs", "scores", "compare")
"""Folders of a data set that a stage takes as a whole."""


@dataclass(frozen=True)
class Stage:
    """What neither the declarations nor the imports of a stage tell."""

    matrix: Mapping[str, str]
    reads: tuple[Declared[Any] | str, ...] = ()
    """Files and folders of a data set, or paths below the project."""
    params: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    """Code that is imported by a name in a file."""
    options: str = ""


def folders(count: int) -> tuple[str, ...]:
    return tuple(f"build/{SET}/{name}" for name in SEVERAL[:count])


def compared() -> tuple[str, ...]:
    """Name the arms that the policy compares, which are raced."""
    steps = load_policy(ROOT / "policy" / "migration.toml").steps
    return tuple(dict.fromkeys(arm for step in steps for arm in (step.control, step.candidate)))


def engines() -> tuple[str, ...]:
    """Name the code of all engines but the files of arms."""
    paths = (ROOT / "engines" / "harness_engines").iterdir()
    found = (path.relative_to(ROOT).as_posix() for path in sorted(paths))
    return tuple(path for path in found if not path.endswith(("arms", "py.typed", "__pycache__")))


def raced() -> Iterator[str]:
    for arm in compared():
        yield f"engines/harness_engines/arms/{arm}.toml"
        yield from (path(one).replace(ARM, arm) for one in (Layout.manifest, Layout.run))


SLICES = tuple(f"harness/{kind.name}" for kind in kinds())
RULES = tuple(rule for name in rules.names() if (rule := known().get(rules.load(name).__module__)))
"""Modules of the gates that are there."""
ONE_ARM = f"engines/harness_engines/arms/{ARM}.toml"
STAGES = {
    "prepare": Stage(OF_SET, (f"datasets/{SET}", f"qrels/{SET}", "requirements.lock")),
    "index": Stage(OF_ARM, (Layout.data, ONE_ARM, "requirements.lock"), loads=engines()),
    "replay": Stage(
        OF_ARM, (Layout.data, Layout.manifest, ONE_ARM, "requirements.lock"), ("replay",), engines()
    ),
    "score": Stage(OF_SET, (Layout.data, *folders(2)), ("arms", "score")),
    "compare": Stage(
        OF_SET, (Layout.data, *folders(3), "policy"), ("policy", "compare"), ("harness/gates",)
    ),
    "race": Stage(
        OF_SET, (Layout.data, "policy", "requirements.lock"),
        ("policy", "race", "replay.time_limit_s"), engines(),
    ),
    "gate": Stage(
        OF_SET,
        (Layout.data, *folders(4), Layout.race_receipt, f"datasets/{SET}", "policy"),
        ("arms", "compare", "policy", "score"), ("engines", "harness/gates", *SLICES),
        " --exit-zero",
    ),
    "report": Stage(
        {}, ("build", "datasets", "policy"), ("arms", "compare", "datasets", "policy", "score"),
        ("engines", "harness"),
    ),
}  # fmt: skip
METRICS = {"scores", "slices"}
UNCACHED = {"race.json", "findings.json"}
"""Outs that are small enough to be tracked as they are."""
UNTRACKED = {"tuning"}
"""Files that only some arms have."""


def path(one: Declared[Any]) -> str:
    """Return where a file of a data set lies, as DVC names it."""
    return f"build/{SET}/{one.path.format(arm=ARM)}"


def declared() -> Mapping[str, Declared[Any]]:
    """Find what is tracked of a data set, by its name; folders stand for nothing by themselves."""
    found = {
        name: one for name, one in vars(Layout).items()
        if isinstance(one, Declared) and one.place == TRACKED and name not in UNTRACKED
    }  # fmt: skip
    above = {str(up) for one in found.values() for up in PurePosixPath(one.path).parents}
    above |= {"tunings"}
    return {name: one for name, one in found.items() if one.path not in above}


def outs(stage: str) -> dict[str, list[Any]]:
    """List what a stage leaves, as DVC has it."""
    found: dict[str, list[Any]] = defaultdict(list)
    for name, one in declared().items():
        if one.made_by.removeprefix("stage ") == stage:
            uncached = {path(one): {"cache": False}} if one.path in UNCACHED else path(one)
            found["metrics" if name in METRICS else "outs"].append(uncached)
    return dict(found) or {"outs": [{"reports/receipt.json": {"cache": False}}]}


def module(stage: str) -> Module:
    """Return the module of a stage."""
    return known()[f"harness.pipeline.{stage}"]


def code(stage: str) -> Iterator[str]:
    """Name the code of a stage: folders that it needs half of or more, and modules of others."""
    judging = RULES if "harness/gates" in STAGES[stage].loads else ()
    needs = {one for first in (module(stage), *judging) for one in reached(first)}
    by: dict[Path, list[Module]] = defaultdict(list)
    for one in sorted(needs, key=lambda one: one.file):
        if one.says_something:
            by[one.path.parent].append(one)
    for folder, needed in by.items():
        every = [one for one in known().values() if one.path.parent == folder]
        says = sum(one.says_something for one in every)
        is_room = folder.relative_to(ROOT).parts not in {
            ("harness",),
            ("engines", "harness_engines"),
        }
        if is_room and 2 * len(needed) >= says:
            yield folder.relative_to(ROOT).as_posix()
        else:
            yield from (one.file for one in needed)


def deps(stage: str) -> list[str]:
    """List what a stage depends on, each path once, and none below another."""
    own = STAGES[stage]
    reads = [one if isinstance(one, str) else path(one) for one in own.reads]
    found = {*reads, *own.loads, *code(stage), *(raced() if stage == "race" else ())}
    return sorted(
        one for one in found if not {str(up) for up in PurePosixPath(one).parents} & found
    )


def pipeline() -> Mapping[str, Any]:
    """Return the stages of ``dvc.yaml`` in their order."""
    made = {}
    for name, own in STAGES.items():
        words = Layout.data.made_by.replace("prepare", name) if name in STAGED else name
        of = "".join(f" --{key} ${{item.{key}}}" for key in own.matrix)
        made[name] = {
            **({"matrix": dict(own.matrix)} if own.matrix else {}),
            "cmd": f"harness {words}{of}{own.options}",
            **({"params": list(own.params)} if own.params else {}),
            "deps": deps(name),
            **outs(name),
        }
    return made


STAGED = {one.made_by.removeprefix("stage ") for one in declared().values() if " " in one.made_by}
"""Stages whose command is of the group ``stage``."""


def text() -> str:
    """Write ``dvc.yaml``."""
    return HEAD + yaml.safe_dump({"stages": pipeline()}, sort_keys=False, width=100)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
