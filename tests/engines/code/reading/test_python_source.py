"""What is read out of Python, out of code that is none, and the rules of risk."""

from __future__ import annotations

import pytest

from engines.stacks.code.reading import documents, python, risk
from engines.stacks.code.units import Facts, Risk, Texts
from harness.core.records import Document
from tests.make.code import SHOP

CODE = '''
@cached
async def fetch_all(self, url: str, *more, retries: int = 3, **options) -> list[bytes]:
    """Fetch a page.

    And more of it.
    """
    # try again
    import numpy as np
    from os import path as p
    found = []
    rate: float = 0.5
    text = "# no comment"
    np.linalg.norm(found)
    p.join(url, text)
    self.session.get(url).json()
    return found
'''


def read(text: str, name: str = "", kind: str = "", **imports: str) -> tuple[Texts, Facts]:
    tree = python.parsed(text)
    assert tree is not None
    return python.read(text, tree, name=name, kind=kind, imports=imports)


def test_a_function_is_taken_apart() -> None:
    texts, facts = read(CODE)
    assert texts.name == "fetch_all"
    assert texts.doc.startswith("Fetch a page.")
    assert texts.comment == "try again"
    assert "Fetch a page" not in texts.body
    assert "try again" not in texts.body
    assert "norm" in texts.body
    assert facts.type == "method"
    assert facts.symbol == facts.full == "fetch_all"
    assert facts.exported
    assert facts.signature == (
        "fetch_all(self, url: str, *more, retries: int=3, **options) -> list[bytes]"
    )
    assert facts.params == ("self", "url", "more", "retries", "options")
    assert facts.return_type == "list[bytes]"
    assert facts.inferred_types == ("str", "int", "list", "float")
    assert facts.calls == ("json", "numpy.linalg.norm", "os.path.join", "self.session.get")
    assert {"numpy.linalg", "found", "url", "list", "bytes"} <= set(facts.uses)
    assert "rate" not in facts.uses
    assert facts.imports == ("numpy", "os.path")


def test_what_the_file_around_imports_is_known() -> None:
    assert read("def f():\n    return np.sum(1)", np="numpy")[1].calls == ("numpy.sum",)


def test_a_qualified_name_with_a_hidden_part_is_not_exported() -> None:
    assert read("def f(): pass", name="a.b.f")[1].exported
    assert not read("def f(): pass", name="a._b.f")[1].exported
    assert not read("def _f(): pass")[1].exported


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 1", "int"),
        ("return [x]", "list"),
        ("if x: return ''\n    return f'{x}'", "str"),
        ("if x: return 1\n    return 'a'", ""),
        ("return x", ""),
        ("pass", ""),
        ("return Path(x)", "Path"),
    ],
)
def test_a_return_type_is_inferred_only_where_all_agree(body: str, said: str) -> None:
    assert read(f"def f(x):\n    {body}")[1].return_type == said


def test_a_class_and_a_module_are_known_as_such() -> None:
    texts, facts = read("class A(B):\n    '''Says.'''\n    x = 1")
    assert (facts.type, facts.signature, texts.doc) == ("class", "A(B)", "Says.")
    _, facts = read("import os\nX = os.environ")
    assert (facts.type, facts.symbol, facts.exported) == ("module", "", False)


@pytest.mark.parametrize("text", ["print 'x'", "a b", "x = \0", "(" * 5000, "def f(:"])
def test_what_is_no_python_is_not_parsed(text: str) -> None:
    assert python.parsed(text) is None


def test_a_sentence_that_parses_is_no_code() -> None:
    for text in ("water", "water; tea", "a, b", "not water", "yes if no else maybe"):
        tree = python.parsed(text)
        assert tree is not None
        assert not python.is_code(tree)


def test_code_of_another_time_is_read_by_its_signs() -> None:
    text = 'def show(self, what, *rest):\n    """Show it."""\n    # aloud\n    print what.upper()\n'
    assert python.parsed(text) is None
    assert documents.understand(Document("a", "", text)).mode == "code"
    texts, facts = documents.read_snippet(text, name="", kind="")
    assert texts[:4] == ("show", "show(self, what, *rest)", "Show it.", "aloud")
    assert (facts.type, facts.params) == ("method", ("self", "what", "rest"))
    assert facts.calls == ("what.upper",)
    assert facts.risks == ()
    prose = documents.understand(Document("a", "", "the class of water"))
    assert prose.mode == "prose"


def risks(code: str) -> tuple[Risk, ...]:
    return read("def f(a):\n" + "".join(f"    {line}\n" for line in code.splitlines()))[1].risks


def test_a_source_that_reaches_a_sink_is_high() -> None:
    found = risks("b = input()\nc = b + 'x'\neval(c)")
    high = [one for one in found if one.severity == risk.HIGH]
    assert high == [Risk("code-execution", "injection", risk.HIGH, "input", "eval")]
    assert high[0].flow == "input->eval"
    assert {one.severity for one in found} == {risk.LOW, risk.MEDIUM, risk.HIGH}


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        ("return a", 0),
        ("eval('1 + 1')", 0),
        ("eval(a)", risk.MEDIUM),
        ("a.execute(a)", risk.MEDIUM),
        ("return input()", risk.LOW),
        ("import os\nos.system(os.environ['X'])", risk.HIGH),
        ("from os import environ as e, system as s\ns(e['X'])", risk.HIGH),
        ("for x in input():\n    exec(x)", risk.HIGH),
        ("with input() as x:\n    exec(x)", risk.HIGH),
        ("exec(y := input())", risk.HIGH),
        ("x = input()\nx = 'safe'\neval(x)", risk.HIGH),
        ("while a:\n    exec(z)\n    z = y\n    y = x\n    x = input()", risk.HIGH),
        ("a.x = input()\neval(a.x)", risk.MEDIUM),
    ],
)
def test_severity_and_its_plain_limits(code: str, severity: int) -> None:
    assert max((one.severity for one in risks(code)), default=0) == severity


def test_the_shop_has_one_function_that_runs_what_the_environment_says() -> None:
    _, facts = read(SHOP["shop/prices.py"])
    assert "os.environ->os.system" in {one.flow for one in facts.risks}
