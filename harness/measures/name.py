"""A measure by its name in ir-measures notation."""

from __future__ import annotations

import ast
import re
from typing import Any

import ir_measures
from ir_measures import Measure

from harness.core.errors import HarnessError, UnknownName
from harness.measures.gain import as_gains

COMMON = (
    "nDCG@10",
    "nDCG(dcg='exp-log2')@10",
    "RR@10",
    "P@10",
    "R@50",
    "R@100",
    "AP@100",
    "Judged@10",
)
HINT = "and any other that ir-measures computes, written Measure(key=value)@cutoff, cutoff from 1"
SUBTOPICS = frozenset({
    "alpha_DCG", "alpha_nDCG", "ERR_IA", "nERR_IA", "NRBP", "nNRBP", "AP_IA", "P_IA", "StRecall",
})  # fmt: skip
"""Measures over the subtopics of a query, which judgements here do not keep."""
LEAST = {"cutoff": 1, "rel": 1}
"""Smallest sensible value by parameter; below a cutoff of 1 trec_eval's code ends the process."""


def parse(name: str) -> Measure:
    """Read a name such as ``nDCG@10`` or ``P(rel=2)@5``.

    The grammar is that of ``ir_measures.parse_measure``, which leans on parts of ``ast`` that
    newer Pythons have dropped.

    Raises:
        UnknownName: the measure is unknown, or no installed provider computes it.
        HarnessError: the measure needs subtopics.
    """
    try:
        measure = _read(name)
        if measure.NAME in SUBTOPICS:
            raise HarnessError(
                f"{name}: needs judgements by subtopic, and each pair has one grade here. Compute"
                " it with ir_measures from the original judgements"
            )
        measure.validate_params()  # type: ignore[no-untyped-call]
        for key, least in LEAST.items():
            value = measure.params.get(key, least)
            if type(value) is not int or value < least:
                raise ValueError(f"{key} must be an integer from {least}")  # noqa: TRY301
        computed = as_gains(measure, ())
        if not ir_measures.DefaultPipeline.supports(computed):  # type: ignore[no-untyped-call]
            raise ValueError("no provider")  # noqa: TRY301
    except (SyntaxError, ValueError, TypeError, KeyError, AssertionError) as error:
        raise UnknownName("measure", name, (*COMMON, HINT), _respelt(name)) from error
    return measure


def _respelt(name: str) -> str:
    """Give the name with its measure as ir-measures spells it; empty where that is no measure."""
    first = re.split(r"\W", name, maxsplit=1)[0]
    for known, measure in ir_measures.measures.registry.items():
        if known.casefold() == first.casefold() and first != measure.NAME:
            return f"{measure.NAME}{name.removeprefix(first)}"
    return ""


def _read(name: str) -> Measure:
    node: ast.expr = ast.parse(name, mode="eval").body
    given: dict[str, Any] = {}
    cutoff: list[Any] = []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        cutoff = [ast.literal_eval(node.right)]
        node = node.left
    if isinstance(node, ast.Call):
        if node.args:
            raise ValueError("a measure's settings are written key=value")
        given = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
        node = node.func
    if not isinstance(node, ast.Name):
        raise TypeError("a measure starts with its name")
    measure: Measure = ir_measures.measures.registry[node.id](**given)
    return measure @ cutoff[0] if cutoff else measure
