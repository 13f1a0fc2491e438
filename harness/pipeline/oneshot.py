"""All stages in one go, without DVC, for arms and data named on the command line."""

import platform
import shlex
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from harness.core.batches import code_sha256
from harness.core.digest import of_files, of_json
from harness.core.errors import HarnessError, UnknownName
from harness.core.files import replacing, sweep, write_json
from harness.core.formats import json_file
from harness.core.gate import StepDecision
from harness.core.names import check_distinct
from harness.core.run import Run
from harness.corpus import trec
from harness.corpus.prepared import QUERIES, Prepared
from harness.corpus.runs import Means
from harness.measures.name import parse
from harness.pipeline.compare import compare, ties
from harness.pipeline.evidence import ReportSubject, assemble, measured, pairs_of
from harness.pipeline.gate import gate
from harness.pipeline.index import check_index, index, sources
from harness.pipeline.layout import Layout
from harness.pipeline.params import Params, ReplayParams
from harness.pipeline.race import race
from harness.pipeline.receipts import read_manifest, versions
from harness.pipeline.replay import import_run, remarks, replay
from harness.pipeline.report import linked
from harness.pipeline.score import score
from harness.policy.load import for_arms, load_policy
from harness.policy.model import Policy
from harness.report.files import write_reports
from harness_engines import contract, registry
from harness_engines.registry import Arm

FILE = "built.json"


class Built:
    """What this run, or one that was killed before it, has built in ``layout``."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._path = layout.cache / FILE
        self._known: dict[str, str] = {}
        with suppress(OSError, ValueError, AttributeError):  # what is none is as good as nothing
            self._known = {str(arm): str(key) for arm, key in json_file(self._path).items()}

    def has(self, arm: Arm) -> bool:
        """Whether the arm's index is there, whole, and would be built the same again."""
        if self._known.get(arm.name) != self._key(arm):
            return False
        try:
            check_index(self.layout, arm)
            noted = read_manifest(self.layout, arm.name)
            return contract.read(self.layout.index(arm.name)) == noted
        except HarnessError:
            return False

    def note(self, arm: Arm) -> None:
        """Note that the arm's index was built."""
        self._known[arm.name] = self._key(arm)
        write_json(self._path, self._known)

    def forget(self) -> None:
        """Note that the run is done; what a killed one was writing beside its notes goes too."""
        self._path.unlink(missing_ok=True)
        if self._path.parent.is_dir():
            sweep(self._path.parent)

    def _key(self, arm: Arm) -> str:
        """Digest of what an index depends on: code, packages, the arm and the documents."""
        documents = Prepared.open(self.layout.data).manifest.corpus_sha256
        return of_json([self._code, of_files(sources(arm)), documents])

    @cached_property
    def _code(self) -> str:
        """Digest of code and packages, which are those of this process for all arms of a run."""
        here = [platform.python_version(), sqlite3.sqlite_version, *versions().values()]
        return of_json([code_sha256(), here])


TIES = "ties.json"
RESULTS = (
    "index.html",
    "explore.html",
    "report.md",
    "decision.json",
    "junit.xml",
    "scores.json",
    "per_query.parquet",
    TIES,
    QUERIES,
)
"""Deleted when a run starts, so that a failed run leaves no stale decision."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What was requested on the command line."""

    arms: tuple[str, ...]
    """Names, or paths to TOML files. Those that ``policy_file`` names come beside them, where it
    is judged step by step."""
    runs: Mapping[str, Path]
    control: str
    """Name of an arm among them, against which the one step of the policy judges every other."""
    policy_file: Path
    by_steps: bool
    """Without a control: whether the policy's own steps are judged in their order, or nothing."""
    until: str
    timed: bool
    licence: str
    source: str
    command: str
    aa: str = ""
    missing: trec.MissingQuery = trec.MissingQuery.LOST


def oneshot(
    layout: Layout,
    wanted: RunRequest,
    params: Params,
    *,
    out: Path,
    cache: Path,
    tell: Callable[[str], object],
) -> tuple[tuple[StepDecision, ...], Means]:
    """Run the stages on prepared data in ``layout``, write what came out; return the means too."""
    template = load_policy(wanted.policy_file)
    template = template.until(wanted.until) if wanted.until else template
    given = _given(wanted, template, cache)
    names = (*given, *wanted.runs)
    if wanted.control and wanted.control not in names:
        raise UnknownName("arm to be the control", wanted.control, names)
    policy = _judged_by(wanted, template, names)
    pairs = pairs_of(policy) if policy else {}
    params = measuring(params, policy.measures) if policy else params
    asking = params.replay.asking_twice(wanted.aa)
    for old in (*(out / name for name in RESULTS), layout.race_receipt, layout.times):
        old.unlink(missing_ok=True)
    built = Built(layout)
    runs = [_run_arm(built, arm, cache, asking, tell) for arm in given.values()]
    imported = {run.arm: run for run in _taken_in(layout, wanted, tell)}
    tell("scoring and comparing")
    means = score(layout, names, params.score)
    if imported:
        data = Prepared.open(layout.data)
        tied, ends = ties(data, imported, params.score.measures)
        write_json(out / TIES, ends)
        for name, of in tied.items():
            tell(f"{name}: {of.said}")
    compare(layout, list(pairs.values()), params.compare, template.rules, how=template.clusters)
    if wanted.timed:
        tell("racing")
        racing = {arm for pair in pairs.values() for arm in pair} or set(given)
        raced = [arm for name, arm in given.items() if name in racing]
        race(layout, raced, cache, params.race, params.replay.time_limit_s)
    subject = ReportSubject(
        pairs=pairs,
        arms=names,
        rules=template.rules,
        licence=wanted.licence,
        source=wanted.source,
        commands=(wanted.command,),
        score=params.score,
        compare=params.compare,
        policy=policy,
        policy_file=wanted.policy_file,
        pin=shlex.join(["harness", "policy", "pin", str(wanted.policy_file), "--from", str(out)]),
        place=shlex.join(["--from", str(out)]),
    )
    if policy:
        tell("judging")
        found = gate(layout, subject, now=datetime.now(UTC))
    else:
        left = measured(layout, subject)
        found = assemble(left, subject, (), datetime.now(UTC), custody=None)
    written = write_reports([linked(found, layout, out)], out)
    if not policy:
        written.decision.unlink()
        written.junit.unlink()
    _export(layout, (*runs, *imported.values()), out)
    for name in names:
        shutil.rmtree(layout.parts(name), ignore_errors=True)
    built.forget()
    return found.decisions, means


def _run_arm(
    built: Built, arm: str, cache: Path, params: ReplayParams, tell: Callable[[str], object]
) -> Run:
    """Build the arm's index, unless a run that was killed has, and ask it every query."""
    loaded = registry.load(arm, cache)
    if built.has(loaded):
        tell(f"indexed before: {arm}")
    else:
        tell(f"indexing {arm}")
        index(built.layout, arm, cache)
        built.note(loaded)
    tell(f"replaying {arm}")
    run = replay(built.layout, arm, cache, params, keep_parts=True)
    for said in remarks(run):
        tell(said)
    return run


def _taken_in(layout: Layout, wanted: RunRequest, tell: Callable[[str], object]) -> Iterator[Run]:
    """Make arms of the TREC runs, and say what they leave out."""
    for name, file in wanted.runs.items():
        tell(f"taking in {name}")
        run, odd = import_run(layout, name, file, missing=wanted.missing)
        for said in odd:
            tell(f"{name}: {said}")
        yield run


def _given(wanted: RunRequest, template: Policy, cache: Path) -> dict[str, str]:
    """Name or path of each arm that is replayed, by the arm's own name."""
    loaded = [(registry.load(arm, cache).name, arm) for arm in wanted.arms]
    names = [*(name for name, _ in loaded), *wanted.runs]
    if wanted.by_steps:
        loaded += [
            (arm, registry.load(arm, cache).name) for arm in template.arms if arm not in names
        ]
    for name in names:
        check_distinct("an arm", name, names)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not (loaded or wanted.runs):
        problem = f"two arms are named {twice[0]}" if twice else "no arm is named"
        raise HarnessError(f"{problem}; give --arms and --trec-run names that differ")
    return dict(loaded)


def _judged_by(wanted: RunRequest, template: Policy, names: Sequence[str]) -> Policy | None:
    """Policy that decides; None where nothing is decided."""
    if wanted.control and wanted.by_steps:
        raise HarnessError("the steps of a policy name their own control; leave --control out")
    if wanted.control:
        others = [name for name in names if name != wanted.control]
        return for_arms(template, others, wanted.control)
    return template if wanted.by_steps else None


def exports(layout: Layout, arms: Iterable[str], out: Path) -> dict[Path, Path]:
    """Return the copies in ``out`` for people and other tools, each with its original."""
    return {
        out / "scores.json": layout.scores,
        out / "per_query.parquet": layout.per_query,
        out / QUERIES: layout.data / QUERIES,
        **{out / "runs" / f"{arm}.parquet": layout.run(arm) for arm in arms},
    }


def _export(layout: Layout, runs: Sequence[Run], out: Path) -> None:
    for to, source in exports(layout, (run.arm for run in runs), out).items():
        with replacing(to) as beside:  # a link in its place is replaced, and not followed
            shutil.copyfile(source, beside)
    for run in runs:
        trec.write_run(out / "runs" / f"{run.arm}.trec", run)


def measuring(params: Params, more: Iterable[str]) -> Params:
    """Measure ``more`` beside what ``params`` names."""
    names = tuple(dict.fromkeys((*params.score.measures, *more)))
    for name in names:
        parse(name)
    score = {**params.score.model_dump(), "measures": names}
    try:
        return Params.model_validate({**params.model_dump(), "score": score})
    except ValidationError as exc:
        said = exc.errors()[0]["msg"].removeprefix("Value error, ")
        raise HarnessError(f"the policy asks for too much: {said}") from exc
