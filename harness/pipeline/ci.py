"""What a build server shows of a run: is a change worse, where, and what changed around it."""

import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
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
from harness.pipeline.receipts import read_manifest
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
        changed: tuple[str, ...] = ()
        recorded = "indexes alone, for the baseline has no record of packages"
        if (baseline / FILE).is_file():
            changed = RunInputs.here().since(INPUTS.read(baseline / FILE))
            recorded = "packages, Python and indexes"
        try:
            found = regress(layout, then, policy, params, arms=())
        except Incomparable as exc:
            open_ = Verdict.INCONCLUSIVE
            against = Against(open_, (), (), frozenset(), changed, recorded, str(exc))
        else:
            before = sides(then, [arm for arm in arms if arm not in found.new])
            for arm in before:
                was, here = read_manifest(then, arm), read_manifest(layout, arm)
                if other := index_changes(was, here):
                    changed = (*changed, f"index of {arm}: {other}")
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
    INPUTS.write(folder / FILE, RunInputs.here())
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


class RunInputs(BaseModel):
    """What is installed around a run, by version."""

    model_config = ConfigDict(frozen=True)
    packages: dict[str, str]
    python: str

    @classmethod
    def here(cls) -> "RunInputs":
        """Record what is installed."""
        return cls(
            packages=dict(sorted((one.metadata["Name"], one.version) for one in distributions())),
            python=platform.python_version(),
        )

    def since(self, before: "RunInputs") -> tuple[str, ...]:
        """Describe what differs, by kind."""
        ours, theirs = self.packages, before.packages
        moved = [
            f"{name} {theirs.get(name, 'absent')} → {ours.get(name, 'absent')}"
            for name in sorted({*ours, *theirs})
            if ours.get(name) != theirs.get(name)
        ]
        more = f" and {len(moved) - NAMED} more" if len(moved) > NAMED else ""
        found = [f"packages: {', '.join(moved[:NAMED])}{more}"] if moved else []
        python = [f"Python {before.python} → {self.python}"] if before.python != self.python else []
        return (*found, *python)


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
