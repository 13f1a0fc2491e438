"""What a build server shows of a run: is a change worse, where, and what changed around it."""

from __future__ import annotations

import math
import platform
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict

from harness.core.engine import Manifest
from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import ArmResult
from harness.core.files import write_json, write_text
from harness.core.formats import json_file
from harness.core.gate import StepDecision, Verdict
from harness.core.printable import many
from harness.core.reading import numbered
from harness.core.records import Query
from harness.core.scores import Paired, Scores
from harness.core.store import Artifact, Json
from harness.corpus import beir
from harness.corpus.prepared import Prepared
from harness.pipeline.evidence import sides
from harness.pipeline.layout import Layout, left_by_run
from harness.pipeline.params import CompareParams
from harness.pipeline.receipts import git, read_manifest
from harness.pipeline.regress import Incomparable, Regression, of_folder, regress
from harness.policy.model import Policy
from harness.report import decision as decision_json
from harness.report.ci import Against, CiResult, Held, Loss, gitlab, notes, to_markdown

DECISION = "decision.json"
COMMENT, QUALITY = "ci.md", "gl-code-quality-report.json"
HINT = "Give the folder that was --out of one harness run"
DIGITS = 1e-8
"""``decision.json`` keeps ten significant digits of a mean."""
BEFORE = " before"


def check(
    folder: Path,
    baseline: Path | None,
    queries: Path | None,
    *,
    policy: Policy,
    params: CompareParams,
    report: str = "",
) -> CiResult:
    """Assemble what a ``harness run`` left in ``folder`` and, if named, in ``baseline``."""
    layout = left_by_run(folder)
    arms = tuple(arm for (arm,) in layout.read(Layout.per_query))
    now = sides(layout, arms)
    measure = next(iter(now[arms[0]].scores))
    texts = {query.query_id: query for query in Prepared.open(layout.data).queries()}
    lines = _lines(queries, texts) if queries else {}
    decisions = _decided(folder / DECISION, now, measure)
    held = [*_between_arms(decisions, now, measure, texts)]
    against = None
    if baseline:
        then = of_folder(baseline, layout.root.name)
        data = seen_from_root(queries.parent) if queries else ""
        changed, recorded = _changed(folder, baseline, data)
        try:
            found = regress(layout, then, policy, params, arms=())
        except Incomparable as exc:
            open_ = Verdict.INCONCLUSIVE
            against = Against(open_, (), (), frozenset(), changed, recorded, str(exc))
        else:
            before = sides(then, [arm for arm in arms if arm not in found.new])
            changed = (*changed, *_indexes(layout, then, before))
            decisions_ = tuple(one for one in found.decisions if one.candidate not in found.same)
            against = Against(found.verdict, decisions_, found.moved, found.same, changed, recorded)
            held = [*_since(found, before, now, measure, texts), *held]
    return CiResult(
        place=seen_from_root(folder),
        dataset=layout.root.name,
        measure=measure,
        means={arm: one.scores[measure].mean for arm, one in now.items()},
        decisions=decisions,
        held=tuple(held),
        against=against,
        report=report,
        file=seen_from_root(queries) if queries else "",
        lines=lines,
    )


def write(checked: CiResult, folder: Path, most: int) -> Path:
    """Write the comment, the Code Quality report and what the answers rest on into ``folder``."""
    write_text(folder / COMMENT, to_markdown(checked, most))
    write_json(folder / QUALITY, gitlab(notes(checked, most)))
    INPUTS.write(folder / FILE, RunInputs.around(folder))
    return folder / COMMENT


def seen_from_root(path: Path) -> str:
    """Name a file as its repository does; as it is given without a repository."""
    whole = path.resolve()
    root = next((folder for folder in whole.parents if (folder / ".git").exists()), None)
    return whole.relative_to(root).as_posix() if root else path.as_posix()


def _decided(path: Path, now: Mapping[str, ArmResult], measure: str) -> tuple[StepDecision, ...]:
    """Read what was decided of the run, if anything was; its means are those of the run."""
    if not path.exists():
        return ()
    try:
        whole: dict[str, Any] = json_file(path)
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"no decision ({exc})", HINT) from exc
    decisions = tuple(one.decision for one in decision_json.from_json(whole, path))
    if len(whole["datasets"]) != 1:
        raise BadFile(path, f"is of {len(whole['datasets'])} data sets, not of one", HINT)
    means = whole["datasets"][0]["quality"]["means"]
    for arm, one in now.items():
        said, mean = (means.get(arm) or {}).get(measure), one.scores[measure].mean
        same = said is not None and mean is not None and math.isclose(
            said["value"], mean, rel_tol=DIGITS, abs_tol=DIGITS
        )  # fmt: skip
        if not same and (said, mean) != (None, None):
            raise EvidenceError(f"{path}: is not of the run beside it. {HINT}")
    return decisions


def _changed(folder: Path, baseline: Path, data: str) -> tuple[tuple[str, ...], str]:
    """Return what changed since the baseline, and what was looked at to find it."""
    now = RunInputs.around(folder)
    looked = "packages, Python and indexes"
    if not (baseline / FILE).is_file():
        return (), "indexes alone, for the baseline has no record of files and packages"
    before = INPUTS.read(baseline / FILE)
    if before.files and now.files:
        looked = f"the repository's files, {looked}"
    return now.since(before, data), looked


def _indexes(layout: Layout, then: Layout, arms: Mapping[str, ArmResult]) -> Iterator[str]:
    for arm in arms:
        before: Manifest = read_manifest(then, arm)
        if other := index_changes(before, read_manifest(layout, arm)):
            yield f"index of {arm}: {other}"


def _lines(path: Path, asked: Mapping[str, Query]) -> Mapping[str, int]:
    pairs = zip(numbered(path), beir.queries(path), strict=True)
    found = {query.query_id: number for (number, _), query in pairs}
    missing = sorted(asked.keys() - found.keys())
    if missing:
        problem = f"it lacks {many(len(missing), 'query')} of the run, for example {missing[0]}"
        raise BadFile(path, problem, "Give the queries.jsonl of the run")
    return found


def _between_arms(
    decisions: Sequence[StepDecision],
    now: Mapping[str, ArmResult],
    measure: str,
    texts: Mapping[str, Query],
) -> Iterator[Held]:
    for step in decisions:
        if {step.control, step.candidate} <= now.keys():
            control, candidate = (
                now[arm].scores[measure] for arm in (step.control, step.candidate)
            )
            losses = lost(control, candidate, texts)
            yield Held(step.candidate, step.control, losses, step.verdict)


def _since(
    found: Regression,
    before: Mapping[str, ArmResult],
    now: Mapping[str, ArmResult],
    measure: str,
    texts: Mapping[str, Query],
) -> Iterator[Held]:
    verdicts = {one.candidate: one.verdict for one in found.decisions}
    for arm, then in before.items():
        if measure in then.scores:
            losses = lost(then.scores[measure], now[arm].scores[measure], texts)
            yield Held(arm, arm + BEFORE, losses, verdicts.get(arm))


def lost(before: Scores, now: Scores, texts: Mapping[str, Query]) -> tuple[Loss, ...]:
    """Find queries that lost; a query without an answer comes before all that have one."""
    old = before.by_query
    gone = [
        Loss(query_id, texts[query_id].text, old[query_id], None, why)
        for why, ids in now.undefined.items()
        for query_id in ids
        if query_id in old
    ]
    pairs = Paired.of(before, now)
    rows = zip(
        pairs.difference.tolist(),
        pairs.query_ids,
        pairs.control.tolist(),
        pairs.candidate.tolist(),
        strict=True,
    )
    fell = sorted(row for row in rows if row[0] < 0)
    return (
        *sorted(gone, key=lambda loss: loss.query_id),
        *(Loss(name, texts[name].text, was, value, "") for _, name, was, value in fell),
    )


FILE = "inputs.json"
NAMED = 4
SETTINGS = frozenset({
    ".cfg",
    ".env",
    ".ini",
    ".json",
    ".lock",
    ".properties",
    ".toml",
    ".xml",
    ".yaml",
    ".yml",
})
TEXTS = frozenset({".md", ".rst", ".txt"})
DATA, CODE, SET, OTHER = "data", "code", "settings", "other files"


class RunInputs(BaseModel):
    """What lies around a run, by digest or version."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    commit: str
    """Of the repository; empty without git."""
    files: dict[str, str]
    """Digest of each file that git tracks or would track, from the root; empty without git."""
    packages: dict[str, str]
    python: str

    @classmethod
    def around(cls, folder: Path) -> RunInputs:
        """Record the repository around a folder, and what is installed; ``folder`` is left out."""
        return cls(
            commit=git(folder, "rev-parse", "HEAD").strip(),
            files=_files_of_git(folder),
            packages=dict(sorted((one.metadata["Name"], one.version) for one in distributions())),
            python=platform.python_version(),
        )

    def since(self, before: RunInputs, data: str) -> tuple[str, ...]:
        """Describe what differs, by kind; ``data`` is the folder of the data, from the root."""
        kinds: dict[str, list[str]] = defaultdict(list)
        for name in _other(before.files, self.files):
            kinds[_kind(name, data)].append(name)
        found = [
            f"{kind}: {_some(kinds[kind])}" for kind in (CODE, SET, DATA, OTHER) if kinds[kind]
        ]
        moved = [
            f"{name} {before.packages.get(name, 'absent')} → {self.packages.get(name, 'absent')}"
            for name in _other(before.packages, self.packages)
        ]
        found += [f"packages: {_some(moved)}"] if moved else []
        if before.python != self.python:
            found.append(f"Python {before.python} → {self.python}")
        return tuple(found)


INPUTS: Artifact[RunInputs] = Json(
    "a record of inputs", RunInputs, remedy="Run harness ci there again."
)


def index_changes(before: Manifest, now: Manifest) -> str:
    """Describe how the index of an arm differs; empty where it does not."""
    fields = {
        "engine": "engine",
        "version": "code of the engine",
        "settings_sha256": "settings",
        "corpus_sha256": "documents",
    }
    other = [what for key, what in fields.items() if getattr(before, key) != getattr(now, key)]
    return ", ".join(other)


def _files_of_git(folder: Path) -> dict[str, str]:
    """Return the name that git has for the content of each file, by its path, as it is now."""
    root = Path(git(folder, "rev-parse", "--show-toplevel").rstrip("\n") or folder)

    def listed(*kinds: str) -> list[str]:
        return [one for one in git(root, "ls-files", "-z", *kinds).split("\0") if one]

    tracked = (line.partition("\t") for line in listed("-s"))
    found = {name: about.split()[1] for about, _, name in tracked}
    for name in listed("-d"):
        found.pop(name, None)
    own = folder.resolve()
    other = sorted({
        name
        for name in listed("-m", "-o", "--exclude-standard")
        if "\n" not in name and "__pycache__/" not in name and (root / name).is_file()
        if not (root / name).resolve().is_relative_to(own)
    })
    given = "".join(f"{name}\n" for name in other)
    digests = git(root, "hash-object", "--stdin-paths", given=given).split()
    return dict(sorted({**found, **dict(zip(other, digests, strict=False))}.items()))


def _other(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def _kind(name: str, data: str) -> str:
    path = PurePosixPath(name)
    if data and path.is_relative_to(data):
        return DATA
    if path.suffix in SETTINGS or path.name.startswith("requirements"):
        return SET
    return OTHER if path.suffix in TEXTS else CODE


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return ", ".join(every[:NAMED]) + more
