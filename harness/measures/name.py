"""A measure by its name: gain, range, and meaning of a loss for users."""

import ast
import re
from collections.abc import Iterable
from typing import Any

import ir_measures
from ir_measures import Measure, nDCG

from harness.core.errors import DatasetError, HarnessError, UnknownName
from harness.stats.bounded import ValueRange

LARGEST = 1 << 20
"""Above it trec_eval's code, which counts documents by gain, fills memory or answers 0."""


def as_gains(measure: Measure, grades: Iterable[int]) -> Measure:
    """Write an nDCG with other than linear gains as a mapping from ``grades`` to gains.

    ``nDCG(dcg='exp-log2')`` gains 2^grade - 1 (Burges et al. 2005). ir-measures hands that name
    to a program that rounds to five places; as a mapping it is computed in full. No grade gains
    less than 0. Other measures are returned as they are.
    """
    grades = tuple(grades)
    _small(max(grades, default=0), "grade")
    if measure.NAME != nDCG.NAME:
        return measure
    others = {key: value for key, value in measure.params.items() if key not in {"dcg", "gains"}}
    given = measure.params.get("gains")
    exponential = measure["dcg"] == "exp-log2"
    if given is None:
        if not exponential:
            return measure
        _small(max(grades, default=0), "exponent", LARGEST.bit_length() - 1)
        mapping = {grade: 2 ** max(grade, 0) - 1 for grade in grades}
    elif exponential or any(type(n) is not int for pair in given.items() for n in pair):
        raise ValueError("gains map integers to integers and replace dcg")
    else:
        mapping = {grade: max(given.get(grade, grade), 0) for grade in grades}
        _small(max(mapping.values(), default=0), "gain")
    written: Measure = nDCG(gains=mapping, **others)
    return written


def _small(value: int, what: str, largest: int = LARGEST) -> None:
    if value > largest:
        raise DatasetError(
            f"{what} {value} is above {largest}, where gains are no longer counted exactly;"
            " map the scale of the judgements to smaller integers"
        )


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
    """
    try:
        measure = _read(name)
        if measure.NAME in SUBTOPICS:
            raise HarnessError(
                f"{name}: needs judgements by subtopic, and each pair has one grade here. Compute"
                " it with ir_measures from the original judgements"
            )
        needed = (key for key, one in measure.SUPPORTED_PARAMS.items() if one.required)
        if lacking := [key for key in needed if key not in measure.params]:
            example = f"{measure.NAME}({lacking[0]}=value)".replace("(cutoff=value)", "@10")
            raise HarnessError(f"{name}: lacks its {' and '.join(lacking)}. Write {example}")
        measure.validate_params()  # type: ignore[no-untyped-call]
        for key, least in LEAST.items():
            value = measure.params.get(key, least)
            if type(value) is not int or value < least:
                raise ValueError(f"{key} must be an integer from {least}")  # noqa: TRY301
        computed = as_gains(measure, ())
        if not ir_measures.DefaultPipeline.supports(computed):  # type: ignore[no-untyped-call]
            for provider in ir_measures.DefaultPipeline.providers:
                known = {one.NAME for one in provider.SUPPORTED_MEASURES}
                if computed.NAME in known and not provider.is_available():
                    how = provider.install_instructions() or f"install {provider.NAME}"
                    problem = f"{provider.NAME} computes it, and is not installed"
                    raise HarnessError(f"{name}: {problem}. {how}")
            raise ValueError("no provider")  # noqa: TRY301
    except (SyntaxError, ValueError, TypeError, KeyError, AssertionError) as error:
        raise UnknownName("measure", name, (*COMMON, HINT), _respelt(name)) from error
    return measure


def _respelt(name: str) -> str:
    """Return the name with its measure as ir-measures spells it; empty where that is no measure."""
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


PAGE = 10
"""Hits of a first page."""
NEARLY = 0.67
"""A larger share is no longer one in two."""
CLOSE = 0.005
"""Numbers nearer than this share of them are one number in words."""
RANKED = frozenset({"nDCG", "NDCG", "AP", "MAP", "ERR", "RBP"})
RECIPROCAL = frozenset({"RR", "MRR"})
FALL = {
    **dict.fromkeys(RANKED, "loses its whole {page}"),
    **dict.fromkeys(RECIPROCAL, "has its first relevant document at rank 2, not 1"),
    **dict.fromkeys(("R", "Recall"), "is no longer in the {page}"),
    "Success": "has no relevant document left in its {page}",
}
"""What happens to one query, or to one relevant document."""
COST = dict.fromkeys(RECIPROCAL, 0.5)
"""What it costs that query; where nothing is said, all that it can have."""
COUNTED = {
    "P": "relevant document",
    "Precision": "relevant document",
    "Judged": "judged document",
    "Empty": "empty place",
}
"""Measures that count hits, and what they count."""


def loss_in_words(measure: str, loss: float) -> str:
    """Describe a mean loss, if it were all of one kind and in as few queries as possible.

    ``measure`` is named as in a policy, and ``loss`` lies above 0 and at most 1.
    """
    name, cut_off = _parts(measure)
    if name in COUNTED and cut_off:
        each, what = loss * cut_off, COUNTED[name]
        if each > NEARLY:
            plural = "" if each == 1 else "s"
            return f"each query has {each:.3g} {what}{plural} less in {cut_off}"
        return f"{one_in(each, 'query')} has one {what} less in {cut_off}"
    page = "first page" if cut_off == PAGE else f"first {cut_off}" if cut_off else "list"
    what = "relevant document" if name in {"R", "Recall"} else "query"
    fall = FALL.get(name, f"loses all of its {name}").format(page=page)
    return f"{one_in(loss / COST.get(name, 1), what)} {fall}"


def gain_in_words(measure: str, gain: float) -> str:
    """Describe a mean gain by the loss that it would compensate."""
    return f"it makes up for a change by which {loss_in_words(measure, gain)}"


def floor_in_words(measure: str, floor: float) -> str:
    """Describe a mean agreement of ``floor``, if it were the same for every query."""
    name, cut_off = _parts(measure)
    if name == "Jaccard" and cut_off:
        shared = 2 * cut_off * floor / (1 + floor)
        return f"of {cut_off} documents in each list {shared:.1f} are shared"
    return f"each query agrees to {floor:g}"


def _parts(measure: str) -> tuple[str, int]:
    """Return the name of a measure before its settings, and its cut-off or 0."""
    cut_off = re.search(r"@([0-9]+)", measure)
    return re.split(r"[(@]", measure, maxsplit=1)[0], int(cut_off[1]) if cut_off else 0


def one_in(share: float, what: str) -> str:
    """Write a share as one in a number; a larger one than two in three as all."""
    number = 1 / min(share, 1.0)
    rounded = round(number)
    about = "" if abs(number - rounded) < CLOSE * number else "about "
    return f"{about}one {what} in {rounded:,}" if rounded > 1 else f"{about}every {what}"


SHARE, CORRELATION = ValueRange(0.0, 1.0), ValueRange(-1.0, 1.0)
SHARES = frozenset({
    "AP", "MAP", "Bpref", "BPref", "ERR", "IPrec", "Judged", "nDCG", "NDCG", "P",
    "Precision", "R", "Recall", "RBP", "RR", "MRR", "Rprec", "RPrec", "SetAP", "SetF", "SetP",
    "SetR", "Success", "infAP", "Empty", "Jaccard", "RBO",
})  # fmt: skip
"""Measures of quality and of agreement, by the name before their settings and cut-off."""
CORRELATIONS = frozenset({"tau", "tauAP"})


def span_of(measure: str) -> ValueRange | None:
    """Return the least and the greatest value of ``measure``; None if they are unknown.

    ``measure`` is named as in a policy: ``nDCG@10``, ``RR(rel=2)@10``, ``Jaccard@50``, ``tau``,
    ``nDCG@10-of-serving``. Counts such as ``NumRet`` have no greatest value.
    """
    name = re.split(r"[(@]", measure, maxsplit=1)[0]
    if name in CORRELATIONS:
        return CORRELATION
    return SHARE if name in SHARES else None


def span_of_difference(measure: str) -> ValueRange | None:
    """Return the same for the difference of two arms."""
    span = span_of(measure)
    return None if span is None else span.differences
