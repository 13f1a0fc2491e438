"""All stages in one go, without DVC, for arms and data named on the command line."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from engines.contract import arms as registry
from harness.core.errors import HarnessError, UnknownName
from harness.core.gate import StepDecision
from harness.corpus import trec
from harness.corpus.prepared import QUERIES
from harness.corpus.runs import read_run
from harness.policy.load import load_policy
from harness.policy.model import Policy
from harness.policy.pairwise import for_candidates
from harness.report.write import write_reports
from harness.stages.assemble import Subject, assemble, evidence_of
from harness.stages.compare import compare
from harness.stages.evidence import pairs_of
from harness.stages.gate import gate, read_decision
from harness.stages.imported_run import import_run
from harness.stages.index import index
from harness.stages.layout import Layout
from harness.stages.linked import linked
from harness.stages.measuring import measuring
from harness.stages.params import Params
from harness.stages.race import race
from harness.stages.replay import replay
from harness.stages.score import score
from harness.stages.ties import TieRule, ties

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
"""Gone from the moment a new run starts: an old decision never stands for a new failure."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for on the command line."""

    arms: tuple[str, ...]
    """Names, or paths to TOML files. Those that ``policy_file`` names come beside them, where it
    is judged step by step."""
    runs: Mapping[str, Path]
    """TREC runs of other engines, by the name of the arm that they stand for."""
    control: str
    """Name of an arm among them, against which the one step of the policy judges every other."""
    policy_file: Path
    by_steps: bool
    """Without a control: whether the policy's own steps are judged in their order, or nothing."""
    until: str
    """The last step to be judged; empty for all of them."""
    timed: bool
    """Whether to race the arms too."""
    licence: str
    source: str
    command: str
    """The command line, for the report."""
    threads: int = 1
    """How many draw resamples."""
    ties: TieRule = TieRule.REPORT
    """What is made of equal scores in ``runs``."""


def oneshot(
    layout: Layout,
    wanted: Wanted,
    params: Params,
    *,
    out: Path,
    cache: Path,
    tell: Callable[[str], object],
) -> tuple[StepDecision, ...]:
    """Run the stages on prepared data in ``layout`` and write what came out into ``out``.

    Raises:
        UnknownName: the control is not among the arms, the policy names an arm or ``until`` a step
            that does not exist.
        HarnessError: no arm is named, two have one name, or there is both a control and a policy
            that is to be judged step by step.
    """
    template = load_policy(wanted.policy_file).on(wanted.threads)
    template = template.until(wanted.until) if wanted.until else template
    given = _given(wanted, template, cache)
    names = (*given, *wanted.runs)
    if wanted.control and wanted.control not in names:
        raise UnknownName("arm to be the control", wanted.control, names)
    policy = _judged_by(wanted, template, names)
    pairs = pairs_of(policy) if policy else {}
    params = measuring(params, policy.measures) if policy else params
    for old in (*(out / name for name in RESULTS), layout.race_receipt, layout.times):
        old.unlink(missing_ok=True)
    for arm in given.values():
        tell(f"indexing {arm}")
        index(layout, arm, cache)
        tell(f"replaying {arm}")
        replay(layout, arm, cache, params.replay, keep_parts=True)
    for name, file in wanted.runs.items():
        tell(f"taking in {name}")
        import_run(layout, name, file)
    tell("scoring and comparing")
    score(layout, names, params.score, threads=wanted.threads)
    if wanted.runs and wanted.ties is not TieRule.OFF:
        _weigh_ties(layout, tuple(wanted.runs), params, out / TIES, tell)
    compare(layout, list(pairs.values()), params.compare, params.score, threads=wanted.threads)
    if wanted.timed:
        tell("racing")
        racing = {arm for pair in pairs.values() for arm in pair} or set(given)
        raced = [arm for name, arm in given.items() if name in racing]
        race(layout, raced, cache, params.race, params.replay.time_limit_s)
    subject = Subject(
        pairs=pairs,
        arms=names,
        rules=template.rules,
        licence=wanted.licence,
        source=wanted.source,
        commands=(wanted.command,),
        measures=params.score.measures,
        policy=policy,
        policy_file=wanted.policy_file,
        selftest=_selftest(wanted, out),
        place=shlex.join(["--out", str(out)]),
        over_ties=wanted.ties is TieRule.BOUNDS,
    )
    decisions: tuple[StepDecision, ...] = ()
    decided_at = datetime.now(UTC)
    if policy:
        gate(layout, subject, now=datetime.now(UTC))
        decisions, decided_at = read_decision(layout)
    evidence = evidence_of(layout, subject)
    found = assemble(layout, subject, evidence, decisions, decided_at)
    written = write_reports([linked(found, layout, out)], out)
    if not policy:
        written.decision.unlink()
        written.junit.unlink()
    _export(layout, names, out)
    for name in names:
        shutil.rmtree(layout.parts(name), ignore_errors=True)
    return decisions


def _weigh_ties(
    layout: Layout,
    runs: Sequence[str],
    params: Params,
    to: Path,
    tell: Callable[[str], object],
) -> None:
    """Write what ties could have done to imported runs, and say how many there are."""
    for name, of in ties(layout, runs, params.score.measures, to).items():
        tell(
            f"{name}: {of.tied} of {of.hits} hits tie with another;"
            f" in float32, as trec_eval keeps scores, {of.only_float64} more would"
        )


def _given(wanted: Wanted, template: Policy, cache: Path) -> dict[str, str]:
    """Name or path of each arm that is replayed, by the arm's own name."""
    loaded = [(registry.load(arm, cache).name, arm) for arm in wanted.arms]
    names = [*(name for name, _ in loaded), *wanted.runs]
    if wanted.by_steps:
        loaded += [
            (arm, registry.load(arm, cache).name) for arm in template.arms if arm not in names
        ]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not (loaded or wanted.runs):
        problem = f"two arms are named {twice[0]}" if twice else "no arm is named"
        raise HarnessError(f"{problem}; give --arms and --trec-run names that differ")
    return dict(loaded)


def _judged_by(wanted: Wanted, template: Policy, names: Sequence[str]) -> Policy | None:
    """Policy that decides; None where nothing is decided."""
    if wanted.control and wanted.by_steps:
        raise HarnessError("the steps of a policy name their own control; leave --control out")
    if wanted.control:
        others = [name for name in names if name != wanted.control]
        return for_candidates(template, wanted.control, others)
    return template if wanted.by_steps else None


def _selftest(wanted: Wanted, out: Path) -> str:
    """Say what to type for a selftest of this run."""
    words = ["harness", "selftest", "--out", str(out), "--policy", str(wanted.policy_file)]
    return shlex.join([*words, *(["--control", wanted.control] if wanted.control else [])])


def _export(layout: Layout, names: Sequence[str], out: Path) -> None:
    """Put the means and the runs where a person or another tool looks for them."""
    shutil.copyfile(layout.scores, out / "scores.json")
    shutil.copyfile(layout.per_query, out / "per_query.parquet")
    shutil.copyfile(layout.data / QUERIES, out / QUERIES)
    for name in names:
        run = read_run(layout.run(name))
        (out / "runs").mkdir(exist_ok=True)
        shutil.copyfile(layout.run(name), out / "runs" / f"{name}.parquet")
        trec.write_run(out / "runs" / f"{name}.trec", run)
