"""Without AVX-512 the recorded vectors give the same bytes, and fresh ones do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import processors
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


@pytest.mark.whole(
    "tests/engines/vector/test_recorded.py::test_a_processor_that_is_off_by_less_than_a_unit_gives_what_is_recorded"
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
