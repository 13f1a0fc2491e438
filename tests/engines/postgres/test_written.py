"""``stacks.postgres.ranking`` and ``settings``: what is sent, and what a file may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadPolicy, IndexNotReady, InvalidArm, NotInstalled
from harness.core.records import Document
from harness_engines import registry
from harness_engines.lexical.grammar import parse
from harness_engines.stacks.postgres import arm
from harness_engines.stacks.postgres.arm import Settings
from tests.source import ROOT

EXAMPLES = ROOT / "examples" / "postgres"
WORDS = Settings(mode="words", timeout_s=5.0)


@pytest.mark.parametrize(
    ("text", "asked", "values"),
    [
        ("red cone", "(w0) || (w1)", ["'red'", "'cone'"]),
        (
            "+red cone -blue",
            "(((w1)) && ((w1) || (w0))) && !!((w2))",
            ["'cone'", "'red'", "'blue'"],
        ),
        ("-blue", "!!((w0))", ["'blue'"]),
        ("conf*", "(w0)", ["'conf':*"]),
        ("'; DROP TABLE document; --", "", ["'DROP'", "'TABLE'"]),
        ("!!!", "", []),
    ],
)
def test_a_text_becomes_a_query_of_words(text: str, asked: str, values: list[str]) -> None:
    found: dict[str, object] = {}
    sql = arm.tsquery(parse(text), "simple", found)
    for name in found:
        sql = sql.replace(f"to_tsquery('simple', %({name})s)", f"({name})")
    assert list(found.values())[: len(values)] == values
    assert sql == asked or not asked
    assert "DROP" not in sql


def test_what_the_servers_parser_keeps_whole_is_asked_whole() -> None:
    found: dict[str, object] = {}
    sql = arm.tsquery(parse('jane.doe@corp.example "2.4.1"'), "english", found)
    assert "phraseto_tsquery('english', %(w" in sql
    assert set(found.values()) == {
        "jane.doe@corp.example",
        "('jane' <-> 'doe' <-> 'corp' <-> 'example') | 'jane' | 'doe' | 'corp' | 'example'",
        "2.4.1",
        "('2' <-> '4' <-> '1')",
    }


def test_equal_scores_are_ordered_by_id_in_every_statement() -> None:
    given = {"embedder": "hash", "max_tokens": 64}
    for mode in ("words", "vectors", "hybrid"):
        for nearest in ("exact", "hnsw"):
            vectors = {} if mode == "words" else {"vectors": given}
            made = Settings.model_validate({
                "mode": mode,
                "nearest": nearest,
                "timeout_s": 5.0,
                **vectors,
            })
            assert 'score DESC, id COLLATE "C"' in arm.statement(made)
    assert arm.statement(WORDS) != arm.statement(WORDS.model_copy(update={"rank": "ts_rank"}))


def test_rows_are_in_the_order_of_their_ids_and_hold_no_nul(tmp_path: Path) -> None:
    documents = [Document("b", "", "x\0y"), Document("B", "t\ud800", "z")]
    rows = arm.rows(documents, None, tmp_path)
    assert rows == [("B", "t ", "z", ""), ("b", "", "x y", "")]
    assert arm.written([0.5, -1.0]) == "[0.5,-1.0]"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"mode": '"hybrid"'}, "vectors is needed in the modes"),
        ({"ef_search": "10", "nearest": '"hnsw"'}, "ef_search is below depth"),
        ({"dsn_env": '"postgresql://a:b@c/d"'}, "settings.dsn_env"),
        ({"rank": '"bm25"'}, "settings.rank"),
        ({"timeout_s": "0.0"}, "settings.timeout_s"),
    ],
)
def test_a_wrong_file_names_the_key(tmp_path: Path, changed: dict[str, str], says: str) -> None:
    path = tmp_path / "mine.toml"
    keys = {"mode": '"words"', "timeout_s": "5.0", **changed}
    lines = "".join(f"{key} = {value}\n" for key, value in keys.items())
    path.write_text(f'summary = "x"\nstack = "postgres"\n[settings]\n{lines}', "utf-8")
    with pytest.raises(BadPolicy, match=says):
        registry.load(str(path), tmp_path)


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEARCH_DSN", raising=False)
    with pytest.raises(IndexNotReady, match="the variable SEARCH_DSN is not set"):
        arm.dsn_of("SEARCH_DSN")


def test_without_the_extra_the_arm_is_invalid_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(NotInstalled, match=r'pip install "search-harness\[postgres\]"') as caught:
        registry.load(str(EXAMPLES / "postgres.toml"), tmp_path)
    assert isinstance(caught.value, InvalidArm)


@pytest.mark.parametrize("seconds", [0, 0.0009, 1e308, float("inf"), float("nan")])
def test_a_time_limit_is_one(seconds: float) -> None:
    """0.9 ms were sent as 0, which is no limit, and 1e308 s ended without a file or a remedy."""
    with pytest.raises(ValueError, match="timeout_s"):
        Settings(mode="words", timeout_s=seconds)
