"""Whether ir-measures scores two nDCGs alike in one call and in two: docs/decisions/0005.

    python3 run.py python benchmarks/mixed_gains.py

One query, graded 1 and 2, answered in the wrong order. Each trial is a process of its own, because
the order in which ir-measures groups the measures differs from process to process.
"""

from __future__ import annotations

import os
import subprocess
import sys

TRIALS = 20
TRIAL = """
import ir_measures
from ir_measures import nDCG

judged = {"q": {"better": 2, "good": 1}}
shown = {"q": {"good": -1.0, "better": -2.0}}
plain, steep = nDCG @ 10, nDCG(gains={1: 1, 2: 3}) @ 10
alone = [next(iter(ir_measures.iter_calc([m], judged, shown))).value for m in (plain, steep)]
found = {m.measure: m.value for m in ir_measures.iter_calc([plain, steep], judged, shown)}
together = [found[plain], found[steep]]
print("alone", alone, "together", together, "SAME" if alone == together else "DIFFERENT")
"""


def main() -> None:
    """Print what each trial found, and how many found a difference."""
    different = 0
    for seed in range(TRIALS):
        found = subprocess.run(  # noqa: S603  our own snippet
            [sys.executable, "-c", TRIAL],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        print(found)  # noqa: T201  the output
        different += found.endswith("DIFFERENT")
    print(f"{different} of {TRIALS} trials differ")  # noqa: T201


if __name__ == "__main__":
    main()
