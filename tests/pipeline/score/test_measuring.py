"""A policy's own measures."""

from __future__ import annotations

import pytest

from harness.core.errors import HarnessError, UnknownName
from harness.pipeline.oneshot import measuring
from harness.pipeline.params import read
from tests.source import ROOT


def test_what_a_policy_reads_is_measured_too() -> None:
    params = read(ROOT / "params.yaml")
    asked = measuring(params, ["nDCG@8", "nDCG@10"])
    assert asked.score.measures == (*params.score.measures, "nDCG@8")
    assert asked.replay == params.replay
    with pytest.raises(HarnessError, match=r"score.measures R@9999 looks deeper than the"):
        measuring(params, ["R@9999"])
    with pytest.raises(UnknownName, match="no measure named 'nDGC@8'"):
        measuring(params, ["nDGC@8"])
