"""An encoder whose matrices are multiplied in whole numbers of eight bits.

The graph is made from the model's pinned weights whenever it is opened. Matrices are rounded to
seven bits for each column, and what they are multiplied with to eight as it comes (dynamic
quantisation). With an eighth bit, processors without VNNI would cut off sums of two products, and
their vectors would be others. How an activation is rounded depends on all that stands in the same
tensor, so texts go through it one at a time.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import onnxruntime

from harness.core.durable.scratch import scratch
from harness.core.errors import ModelNotReady
from harness.core.extras import install_module

ONNX = "onnx"
"""The package that rewrites graphs."""


def graph(weights: Path) -> bytes:
    """Give the graph of a model's file with its matrices in eight bits.

    Raises:
        ModelNotReady: the package that rewrites graphs is not installed.
    """
    try:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic
        from onnxruntime.quantization.quant_utils import add_pre_process_metadata
    except ModuleNotFoundError as exc:
        raise _absent() from exc
    with scratch() as folder:
        folded, rounded = folder / "folded.onnx", folder / "rounded.onnx"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(folded)
        onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
        whole = onnx.load(str(folded))
        add_pre_process_metadata(whole)  # else it warns, and its folding is what was just done
        quantize_dynamic(
            whole, rounded, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True
        )
        return rounded.read_bytes()


def made_by() -> str:
    """Say what the rounded matrices depend on beside the model's file.

    Raises:
        ModelNotReady: the package that rewrites graphs is not installed.
    """
    try:
        return f"7-bit weights by onnx {version(ONNX)}"
    except PackageNotFoundError as exc:
        raise _absent() from exc


def _absent() -> ModelNotReady:
    return ModelNotReady(
        f"the package {ONNX}, which makes an encoder of eight bits, is not installed."
        f" Run: {install_module(ONNX)}"
    )
