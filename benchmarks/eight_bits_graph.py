"""Draw the graph of ``engines/harness_engines/vector/embedder.py`` and say where its weights lie.

    python3 run.py uv pip install onnx==1.23.2
    python3 run.py python benchmarks/eight_bits_graph.py

Reads the pinned file of all-MiniLM-L6-v2 and writes ``eight_bits.onnx`` and ``eight_bits.json``
beside that module: the same bytes each time. BERT's layers (Devlin and others, NAACL 2019), with
the operations that onnxruntime has for them: one for attention, one for the sum before a layer's
normalisation. Matrices have eight bits in the file, a scale for each column; seven are made of
them by steps without an input, which are taken once, when the graph is opened.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from harness.core.files import replacing, write_json
from harness_engines.vector import embedder
from harness_engines.vector.embedder import MINILM

LAYERS, HEADS, WIDTH = 6, 12, 384
MOST, KEPT = 127, 64
"""The largest whole number of a column in the file, and what becomes of it."""
TINY = 1e-12
"""What BERT adds to a variance."""
OWN = "com.microsoft"
"""Domain of onnxruntime's operations."""
MATRICES = ("query", "key", "value", "out", "wide", "narrow")
"""Of each layer, in the order of the file."""


@dataclass(slots=True)
class Drawing:
    """Operations so far, and the names of weights that they read."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    read: dict[str, None] = field(default_factory=dict)
    constants: dict[str, NDArray[np.generic]] = field(default_factory=dict)

    def weight(self, name: str) -> str:
        """Read a weight of the file."""
        self.read[name] = None
        return name

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        """Keep a value in the graph itself."""
        self.constants[name] = value
        return name

    def step(self, kind: str, inputs: list[str], out: str, domain: str = "", **how: object) -> str:
        """Add an operation, and give the name of what comes out."""
        self.nodes.append(helper.make_node(kind, inputs, [out], domain=domain, **how))
        return out

    def rounded(self, name: str) -> tuple[str, str]:
        """Return a matrix of the file in seven bits, and the scale of its columns."""
        less = self.constant("less", np.array(KEPT / MOST, np.float32))
        more = self.constant("more", np.array(MOST / KEPT, np.float32))
        plain = self.step("Cast", [self.weight(f"{name}_q")], f"{name}.real", to=TensorProto.FLOAT)
        small = self.step("Mul", [plain, less], f"{name}.small")
        near = self.step("Round", [small], f"{name}.near")
        bits = self.step("Cast", [near], f"{name}.bits", to=TensorProto.INT8)
        scale = self.step("Mul", [self.weight(f"{name}_scale"), more], f"{name}.more")
        flat = self.constant("flat", np.array([-1], np.int64))
        return bits, self.step("Reshape", [scale, flat], f"{name}.scale")

    def embedded(self, ids: str) -> str:
        """Add the vectors of words, places and the first of two segments."""
        prefix = "inner.embeddings."
        zero = self.constant("zero", np.array([0], np.int64))
        one = self.constant("one", np.array([1], np.int64))
        words = f"{prefix}word_embeddings.weight"
        found = self.step("Gather", [self.weight(f"{words}_q"), ids], "word.bits")
        real = self.step("Cast", [found], "word.real", to=TensorProto.FLOAT)
        scale = self.step("Gather", [self.weight(f"{words}_scale"), ids], "word.scale")
        word = self.step("Mul", [real, scale], "word")
        places = f"{prefix}position_embeddings.weight"
        real = self.step("Cast", [self.weight(f"{places}_q")], "places.real", to=TensorProto.FLOAT)
        whole = self.step("Mul", [real, self.weight(f"{places}_scale")], "places")
        segments = self.weight(f"{prefix}token_type_embeddings.weight")
        first = self.step("Slice", [segments, zero, one, zero], "segment")
        both = self.step("Add", [whole, first], "places.segment")
        tokens = self.step("Shape", [ids], "tokens", start=1)
        place = self.step("Slice", [both, zero, tokens, zero], "place")
        total = self.step("Add", [word, place], "embedded")
        norm = [self.weight(f"{prefix}LayerNorm.{part}") for part in ("weight", "bias")]
        return self.step("LayerNormalization", [total, *norm], "states.0", axis=-1, epsilon=TINY)

    def layer(self, states: str, number: int, matrices: dict[str, str]) -> str:
        """Add one layer."""
        prefix, at = f"inner.encoder.layer.{number}.", f".{number}"
        three = [self.rounded(matrices[one]) for one in MATRICES[:3]]
        bits = self.step("Concat", [one for one, _ in three], f"three{at}", axis=1)
        scale = self.step("Concat", [one for _, one in three], f"three.scale{at}", axis=0)
        biases = [self.weight(f"{prefix}attention.self.{one}.bias") for one in MATRICES[:3]]
        bias = self.step("Concat", biases, f"three.bias{at}", axis=0)
        asked = [f"asked{at}", f"asked.scale{at}", f"asked.zero{at}"]
        self.nodes.append(helper.make_node("DynamicQuantizeLinear", [states], asked))
        heard = self.step(
            "QAttention",
            [asked[0], bits, bias, asked[1], scale, "", asked[2]],
            f"heard{at}",
            OWN,
            num_heads=HEADS,
        )
        out = self.product(heard, matrices["out"], f"out{at}")
        states = self.normal(out, states, f"{prefix}attention.output", f"heard.normal{at}")
        wide = self.product(states, matrices["wide"], f"wide{at}")
        bent = [wide, self.weight(f"{prefix}intermediate.dense.bias")]
        narrow = self.step("BiasGelu", bent, f"bent{at}", OWN)
        narrow = self.product(narrow, matrices["narrow"], f"narrow{at}")
        last = "states" if number == LAYERS - 1 else f"states.{number + 1}"
        return self.normal(narrow, states, f"{prefix}output", last)

    def product(self, states: str, matrix: str, out: str) -> str:
        """Multiply in whole numbers."""
        return self.step("DynamicQuantizeMatMul", [states, *self.rounded(matrix)], out, OWN)

    def normal(self, changed: str, states: str, prefix: str, out: str) -> str:
        """Add a bias and what was there before, and normalise."""
        parts = ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")
        weights = [self.weight(f"{prefix}.{part}") for part in parts]
        step = "SkipLayerNormalization"
        return self.step(step, [changed, states, *weights], out, OWN, epsilon=TINY)


def drawn(model: onnx.ModelProto) -> Drawing:
    """Draw all layers of the model."""
    names = [one.name for one in model.graph.initializer]
    matrices = [n.removesuffix("_q") for n in names if n.startswith("val_") and n.endswith("_q")]
    drawing = Drawing()
    states = drawing.embedded("input_ids")
    for number in range(LAYERS):
        of = matrices[number * len(MATRICES) : (number + 1) * len(MATRICES)]
        states = drawing.layer(states, number, dict(zip(MATRICES, of, strict=True)))
    return drawing


def write(folder: Path) -> None:
    """Write both files into a folder."""
    path = MINILM.weights.path()
    held = path.read_bytes()
    model = onnx.load_model_from_string(held)
    drawing = drawn(model)
    places, weights = {}, []
    for one in model.graph.initializer:
        if one.name not in drawing.read:
            continue
        first = held.index(one.raw_data)
        kind = helper.tensor_dtype_to_np_dtype(one.data_type).name
        places[one.name] = [first, list(one.dims), kind]
        elsewhere = TensorProto(name=one.name, data_type=one.data_type, dims=one.dims)
        elsewhere.data_location = TensorProto.EXTERNAL
        elsewhere.external_data.add(key="location", value=path.name)
        weights.append(elsewhere)
    weights += [numpy_helper.from_array(v, name) for name, v in drawing.constants.items()]
    graph = helper.make_graph(
        drawing.nodes,
        "eight_bits",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])],
        [helper.make_tensor_value_info("states", TensorProto.FLOAT, [1, "tokens", WIDTH])],
        initializer=weights,
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(OWN, 1)]
    made = helper.make_model(graph, opset_imports=versions, ir_version=8)
    write_json(folder / embedder.PLACES.name, places)
    graph_file = folder / embedder.GRAPH.name
    with replacing(graph_file) as beside:
        beside.write_bytes(made.SerializeToString(deterministic=True))
    sys.stdout.write(f"{len(places)} weights, {graph_file.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    write(embedder.GRAPH.parent)
