"""Tests of paired differences between systems, by measure."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.stats.inference import Inference
from harness.stats.significance import adjusted, fdr_adjusted, sign_flip_each

Test = Literal["permutation", "bootstrap", "t", "wilcoxon", "tukey"]
Correction = Literal["holm", "bh", "none"]
TESTS: tuple[Test, ...] = get_args(Test)
CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
Floats = NDArray[np.float64]
Pairs = Sequence[tuple[int, int]]
NAMES: dict[Test, str] = {
    "permutation": "paired sign-flip permutation test",
    "bootstrap": "paired bootstrap test",
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test",
    "tukey": "Tukey's HSD of a two-way layout",
}
CORRECTED: dict[Correction, str] = {
    "holm": "Holm's correction",
    "bh": "Benjamini and Hochberg's correction",
    "none": "no correction",
}
DRAWN = 1 << 22
FEWEST = 2


def p_values(values: Floats, pairs: Pairs, test: Test, sure: Inference) -> Floats:
    """Compute the two-sided p-value of each pair of systems, shape (pairs,), uncorrected.

    ``values`` has shape (queries, systems), without gaps. Tukey's test corrects for all pairs of
    systems by itself.
    """
    if len(values) < FEWEST:
        raise EvidenceError("a test needs two queries that all systems of it have a value for")
    if test == "tukey":
        return tukey(values, pairs)
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    differences = values[:, columns[:, 0]] - values[:, columns[:, 1]]
    if test == "bootstrap":
        return bootstrap(differences, sure)
    if test == "permutation":
        found = sign_flip_each(
            differences,
            resamples=sure.resamples,
            seed=sure.seed,
            clusters=None,
        )
        return np.array(found)
    return _t(differences) if test == "t" else _wilcoxon(differences)


def correct(found: Floats, correction: Correction) -> Floats:
    """Adjust p-values of one family, shape (tests,)."""
    if correction == "holm":
        return adjusted(found)
    return fdr_adjusted(found) if correction == "bh" else found


def effect_size(differences: Floats) -> float:
    """Compute the mean difference in standard deviations of the differences (Cohen's d_z).

    0 where all differences are 0; infinite where all are equal and not 0.
    """
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if spread == 0:
        return float(np.copysign(np.inf, mean)) if mean else 0.0
    return mean / spread


def tukey(values: Floats, pairs: Pairs) -> Floats:
    """Compute p-values of Tukey's honestly significant differences, systems by queries.

    The error is that of a two-way layout without replication, as each system answers a query once.
    Carterette, "Multiple testing in statistical analysis of systems-based information retrieval
    experiments", TOIS 30, 2012.
    """
    from scipy.stats import studentized_range

    queries, systems = values.shape
    residual = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
    freedom = (queries - 1) * (systems - 1)
    error = float((residual**2).sum()) / freedom
    means = values.mean(0)
    apart = np.array([abs(means[one] - means[other]) for one, other in pairs])
    if error == 0:
        return np.where(apart == 0, 1.0, 0.0)
    found: Floats = studentized_range.sf(apart / np.sqrt(error / queries), systems, freedom)
    return np.clip(found, 0.0, 1.0)


def bootstrap(differences: Floats, sure: Inference) -> Floats:
    """Compute p-values of the studentized paired bootstrap test, shape (pairs,).

    Sakai, "Evaluating evaluation metrics based on the bootstrap", SIGIR 2006. Differences are
    shifted to mean 0 and resampled by query. The p-value is the share of resamples whose t is at
    least as large as that observed, with one added to both counts.
    """
    count = len(differences)
    mean, spread = differences.mean(0), differences.std(0, ddof=1)
    shifted = differences - mean
    constant = spread <= np.finfo(float).eps * np.abs(differences).max(0)
    observed = np.abs(mean) / np.where(constant, 1.0, spread)
    rng = np.random.default_rng(sure.seed)
    beyond, left = np.zeros(differences.shape[1]), sure.resamples
    while left:
        some = min(left, max(1, DRAWN // count))
        times = rng.multinomial(count, np.full(count, 1 / count), size=some).astype(np.float64)
        sums, squares = times @ shifted / count, times @ shifted**2 / count
        deviation = np.sqrt(np.maximum(squares - sums**2, 0.0) * count / (count - 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = np.where(
                deviation > 0, np.abs(sums) / deviation, np.where(sums == 0, 0, np.inf)
            )
        beyond += (drawn >= observed).sum(0)
        left -= some
    found = (beyond + 1) / (sure.resamples + 1)
    return np.where(constant, np.where(mean == 0, 1.0, 1 / (sure.resamples + 1)), found)


def _t(differences: Floats) -> Floats:
    from scipy.stats import ttest_1samp

    moved = np.ptp(differences, axis=0) > 0
    found = np.where(differences.mean(0) == 0, 1.0, 0.0)
    if moved.any():
        found[moved] = ttest_1samp(differences[:, moved], 0.0).pvalue
    return found


def _wilcoxon(differences: Floats) -> Floats:
    from scipy.stats import wilcoxon

    return np.array([
        wilcoxon(column).pvalue if np.any(column) else 1.0 for column in differences.T
    ])
