"""An encoder whose matrices are multiplied in whole numbers of eight bits.

The graph holds no weights. ``eight_bits.json`` says where they lie in the model's pinned file,
which has them in eight bits with a scale for each column. The graph rounds them to seven when it
is opened. With an eighth bit, processors without VNNI would cut off sums of two products, and their
vectors would be others. What weights are multiplied with is rounded to eight bits as it comes
(dynamic quantisation). How depends on all that stands in the same tensor, so texts go through it
one at a time. ``benchmarks/eight_bits_graph.py`` draws the graph.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime

from harness.core.digest import of_files
from harness.core.formats import json_file
from harness.core.reading import whole

GRAPH = Path(__file__).with_name("eight_bits.onnx")
PLACES = Path(__file__).with_name("eight_bits.json")
"""Of each weight the first byte in the model's file, its shape, and its type as numpy names it."""


def session(weights: Path, options: onnxruntime.SessionOptions) -> onnxruntime.InferenceSession:
    """Open the graph over the pinned file of all-MiniLM-L6-v2.

    It takes ``input_ids``, shape (1, tokens), and gives the last hidden states, shape (1, tokens,
    384).
    """
    held = whole(weights)
    names, values = [], []
    for name, (first, shape, kind) in json_file(PLACES).items():
        array = np.frombuffer(held, kind, int(np.prod(shape)), first).reshape(shape).copy()
        names.append(name)
        values.append(onnxruntime.OrtValue.ortvalue_from_numpy(array))
    options.add_external_initializers(names, values)
    return onnxruntime.InferenceSession(whole(GRAPH), options, providers=["CPUExecutionProvider"])


@cache
def made_by() -> str:
    """Say what the rounded matrices depend on beside the model's file."""
    return f"7-bit weights by graph {of_files([GRAPH, PLACES])[:16]}"
