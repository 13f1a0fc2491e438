"""Without AVX-512 recorded vectors give the same bytes, fresh ones nearly, also by eight bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import processors
from harness_engines.vector.embedder import OnnxEmbedder, model
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


@pytest.mark.whole(
    "tests/engines/vector/test_bulk.py::test_a_processor_that_is_off_by_less_than_a_unit_gives_what_is_recorded"
)
@pytest.mark.skipif(
    not processors.may_hide(), reason="needs AVX-512, a kernel that lets CPUID fault, and cc"
)
def test_the_record_makes_processors_agree(
    measured: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = {"as it is": "", "without AVX-512": "avx512"}
    monkeypatch.setattr(processors, "HIDDEN", hidden)
    found = dict(processors.rows(tmp_path, measured.layout.data, (12, 12), []))
    assert found.pop("without AVX-512, no record").startswith("differ")
    assert set(found.values()) == {"equal | 0 | 0 | 0.0e+00"}
    assert len(found) == 3


@pytest.mark.whole(
    "tests/engines/vector/test_models.py::test_a_text_is_near_what_it_is_in_32_bits_and_not_the_same"
)
@pytest.mark.skipif(
    not processors.may_hide(), reason="needs AVX-512, a kernel that lets CPUID fault, and cc"
)
def test_weights_of_seven_bits_are_the_same_without_vnni(tmp_path: Path) -> None:
    """Eight bits cut off sums of two products there, and components differ by hundredths."""
    texts = ["how to read a table of rows", "cosine transform of a signal", "to frame", "average"]
    here = OnnxEmbedder.load(model("all-MiniLM-L6-v2-int8"), 32).embed(texts)
    there = tmp_path / "there.npy"
    code = (
        "import numpy\n"
        "from harness_engines.vector.embedder import model\n"
        "from harness_engines.vector.embedder import OnnxEmbedder\n"
        "encoder = OnnxEmbedder.load(model('all-MiniLM-L6-v2-int8'), 32)\n"
        f"numpy.save({str(there)!r}, encoder.embed({texts!r}))\n"
    )
    hidden = {"LD_PRELOAD": str(processors.library(tmp_path)), "HIDDEN_FEATURES": "avx512"}
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **hidden}, check=True)
    assert np.abs(np.load(there) - here).max() < 1e-5
