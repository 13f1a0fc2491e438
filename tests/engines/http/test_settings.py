"""``http.settings``, ``http.template``, ``http.headers``: what a file may say, and secrets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import contract
from engines import registry as arms
from engines.stacks.http import settings
from engines.stacks.http.settings import NoMatch, Template, compiled
from harness.core import errors
from harness.core.errors import BadPolicy, IndexNotReady, NotInstalled
from tests.make.search_server import DOCUMENTS, Served, status

Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"url": '"127.0.0.1:9200"'}, "settings.url: .*is not an address. Write http://HOST:PORT"),
        ({"url": '"http://host:port/"'}, "is not an address"),
        ({"url": '"http://me:pw@host/"'}, "keeps a secret. Use a header"),
        ({"url": '"http://host/?api_key=12"'}, "api_key looks like a secret in an address"),
        ({"url": '"http://host/${text}"'}, "an address has no places"),
        ({"headers": '{ Authorization = "Bearer abc" }'}, "Authorization is a secret written"),
        ({"headers": '{ X-Typesense-API-Key = "xyz" }'}, "X-Typesense-API-Key is a secret"),
        ({"headers": '{ X-Own = "Basic dXNlcg==" }'}, "X-Own is a secret written into the file"),
        ({"headers": '{ X-Own = "${a b}" }'}, "is not the name of a variable"),
        ({"query": '{ token = "abc" }'}, "token looks like a secret"),
        ({"body": "'{\"text\": ${text}}'"}, "settings.body: .*not JSON.*Places stand in quotes"),
        ({"body": "'[1]'"}, "is a list. Write a JSON object"),
        ({"body": """'{"q": "${query}", "k": "${k}"}'"""}, "is unknown. Known places"),
        ({"body": """'{"q": "a ${text}", "k": "${k}"}'"""}, "write .*:json.* for a quoted string"),
        ({"body": """'{"${text}": 1}'"""}, "is a key"),
        ({"body": """'{"q": "${text}"}'"""}, r"has \$\{k\}, so it is never sent"),
        ({"body": """'{"k": "${k}"}'"""}, r"has \$\{text\}, so it is never sent"),
        (
            {"body": """'{"k": "${k}", "q": {"t": "${text}", "y": "${params.y}"}}'"""},
            "Put the param",
        ),
        ({"method": '"GET"'}, 'write method = "POST"'),
        ({"hits": '"hits["'}, "'hits.' is not JMESPath"),
        ({"id": '""'}, "settings.id: .*is empty"),
        ({"ids": '"id"'}, "settings.ids: .*has the settings body, ca_file"),
        ({"generation": '"x"', "probe_generation": None}, "needs a probe that reads generation"),
        ({"ca_file": '"a.pem"', "verify": "false"}, "ca_file is not used"),
        ({"timeout_s": "0.0"}, "settings.timeout_s"),
        ({"timeout_s": "inf"}, "settings.timeout_s"),
        ({"retries": "11"}, "settings.retries"),
        ({"probe_version": None, "probe_documents": None, "probe_generation": None}, "Name one"),
        ({"probe_body": """'{"q": "${text}"}'"""}, "a probe has no places"),
        ({"probe_count": '"x"'}, "settings.probe"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_named_with_its_key_and_the_hint(
    arm: Write, tmp_path: Path, changed: dict[str, str | None], message: str
) -> None:
    with pytest.raises(BadPolicy, match=message):
        arms.load(str(arm(**changed)), tmp_path)


def test_a_secret_comes_from_the_environment_and_is_told_to_nobody(
    arm: Write, served: Served, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = arm(headers='{ Authorization = "Bearer ${SEARCH_TOKEN}" }', retries="0")
    engine = arms.load(str(path), index).engine
    monkeypatch.delenv("SEARCH_TOKEN", raising=False)
    with pytest.raises(IndexNotReady, match=r"SEARCH_TOKEN is not set.*Run: export SEARCH_TOKEN"):
        engine.build(DOCUMENTS, index)
    monkeypatch.setenv("SEARCH_TOKEN", "s3cret\n")
    with pytest.raises(IndexNotReady, match="no header can carry") as told:
        engine.build(DOCUMENTS, index)
    assert "s3cret" not in str(told.value)
    monkeypatch.setenv("SEARCH_TOKEN", "s3cret")
    made = engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        searcher.search("red", 1)
        served.faults = [status(401, "bad token s3cret")]
        with pytest.raises(Exception, match=r"bad token \*\*\*"):
            searcher.search("red", 1)
    assert served.headers[0]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in made.fingerprint + (index / "manifest.json").read_text()


def test_without_code_no_variable_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_TOKEN", "s3cret")
    with contract.forbidden(), pytest.raises(IndexNotReady, match="without --no-code"):
        settings.filled({"Authorization": "${SEARCH_TOKEN}"})
    with contract.forbidden():
        assert settings.filled({"X-Own": "1"}).values == {"X-Own": "1"}


def test_without_its_package_the_arm_says_how_to_install_it(
    arm: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'jmespath'", name="jmespath")

    monkeypatch.setattr("engines.registry.import_module", missing)
    with pytest.raises(NotInstalled, match=r'pip install "search-harness\[http\]"'):
        arms.load(str(arm()), tmp_path)
    assert errors.EXTRAS["http"] == ("jmespath",)


@given(st.text(), st.text())
def test_a_body_has_one_shape_for_every_text(text: str, year: str) -> None:
    """The tree that is sent differs in the values alone, however hostile they are."""
    tree = {"q": {"all": ["${text}"]}, "k": "${k}", "filter": "year = ${params.y:json}"}
    settings.places(tree)
    found = Template(tree).filled({"text": text, "k": 3, "params.y": year})
    assert found["q"] == {"all": [text]}
    assert found["k"] == 3
    assert json.loads(found["filter"].removeprefix("year = ")) == year


def test_a_param_that_is_not_given_takes_its_member_along() -> None:
    tree = {"q": "${text}", "f": {"range": {"gte": "${params.a}"}}, "l": [{"y": "${params.b}"}]}
    sent = Template(tree)
    sent.check_params_apart()
    assert sent.filled({"text": "", "k": 1}) == {"q": "", "l": []}
    assert sent.filled({"text": "", "k": 1, "params.a": 0, "params.b": False}) == {
        "q": "", "f": {"range": {"gte": 0}}, "l": [{"y": False}],
    }  # fmt: skip


def test_an_expression_is_looked_up_or_interpreted() -> None:
    assert compiled("a")({"a": 1}) == 1
    assert compiled("a")([1]) is None
    assert compiled("a.b[0]")({"a": {"b": [2]}}) == 2
    with pytest.raises(NoMatch, match="fails"):
        compiled("length(a)")({"a": 1})
