"""How far a policy can be trusted on data at hand: gates tried where the truth is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from harness.agreement.agree import agree
from harness.core import digest
from harness.core.errors import BadFile
from harness.core.evidence import Evidence
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.gate import Verdict
from harness.core.run import Run
from harness.corpus.prepared import Prepared
from harness.gates import agreement_floor, equivalent, no_slice_harmed, non_inferior, superior
from harness.gates.base.rules import Rules
from harness.measures.quality import score
from harness.policy.model import FEWEST_RESAMPLES, Gate, Policy
from harness.policy.selftest.characteristics import all_of, trace
from harness.policy.selftest.operating import (
    Curve,
    Null,
    OperatingCharacteristic,
    Selftest,
    from_written,
)
from harness.policy.selftest.planted import popular, shuffled
from harness.stages.custody.code import judging_sha256
from harness.stages.evidence import gathered, pairs_of, sides
from harness.stages.layout import Layout

Means = non_inferior.Settings | superior.Settings | equivalent.Settings | no_slice_harmed.Settings
Settings = Means | agreement_floor.Settings
OVERLAP = "Jaccard@"
"""What two lists share; other agreements may be blind to what they do not share."""
PERSISTENCE = 0.9
"""Of RBO, which no null model is judged by."""
ITSELF = "the control itself"
MADE_FROM = "made_from"
CODE = "code"
"""The digest of what judged, among those that a selftest belongs to."""


def selftest(
    layout: Layout,
    policy: Policy,
    *,
    trials: int,
    evidence: Mapping[str, Evidence] | None = None,
) -> Selftest:
    """Try the quality gates of ``policy`` on the runs in ``layout``.

    ``evidence`` is what was read of them already, by step; None where nothing was.

    Gates on means of differences are tried (method, section 7), with the fewest resamples that a
    policy may have.

    Raises:
        EvidenceError: an arm was not measured or a pair not compared, or something was changed
            since; or there are too few queries.
    """
    if evidence is None:
        arms = sides(layout, policy.arms)
        evidence = gathered(layout, pairs_of(policy), arms, None, policy.clusters)
    rules = replace(policy.rules, resamples=FEWEST_RESAMPLES)
    gates: list[OperatingCharacteristic] = []
    curves: list[Curve] = []
    for step in policy.steps:
        traced = trace(step, evidence[step.name], rules, trials=trials)
        if traced:
            curves.append(traced.curve)
            gates += all_of(
                step, evidence[step.name], rules, trials=trials, alone=dict(traced.alone)
            )
    return Selftest(
        dataset=layout.root.name,
        policy=policy.name,
        seed=rules.seed,
        trials=trials,
        level=(1 - rules.confidence) / 2,
        power=rules.power,
        gates=tuple(gates),
        nulls=tuple(_nulls(layout, policy, evidence, rules)),
        curves=tuple(curves),
    )


def tried(
    layout: Layout,
    policy: Policy,
    policy_file: Path,
    evidence: Mapping[str, Evidence],
    *,
    trials: int,
) -> Selftest | None:
    """Read the selftest of this evidence, policy and judging code; make it where none is there.

    None where there is none and ``trials`` is 0.

    Raises:
        BadFile: the file is not one that ``write_selftest`` wrote.
    """
    found = read_selftest(layout, policy_file)
    if found is None and trials:
        found = selftest(layout, policy, trials=trials, evidence=evidence)
        write_selftest(layout, found, policy_file)
    return found


def write_selftest(layout: Layout, found: Selftest, policy_file: Path) -> None:
    """Write ``selftest.json``: what was found, and of which evidence, policy and judging code."""
    made_from = _made_from(layout, policy_file)
    written = {**found.written(), "valid": found.valid, MADE_FROM: made_from}
    write_json(layout.selftest, written)


def read_selftest(layout: Layout, policy_file: Path, *, any_code: bool = False) -> Selftest | None:
    """Read what was found of this evidence and this policy; None where that was not tried.

    With ``any_code`` also what was found of gates that judged by other code than today's.

    Raises:
        BadFile: the file is not one that ``write_selftest`` wrote.
    """
    path, hint = layout.selftest, f"Run: harness selftest --dataset {layout.root.name}"
    if not path.is_file():
        return None
    try:
        written = json_file(path)
        made_from, now = dict(written[MADE_FROM]), _made_from(layout, policy_file)
        if any_code:
            made_from[CODE] = now[CODE]
        fits = made_from == now
        return from_written(written) if fits else None
    except (ValueError, KeyError, TypeError) as exc:
        raise BadFile(path, f"is not a selftest ({exc!r})", hint) from exc


def _made_from(layout: Layout, policy_file: Path) -> dict[str, str]:
    """Give the digests that a selftest belongs to: scores and comparisons name all runs."""
    files = {
        "policy": policy_file,
        "scores": layout.score_receipt,
        "comparisons": layout.compare_receipt,
    }
    return {**{name: digest.of_file(path) for name, path in files.items()}, CODE: judging_sha256()}


def _on_quality(gates: tuple[Gate, ...]) -> tuple[tuple[Gate, Settings], ...]:
    """Keep the gates that an engine that knows nothing must not pass.

    It may well be judged as little as the control, be as silent, or order alike what it shares.
    """
    found = ((gate, gate.settings) for gate in gates)
    return tuple(
        (gate, settings)
        for gate, settings in found
        if isinstance(settings, Means)
        or (isinstance(settings, agreement_floor.Settings) and settings.measure.startswith(OVERLAP))
    )


def _nulls(
    layout: Layout, policy: Policy, evidence: Mapping[str, Evidence], rules: Rules
) -> Iterator[Null]:
    data = Prepared.open(layout.data)
    qrels, asked = data.qrels(), [query.query_id for query in data.queries()]
    for step in policy.steps:
        gates = _on_quality(step.gates)
        if not gates:
            continue
        given = evidence[step.name]
        measures = tuple(dict.fromkeys(name for _, how in gates for name in how.measures))
        depths = tuple(
            int(how.measure.removeprefix(OVERLAP)) for _, how in gates if not how.measures
        )
        runs: dict[str, Run] = {
            ITSELF: given.control.run,
            "shuffled": shuffled(given.control.run, seed=rules.seed),
            "popular": popular(given.control.run),
        }
        for model, run in runs.items():
            scores = score(run, qrels, measures, asked) if measures else {}
            alike = given.agreement
            if depths:
                alike = agree(given.control.run, run, depths=depths, p=PERSISTENCE)
            side = replace(given.control, run=run, scores=scores)
            tried = replace(given, candidate=side, agreement=alike)
            said = {
                gate.name: gate.judge(tried, rules).verdict
                for gate, settings in gates
                if model != ITSELF or not isinstance(settings, superior.Settings)
            }
            verdicts = list(said.values())
            lost = Verdict.FAIL in verdicts and Verdict.PASS not in verdicts
            fits = Verdict.FAIL not in verdicts if model == ITSELF else lost
            yield Null(step.name, model, {gate: v.value for gate, v in said.items()}, fits)
