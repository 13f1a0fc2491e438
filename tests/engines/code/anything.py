"""Functions, pages and records made from known parts, and by those parts what a filter passes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random

from harness.core.records import Document

NAMES = ("read_csv", "readCSV", "_hidden", "Total", "merge", "parse_url", "x", "test_all")
PARAMS = ("path", "data", "axis", "Axis", "self", "key", "n")
TYPES = {"int": "1", "str": '"a"', "float": "1.5", "list": "[]", "dict": "{}", "bool": "True"}
RETURNS = ("", "int", "list[str]", "DataFrame", "str | None")
CALLS = ("os.path.join", "helper", "np.sum", "json.loads", "Path.Join")
FOLDERS = ("src/app", "src/App", "tests", "lib/a+b", "", "docs/été")
FILES = ("util.py", "test_util.py", "Makefile", "a.b.py", ".hidden", "IO.PY", "main.pyi")
WORDS = ("water", "tea", "river", "stone", "cloud")
Known = dict[str, frozenset[str]]


@dataclass(frozen=True)
class Hazard:
    """Lines of a function, and what they are known to be."""

    lines: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    known: Known = field(default_factory=dict)


def _risky(level: int, **known: tuple[str, ...]) -> Known:
    levels = ("low", "medium", "high")[:level]
    return {"risk": frozenset(levels), **{k: frozenset(v) for k, v in known.items()}}


HAZARDS = (
    Hazard(),
    Hazard(
        ("got = input()",), ("input",), ("input",),
        _risky(1, risk_tag=("user-input",), risk_category=("input",), risk_source=("input",)),
    ),
    Hazard(
        ("eval(key)",), ("eval",), ("eval", "key"),
        _risky(2, risk_tag=("code-execution",), risk_category=("injection",), risk_sink=("eval",)),
    ),
    Hazard(("eval('1')",), ("eval",), ("eval",)),
    Hazard(
        ("got = input()", "held = got", "pickle.loads(held)"),
        ("input", "pickle.loads"), ("input", "got", "pickle.loads", "pickle", "held"),
        _risky(
            3, risk_tag=("user-input", "deserialization"), risk_category=("input", "injection"),
            risk_source=("input",), risk_sink=("pickle.loads",), risk_flow=("input->pickle.loads",),
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Made:
    """A document, and what it is known to be."""

    document: Document
    known: Known
    texts: dict[str, str]

    def passes(self, name: str, value: str) -> bool:
        """Say whether the document has what one filter asks for, by what it was made of."""
        if name in {"file", "path", "signature"}:
            if len(value) > 2 and value[0] == value[-1] == "/":
                return re.search(value[1:-1], self.texts[name]) is not None
            return " ".join(value.casefold().split()) in self.texts[name].casefold()
        wanted = " ".join(value.casefold().split())
        if name == "ext":
            wanted = wanted.removeprefix(".")
        return wanted in {one.casefold() for one in self.known.get(name, frozenset())}


def make(seed: int, count: int) -> tuple[Made, ...]:
    """Make documents, most of them functions, by the order of their ids."""
    rng = Random(seed)
    kinds = [_function] * 5 + [_page, _record]
    return tuple(rng.choice(kinds)(rng, f"d{at:03d}") for at in range(count))


def _function(rng: Random, doc_id: str) -> Made:
    name, kind = rng.choice(NAMES), rng.choice(("function", "method"))
    params = rng.sample(PARAMS, rng.randint(0, 3))
    typed = {one: rng.choice(tuple(TYPES)) for one in params if rng.random() < 0.4}
    local, back = rng.choice(tuple(TYPES)), rng.choice(RETURNS)
    calls, hazard = rng.sample(CALLS, rng.randint(0, 2)), rng.choice(HAZARDS)
    written = ", ".join(f"{one}: {typed[one]}" if one in typed else one for one in params)
    signature = f"{name}({written})" + (f" -> {back}" if back else "")
    lines = [
        f"def {signature}:",
        f'    """{" ".join(rng.sample(WORDS, 2))}"""',
        f"    local = {TYPES[local]}",
        *(f"    {one}()" for one in calls),
        *(f"    {line}" for line in hazard.lines),
    ]
    used = {*hazard.uses, *re.findall(r"\w+", back), *typed.values()} - {"None"}
    for one in calls:
        parts = one.split(".")
        used |= {".".join(parts[: at + 1]) for at in range(len(parts))}
    path, texts = _place(rng)
    known = {
        **hazard.known,
        "lang": frozenset({"python"}),
        "type": frozenset({kind}),
        "ext": _ext(texts["file"]),
        "param": frozenset(params),
        "inferred_type": frozenset({*typed.values(), local}),
        "return_type": frozenset({back} - {""}),
        "calls": _both((*calls, *hazard.calls)),
        "uses": _both(tuple(used)),
    }
    about = {"path": path, "kind": kind, "mode": "code", "language": "Python"}
    document = Document(doc_id, "", "\n".join(lines), about)
    return Made(document, known, {**texts, "signature": signature})


def _page(rng: Random, doc_id: str) -> Made:
    path, texts = _place(rng)
    document = Document(
        doc_id, "A page", " ".join(rng.sample(WORDS, 3)),
        {"path": path, "kind": "section", "mode": "prose", "language": "markdown"},
    )  # fmt: skip
    known = {
        "type": frozenset({"section"}),
        "lang": frozenset({"markdown"}),
        "ext": _ext(texts["file"]),
    }
    return Made(document, known, {**texts, "signature": ""})


def _record(rng: Random, doc_id: str) -> Made:
    path, _ = _place(rng)
    path = f"{path}.json"
    document = Document(
        doc_id, "", f'{{"{rng.choice(WORDS)}": "{rng.choice(WORDS)}", "n": 1}}', {"path": path}
    )
    key = document.text.split('"')[1]
    known = {
        "type": frozenset({"record"}), "lang": frozenset({"json"}), "ext": frozenset({"json"}),
        "param": frozenset({key, "n"}),
    }  # fmt: skip
    texts = {"path": path, "file": path.rpartition("/")[2], "signature": ""}
    return Made(document, known, texts)


def _place(rng: Random) -> tuple[str, dict[str, str]]:
    file, folder = rng.choice(FILES), rng.choice(FOLDERS)
    path = f"{folder}/{file}" if folder else file
    return path, {"path": path, "file": file}


def _ext(file: str) -> frozenset[str]:
    stem, _, ext = file.rpartition(".")
    return frozenset({ext.lower()} if stem else set())


def _both(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names) | {name.split(".")[-1] for name in names}
