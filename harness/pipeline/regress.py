"""Every arm against itself as it was in an earlier release, paired by query."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness.agreement import agree
from harness.core.digest import of_file
from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import ArmResult, Evidence
from harness.core.formats import json_file, yaml_of
from harness.core.gate import StepDecision, Verdict, together
from harness.core.printable import many
from harness.core.reading import Malformed
from harness.core.scores import Paired
from harness.corpus.prepared import Prepared
from harness.gates.base.rules import Rules
from harness.pipeline.compare import difference
from harness.pipeline.evidence import sides
from harness.pipeline.layout import Layout
from harness.pipeline.params import CompareParams
from harness.pipeline.receipts import FOLDER, LOCK, read_twice
from harness.pipeline.score import slices
from harness.policy.decision import decide
from harness.policy.model import Policy
from harness.report.ci import MeasureOutcome

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
            if out["path"].startswith(prefix)
        ]
    except (Malformed, KeyError, TypeError, AttributeError) as exc:
        problem = f"of {revision} is not what DVC writes ({exc!r})"
        raise BadFile(root / LOCK, problem, "Name another revision") from exc
    if not outs:
        raise EvidenceError(f"{LOCK} of {revision} records nothing of {dataset}")
    for path, md5 in outs:
        if Path(path).name in TIMED:
            continue
        for name, digest in _files(root, path, md5):
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


def _files(root: Path, path: str, md5: str) -> Iterator[tuple[str, str]]:
    """Yield path and digest of each file of an output."""
    if not md5.endswith(FOLDER):
        yield path, md5
        return
    for row in json_file(_cached(root, md5, path)):
        yield f"{path}/{row['relpath']}", row["md5"]


def _cached(root: Path, md5: str, what: str) -> Path:
    """Find a file of the cache, and hold it against its name."""
    path = root / CACHE / md5[:2] / md5[2:]
    if not path.is_file():
        raise EvidenceError(
            f"{what} is not in {CACHE}. Fetch it (dvc fetch), or check the revision out beside, run"
            " the demo there, and give its folder"
        )
    found = of_file(path, "md5")
    if found != md5.removesuffix(FOLDER):
        raise EvidenceError(f"{path}: is not what its name says. Remove it, and fetch it again")
    return path


class Incomparable(EvidenceError):
    """Two releases were measured on different data, or have no arm in common."""


DATA = ("corpus_sha256", "queries_sha256", "qrels_sha256")
MEANT = {"corpus": "documents", "queries": "queries", "qrels": "judgements"}


@dataclass(frozen=True, slots=True)
class Worse:
    """A query that an arm answers worse than it did."""

    arm: str
    query_id: str
    text: str
    then: float
    now: float


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the gates without a clock said of a step of the policy, then and now."""

    step: str
    then: str
    now: str


@dataclass(frozen=True, slots=True)
class Regression:
    """Outcome of a data set's arms since an earlier release."""

    dataset: str
    decisions: tuple[StepDecision, ...]
    moved: tuple[MeasureOutcome, ...]
    worse: tuple[Worse, ...]
    verdicts: tuple[Verdicts, ...]
    """Steps of the migration's policy whose verdict is another one; empty where none was made."""
    same: frozenset[str]
    gone: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Verdict of all arms; one that shows the same, hit for hit, is no worse."""
        open_ = [one.verdict for one in self.decisions if one.candidate not in self.same]
        return together(open_) if open_ else Verdict.PASS


def regress(
    now: Layout, then: Layout, policy: Policy, params: CompareParams, *, arms: Sequence[str]
) -> Regression:
    """Judge each arm that both releases measured; ``arms`` names some of them, or none for all."""
    data, before = Prepared.open(now.data), Prepared.open(then.data)
    for key in DATA:
        if getattr(data.manifest, key) != getattr(before.manifest, key):
            what = MEANT[key.removesuffix("_sha256")]
            raise Incomparable(
                f"{then.data}: has other {what} than {now.data}; measures of the two are of"
                " different things. Compare with a release that was measured on the same data"
            )
    old, new = (tuple(arm for (arm,) in of.read(Layout.per_query)) for of in (then, now))
    both = _both(old, new, arms)
    was, is_ = sides(then, both), sides(now, both)
    queries = data.queries()
    together = data.clusters(policy.clusters)
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
    judged_by = _for_arms(policy, both)
    decisions = decide(judged_by, evidence, now=datetime.now(UTC))
    texts = {query.query_id: query.text for query in queries}
    return Regression(
        dataset=data.manifest.name,
        decisions=decisions,
        moved=tuple(
            row for arm in both for row in _moved(was[arm], is_[arm], together, policy.rules)
        ),
        worse=_worse(was, is_, texts),
        verdicts=_verdicts(then.findings, now.findings),
        same=frozenset(arm for arm in both if was[arm].run.shows_the_same(is_[arm].run)),
        gone=tuple(arm for arm in old if arm not in new),
        new=tuple(arm for arm in new if arm not in old),
    )


def _both(old: Sequence[str], new: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Arms to compare, in the order of today."""
    both = tuple(arm for arm in new if arm in old)
    missing = [arm for arm in wanted if arm not in both]
    if missing or not both:
        named = ", ".join(missing) or "no arm"
        raise Incomparable(
            f"{named} was measured in both releases; then there were {', '.join(old)}, now"
            f" {', '.join(new)}"
        )
    return tuple(arm for arm in both if arm in wanted) if wanted else both


def _for_arms(template: Policy, arms: Sequence[str]) -> Policy:
    """Judge each arm by the gates of the template's one step, against itself."""
    if len(template.steps) != 1:
        raise EvidenceError(
            f"the policy {template.name} has {many(len(template.steps), 'step')}; name one with"
            " one step, whose gates every arm is judged by"
        )
    (step,) = template.steps
    steps = tuple(replace(step, name=arm, control=arm, candidate=arm) for arm in arms)
    return replace(template, steps=steps, chained=False)


def _moved(
    then: ArmResult, now: ArmResult, together: Mapping[str, str], rules: Rules
) -> tuple[MeasureOutcome, ...]:
    found = []
    for measure, scores in now.scores.items():
        if measure in then.scores and (
            apart := difference(then.scores[measure], scores, rules, together)
        ):
            paired = Paired.of(then.scores[measure], scores)
            levels = float(paired.control.mean()), float(paired.candidate.mean())
            found.append(MeasureOutcome(now.arm, measure, *levels, apart))
    return tuple(found)


def _worse(
    then: Mapping[str, ArmResult], now: Mapping[str, ArmResult], texts: Mapping[str, str]
) -> tuple[Worse, ...]:
    """Return every query that lost in the first measure."""
    found = []
    for arm, side in now.items():
        measure = next(iter(side.scores))
        if measure not in then[arm].scores:
            continue
        paired = Paired.of(then[arm].scores[measure], side.scores[measure])
        for query_id, old, new in zip(
            paired.query_ids, paired.control.tolist(), paired.candidate.tolist(), strict=True
        ):
            if new < old:
                found.append(Worse(arm, query_id, texts[query_id], old, new))
    return tuple(sorted(found, key=lambda one: (one.now - one.then, one.arm, one.query_id)))


def _verdicts(then: Path, now: Path) -> tuple[Verdicts, ...]:
    """Return the steps of which both releases decided, and not alike."""
    if not (then.is_file() and now.is_file()):
        return ()
    old, new = _steps(then), _steps(now)
    return tuple(
        Verdicts(step, old[step], new[step])
        for step in new
        if old.get(step, new[step]) != new[step]
    )


def _steps(path: Path) -> dict[str, str]:
    return {step["step"]: step["untimed_verdict"] for step in json_file(path)["steps"]}
