"""Every arm against itself in an earlier release: for people, and for build servers."""

import math
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.agreement import agree
from harness.core.digest import of_file
from harness.core.engine import Manifest
from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import ArmResult, Evidence
from harness.core.files import write_json, write_text
from harness.core.formats import json_file, yaml_of
from harness.core.gate import StepDecision
from harness.core.printable import many
from harness.core.reading import Malformed, numbered
from harness.core.records import Query
from harness.core.scores import Paired, Scores
from harness.corpus import beir
from harness.corpus.prepared import Prepared
from harness.gates.base.rules import Rules
from harness.pipeline.compare import difference
from harness.pipeline.evidence import sides
from harness.pipeline.layout import Layout, left_by_run
from harness.pipeline.params import CompareParams
from harness.pipeline.receipts import FOLDER, LOCK, read_twice
from harness.pipeline.score import slices
from harness.policy.decision import decide
from harness.policy.load import for_arms
from harness.policy.model import Policy
from harness.report import ci
from harness.report import decision as decision_json

CACHE = Path(".dvc") / "cache" / "files" / "md5"
TIMED = frozenset({"race.json", "findings.json"})
"""Receipts of files with times: DVC keeps their digests alone, and nothing here reads them."""
WITHIN = ("", "build", "work/build")
"""Where below a folder a data set may lie: itself, a project's, or a run's."""


def of_folder(folder: Path, dataset: str) -> Layout:
    """Find the data set in a project, a ``build`` folder, or what ``harness run`` left."""
    for place in WITHIN:
        if (folder / place / dataset / "data").is_dir():
            found = folder / place / dataset
            return Layout(found, found, found)
    raise BadFile(
        folder,
        f"holds no evidence of {dataset}",
        "Give a project, its build folder, or the --out of a harness run",
    )


def of_revision(root: Path, revision: str, dataset: str, to: Path) -> Layout:
    """Copy what ``revision`` recorded of the data set from DVC's cache to ``to``."""
    wanted = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    text = _git(root, "show", f"{_git(root, 'rev-parse', *wanted).strip()}:{LOCK}")
    prefix = f"build/{dataset}/"
    try:
        outs = [
            (out["path"], out["md5"])
            for stage in yaml_of(text)["stages"].values()
            for out in stage["outs"]
            if out["path"].startswith(prefix) and Path(out["path"]).name not in TIMED
        ]
    except (Malformed, KeyError, TypeError, AttributeError) as exc:
        problem = f"of {revision} is not what DVC writes ({exc!r})"
        raise BadFile(root / LOCK, problem, "Name another revision") from exc
    if not outs:
        raise EvidenceError(f"{LOCK} of {revision} records nothing of {dataset}")
    for path, md5 in outs:
        files = {path: md5}
        if md5.endswith(FOLDER):
            rows = json_file(_cached(root, md5, path))
            files = {f"{path}/{row['relpath']}": row["md5"] for row in rows}
        for name, digest in files.items():
            place, what = to / name, f"{name} of {revision}"
            if ".." in place.parts:
                raise EvidenceError(f"{what} would lie elsewhere. Name another revision")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_cached(root, digest, what), place)
    return Layout(to / prefix, to / prefix, to / prefix)


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(  # noqa: S603  no shell; a revision is no option
        ["git", "-C", str(root), *words],  # noqa: S607  the one on the path
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip() or "no such revision"
        raise EvidenceError(
            f"git {' '.join(words[-1:])}: {said}. Name a revision of {root}, or a folder"
        )
    return done.stdout


def _cached(root: Path, md5: str, what: str) -> Path:
    """Find a file of the cache, and hold it against its name."""
    path = root / CACHE / md5[:2] / md5[2:]
    if not path.is_file():
        raise EvidenceError(
            f"{what} is not in {CACHE}. Fetch it (dvc fetch), or check the revision out beside, run"
            " the demo there, and give its folder"
        )
    if of_file(path, "md5") != md5.removesuffix(FOLDER):
        raise EvidenceError(f"{path}: is not what its name says. Remove it, and fetch it again")
    return path


class Incomparable(EvidenceError):
    """Two releases were measured on different data, or have no arm in common."""


DATA = {"corpus": "documents", "queries": "queries", "qrels": "judgements"}
INDEX = {
    "engine": "engine",
    "version": "code of the engine",
    "settings_sha256": "settings",
    "corpus_sha256": "documents",
}
"""Fields of a manifest, in words."""


def regress(
    now: Layout, then: Layout, policy: Policy, params: CompareParams, *, arms: Sequence[str]
) -> ci.Against:
    """Judge each arm that both releases measured; ``arms`` names some of them, or none for all."""
    data, before = Prepared.open(now.data), Prepared.open(then.data)
    for kind, what in DATA.items():
        if getattr(data.manifest, f"{kind}_sha256") != getattr(before.manifest, f"{kind}_sha256"):
            raise Incomparable(
                f"{then.data}: has other {what} than {now.data}; measures of the two are of"
                " different things. Compare with a release that was measured on the same data"
            )
    old, new = (tuple(arm for (arm,) in of.read(Layout.per_query)) for of in (then, now))
    both = tuple(arm for arm in new if arm in old)
    missing = [arm for arm in arms if arm not in both]
    if missing or not both:
        raise Incomparable(
            f"{', '.join(missing) or 'no arm'} was measured in both releases; then there were"
            f" {', '.join(old)}, now {', '.join(new)}"
        )
    both = tuple(arm for arm in both if arm in arms) if arms else both
    was, is_ = sides(then, both), sides(now, both)
    queries, together = data.queries(), data.clusters(policy.clusters)
    evidence = {
        arm: Evidence(
            dataset=data.manifest.name,
            control=was[arm],
            candidate=is_[arm],
            agreement=agree(was[arm].run, is_[arm].run, depths=params.depths, p=params.rbo_p),
            noise=agree(*read_twice(now, arm), depths=params.depths, p=params.rbo_p),
            others={},
            slices=slices(queries),
            clusters=together,
            qrels=data.qrels(),
            complete=data.manifest.complete,
        )
        for arm in both
    }
    decisions = decide(for_arms(policy, both), evidence, now=datetime.now(UTC))
    verdicts = {one.candidate: one.verdict for one in decisions}
    texts = {query.query_id: query for query in queries}
    moved = [row for arm in both for row in _moved(was[arm], is_[arm], together, policy.rules)]
    indexes = {arm: index_changes(was[arm].manifest, is_[arm].manifest) for arm in both}
    held = []
    for arm in both:
        measure = next(iter(is_[arm].scores))
        if measure in was[arm].scores:
            losses = lost(was[arm].scores[measure], is_[arm].scores[measure], texts)
            held.append(ci.Held(arm, f"{arm} before", losses, verdicts[arm]))
    return ci.Against(
        dataset=data.manifest.name,
        decisions=decisions,
        moved=tuple(moved),
        held=tuple(held),
        same=frozenset(arm for arm in both if was[arm].run.shows_the_same(is_[arm].run)),
        changed=tuple(f"index of {arm}: {other}" for arm, other in indexes.items() if other),
        gone=tuple(arm for arm in old if arm not in new),
        new=tuple(arm for arm in new if arm not in old),
    )


def _moved(
    then: ArmResult, now: ArmResult, together: Mapping[str, str], rules: Rules
) -> Iterator[ci.MeasureOutcome]:
    for measure, scores in now.scores.items():
        before = then.scores.get(measure)
        if before and (apart := difference(before, scores, rules, together)):
            paired = Paired.of(before, scores)
            levels = float(paired.control.mean()), float(paired.candidate.mean())
            yield ci.MeasureOutcome(now.arm, measure, *levels, apart)


def lost(before: Scores, now: Scores, texts: Mapping[str, Query]) -> tuple[ci.Loss, ...]:
    """Find queries that lost; a query without an answer comes before all that have one."""
    old = before.by_query
    gone = [
        ci.Loss(query_id, texts[query_id].text, old[query_id], None, why)
        for why, ids in now.undefined.items()
        for query_id in ids
        if query_id in old
    ]
    pairs = Paired.of(before, now)
    columns = (pairs.difference.tolist(), pairs.control.tolist(), pairs.candidate.tolist())
    fell = sorted(row for row in zip(columns[0], pairs.query_ids, *columns[1:], strict=True))
    return (
        *sorted(gone, key=lambda loss: loss.query_id),
        *(
            ci.Loss(name, texts[name].text, was, value, "")
            for by, name, was, value in fell
            if by < 0
        ),
    )


def index_changes(before: Manifest, now: Manifest) -> str:
    """Describe how the index of an arm differs; empty where it does not."""
    other = [what for key, what in INDEX.items() if getattr(before, key) != getattr(now, key)]
    return ", ".join(other)


DECISION = "decision.json"
COMMENT, QUALITY = "ci.md", "gl-code-quality-report.json"
HINT = "Give the folder that was --out of one harness run"
DIGITS = 1e-8
"""``decision.json`` keeps ten significant digits of a mean."""


def check(
    folder: Path,
    baseline: Path | None,
    queries: Path | None,
    *,
    policy: Policy,
    params: CompareParams,
    report: str = "",
) -> ci.CiResult:
    """Assemble what a ``harness run`` left in ``folder`` and, if named, in ``baseline``."""
    layout = left_by_run(folder)
    arms = tuple(arm for (arm,) in layout.read(Layout.per_query))
    now = sides(layout, arms)
    measure = next(iter(now[arms[0]].scores))
    texts = {query.query_id: query for query in Prepared.open(layout.data).queries()}
    lines = _lines(queries, texts) if queries else {}
    decisions = _decided(folder / DECISION, now, measure)
    against = None
    if baseline:
        then = of_folder(baseline, layout.root.name)
        try:
            against = regress(layout, then, policy, params, arms=())
        except Incomparable as exc:
            against = ci.Against(layout.root.name, incomparable=str(exc))
    held = [*against.held] if against else []
    for step in decisions:
        if {step.control, step.candidate} <= now.keys():
            control, candidate = (now[a].scores[measure] for a in (step.control, step.candidate))
            losses = lost(control, candidate, texts)
            held.append(ci.Held(step.candidate, step.control, losses, step.verdict))
    return ci.CiResult(
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


def write(checked: ci.CiResult, folder: Path, most: int) -> Path:
    """Write the comment and the Code Quality report into ``folder``."""
    write_text(folder / COMMENT, ci.to_markdown(checked, most))
    write_json(folder / QUALITY, ci.gitlab(ci.notes(checked, most)))
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
    decisions = tuple(one for _, one in decision_json.from_json(whole, path))
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
