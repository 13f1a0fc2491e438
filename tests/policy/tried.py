"""Evidence of a step whose gates are on means, for tests of what a selftest measures."""

from dataclasses import replace
from typing import Any

import numpy as np

from harness.core.evidence import Evidence
from harness.gates.base import rules
from harness.gates.base.rules import Rules
from harness.policy.model import Gate, Step
from tests.make import gate_inputs

RULES = Rules(confidence=0.95, resamples=1_000, seed=7, power=0.8)
MARGIN = 0.1


def gate(rule: str, name: str = "", **settings: Any) -> Gate:  # noqa: ANN401  settings of a rule
    loaded = rules.load(rule)
    known = loaded.model_fields
    asked = {"measure": "nDCG@10", "margin": MARGIN, "max_gap": MARGIN} | settings
    kept = {key: value for key, value in asked.items() if key in known}
    return Gate(name or rule, rule, loaded.model_validate(kept))


def step(*gates: Gate) -> Step:
    return Step("s", "old", "new", taken=False, gates=gates)


def evidence(
    queries: int = 200, *, spread: float = 0.1, clusters: int = 1, lost: int = 0
) -> Evidence:
    """Two arms that hardly differ; some queries have no value in the candidate."""
    rng = np.random.default_rng(3)
    control = rng.uniform(0.3, 0.9, queries)
    candidate = np.clip(control + rng.normal(0, spread, queries), 0, 1)
    ids = gate_inputs.ids(queries)
    kept = queries - lost
    gone = {"failed": ids[kept:]} if lost else {}
    scores = gate_inputs.scores("nDCG@10", candidate[:kept], gone)
    found = gate_inputs.scored(control, candidate)
    return replace(
        found,
        candidate=replace(found.candidate, scores={"nDCG@10": scores}),
        clusters={q: f"c{at // clusters}" for at, q in enumerate(ids)} if clusters > 1 else {},
        slices={"even": frozenset(ids[::2]), "odd": frozenset(ids[1::2])},
    )


def judged(asked: Gate, given: Evidence, differences: np.ndarray[Any, Any], seed: int) -> str:
    """Return what the gate itself says of one trial."""
    measured = given.candidate.scores["nDCG@10"]
    base = given.control.scores["nDCG@10"].by_query
    moved = dict(zip(measured.query_ids, differences, strict=True))
    scores = replace(measured, values=np.array([base[q] + moved[q] for q in measured.query_ids]))
    candidate = replace(given.candidate, scores={"nDCG@10": scores})
    rules = replace(RULES, seed=seed)
    return str(asked.judge(replace(given, candidate=candidate), rules).verdict)
