"""Statistics have the same bits whatever vector instructions numpy finds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harness.core.elementary import exp, expm1, log, log1p, log2, powers

ROOT = Path(__file__).resolve().parents[2]
EXACT = ("stats", "agreement", "measures", "gates")
TIMED = {"times.py"}
"""Times are other ones at each run."""
BY_INSTRUCTIONS = re.compile(
    r"np\.(log\w*|exp\w*|power|cosh?|sinh?|tanh?|arc\w+|cbrt|float_power|dot|inner|matmul)\("
    r"|[a-z_)\]] ?\*\* ?(?:[3-9]\b|\d*\.\d)"
)
NEWER = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"
DRAWN = """
import numpy as np
from harness.agreement import rbo
from harness.stats.sequential import NS_PER_S, blocks
from harness.stats.bounded import Span
from harness.stats.sequential import p_above
from harness.stats.inference import Inference
from harness.stats.interval import interval_each
from tests.agreement.strategies import pair_of

rng = np.random.default_rng(7)
values, clusters = rng.random((1100, 60)) ** 2, np.sort(rng.integers(0, 900, 1100))
span = Span(0.0, 1.0)
sure = Inference(confidence=0.95, resamples=300, seed=1, threads=1)
one = values[:, 0]
for few in (1100, 300):
    some, codes = values[:few], clusters[:few]
    print(interval_each(some, span=span, inference=sure, clusters=codes))
at = np.arange(len(one)) * NS_PER_S
print(blocks(one, at, block_s=2, period_s=20).interval(0.95))
print(p_above(one, 0.3, span=span, clusters=clusters))
lists = ([str(at) for at in rng.permutation(200)[:100]] for _ in range(2))
print(rbo(pair_of(*lists), 100, 0.9))
"""


def _drawn(without: str) -> str:
    env = {**os.environ, "NPY_DISABLE_CPU_FEATURES": without, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", DRAWN]
    return subprocess.run(
        command, env=env, check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout


def test_statistics_have_the_same_bits_without_newer_instructions() -> None:
    if not np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found"):
        pytest.skip("numpy found no instructions here that could be left out")
    assert _drawn(NEWER) == _drawn("")


def test_no_statistic_is_computed_by_code_that_differs_between_processors() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for room in EXACT
        for file in sorted((ROOT / "harness" / room).rglob("*.py"))
        if file.name not in TIMED
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if BY_INSTRUCTIONS.search(line.partition('"""')[0])
    ]
    assert wrong == [], "use harness.core.elementary, or products"


def test_an_exponential_is_a_sum_with_one() -> None:
    """Numpy's own, whose bits differ between processors, has more digits of small values."""
    small = exp(np.linspace(-40, -1, 199)) * 2.0**53
    assert (small == small.round()).all()


def test_the_functions_are_what_they_are_named() -> None:
    values = np.array([1e-300, 1e-9, 0.3, 1.0, 7.5, 1e9])
    np.testing.assert_allclose(log(values), np.log(values), rtol=1e-15)
    np.testing.assert_allclose(log1p(values), np.log1p(values), rtol=1e-15)
    np.testing.assert_allclose(exp(-values), np.exp(-values), atol=3e-16)
    np.testing.assert_allclose(expm1(-values), np.expm1(-values), rtol=1e-15)
    np.testing.assert_allclose(log2(np.arange(1, 99)), np.log2(np.arange(1, 99)), rtol=1e-15)
    np.testing.assert_allclose(powers(0.9, 99), 0.9 ** np.arange(100), rtol=2e-14)
    assert log(np.zeros(1)) == log1p(-np.ones(1)) == -np.inf
