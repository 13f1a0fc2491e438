"""How far a policy can be trusted on data at hand: gates tried where the truth is known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.core import digest
from harness.core.errors import BadFile
from harness.core.evidence import Evidence
from harness.core.files import write_json
from harness.core.gate import Verdict
from harness.core.run import Run
from harness.corpus.prepared import Prepared
from harness.gates import non_inferior, superior
from harness.gates.base.paired import Comparison, compare
from harness.gates.base.rules import Rules
from harness.measures.quality import score
from harness.policy.model import FEWEST_RESAMPLES, Gate, Policy
from harness.policy.null_models import popular, shuffled
from harness.policy.planted import Values, count
from harness.policy.tried import Null, Selftest, Tried, from_written
from harness.stages.evidence import gathered, pairs_of, sides
from harness.stages.layout import Layout

Settings = non_inferior.Settings | superior.Settings
ITSELF = "the control itself"


MADE_FROM = "made_from"


def selftest(layout: Layout, policy: Policy, *, trials: int) -> Selftest:
    """Try the quality gates of ``policy`` on the runs in ``layout``.

    Gates of the rules ``non_inferior`` and ``superior`` are tried (method, section 7), with the
    fewest resamples that a policy may have.

    Raises:
        EvidenceError: an arm was not measured or a pair not compared, or something was changed
            since; or there are too few queries.
    """
    arms = sides(layout, policy.arms)
    evidence = gathered(layout, pairs_of(policy), arms, race=None)
    rules = replace(policy.rules, resamples=FEWEST_RESAMPLES)
    return Selftest(
        dataset=layout.root.name,
        policy=policy.name,
        seed=rules.seed,
        trials=trials,
        level=(1 - rules.confidence) / 2,
        power=rules.power,
        gates=tuple(_tried(policy, evidence, rules, trials)),
        nulls=tuple(_nulls(layout, policy, evidence, rules)),
    )


def write_selftest(layout: Layout, found: Selftest, policy_file: Path) -> None:
    """Write ``selftest.json``: what was found, and of which evidence and policy."""
    made_from = _made_from(layout, policy_file)
    written = {**found.written(), "valid": found.valid, MADE_FROM: made_from}
    write_json(layout.selftest, written)


def read_selftest(layout: Layout, policy_file: Path) -> Selftest | None:
    """Read what was found of this evidence and this policy; None where that was not tried.

    Raises:
        BadFile: the file is not one that ``write_selftest`` wrote.
    """
    path, cure = layout.selftest, f"Run: harness selftest --dataset {layout.root.name}"
    if not path.is_file():
        return None
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        fits = written[MADE_FROM] == _made_from(layout, policy_file)
        return from_written(written) if fits else None
    except (ValueError, KeyError, TypeError) as exc:
        raise BadFile(path, f"is no selftest ({exc!r})", cure) from exc


def _made_from(layout: Layout, policy_file: Path) -> dict[str, str]:
    """Give the digests that a selftest belongs to: scores and comparisons name all runs."""
    files = {
        "policy": policy_file,
        "scores": layout.score_receipt,
        "comparisons": layout.compare_receipt,
    }
    return {name: digest.of_file(path) for name, path in files.items()}


def _on_quality(gates: tuple[Gate, ...]) -> tuple[tuple[Gate, Settings], ...]:
    return tuple((g, g.settings) for g in gates if isinstance(g.settings, Settings))


def _tried(
    policy: Policy, evidence: dict[str, Evidence], rules: Rules, trials: int
) -> Iterator[Tried]:
    for step in policy.steps:
        for gate, settings in _on_quality(step.gates):
            versus = settings.versus if isinstance(settings, superior.Settings) else None
            compared = compare(evidence[step.name], settings, versus)
            if len(compared.paired.query_ids) < settings.min_queries:
                continue
            counted = count(_values(compared), limit=settings.limit, rules=rules, trials=trials)
            yield Tried(
                step.name,
                gate.name,
                settings.where,
                len(compared.paired.query_ids),
                settings.limit,
                *counted,
            )


def _values(compared: Comparison) -> Values:
    known, paired = compared.known, compared.paired
    alone = np.arange(len(paired.query_ids))
    return Values(paired.control, paired.candidate, alone if known is None else known)


def _nulls(
    layout: Layout, policy: Policy, evidence: dict[str, Evidence], rules: Rules
) -> Iterator[Null]:
    data = Prepared.open(layout.data)
    qrels, asked = data.qrels(), [query.query_id for query in data.queries()]
    for step in policy.steps:
        gates = _on_quality(step.gates)
        if not gates:
            continue
        given = evidence[step.name]
        measures = tuple(dict.fromkeys(settings.measure for _, settings in gates))
        runs: dict[str, Run] = {
            ITSELF: given.control.run,
            "shuffled": shuffled(given.control.run, seed=rules.seed),
            "popular": popular(given.control.run),
        }
        for model, run in runs.items():
            scores = score(run, qrels, measures, asked)
            side = replace(given.control, run=run, scores=scores)
            said = {
                gate.name: gate.judge(replace(given, candidate=side), rules).verdict
                for gate, settings in gates
                if model != ITSELF or isinstance(settings, non_inferior.Settings)
            }
            verdicts = list(said.values())
            lost = Verdict.FAIL in verdicts and Verdict.PASS not in verdicts
            fits = Verdict.FAIL not in verdicts if model == ITSELF else lost
            yield Null(step.name, model, {gate: v.value for gate, v in said.items()}, fits)
