"""``stacks.typesense.arm``, ``settings``, ``cluster``: what is sent, and what a file may say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks import typesense_nodes as cluster
from engines import registry
from engines.lexical.grammar import exact_clauses as clauses
from engines.stacks.typesense import arm, nodes
from harness.core.errors import BadPolicy, IndexNotReady
from harness.core.records import Document
from tests.source import ROOT

EXAMPLES = ROOT / "examples" / "typesense"
NODES = 'nodes = ["http://host:1"]\nkey_env = "K"\n'
YOURS = 'nodes = ["http://127.0.0.1:9"]\nkey_env = "A_SERVERS_KEY"\ntimeout_s = 5.0\n'


@pytest.mark.parametrize(
    ("text", "wanted", "must"),
    [
        ("red cone", "red cone", ""),
        ('"red cone" x', '"red cone" x', ""),
        ("read_csv", "read csv", ""),
        ("+red cone -blue", "red cone -blue", "(title:`red` || text:`red`)"),
        ("cone -read_csv", 'cone -"read csv"', ""),
        ("`) || *", "", ""),
        ("\U0001f600", "", ""),
    ],
)
def test_a_text_becomes_a_query_and_a_filter(text: str, wanted: str, must: str) -> None:
    assert arm.query(clauses(text)) == wanted
    assert arm.required(clauses(text)) == must


def test_a_filter_has_no_more_words_than_typesense_takes() -> None:
    wanted = clauses(" ".join(f"+word{at}" for at in range(50)))
    assert arm.required(wanted).count("title:") == arm.MAX_MUST
    assert len(arm.query(wanted).split()) == 50


def test_documents_are_in_the_order_of_their_ids_and_hold_no_nul() -> None:
    documents = [Document("b", "", "x\0y"), Document("B", "t\ud800", "z", {"year": 1})]
    found = arm.lines(documents)
    assert [json.loads(line)["id"] for line in found] == ["B", "b"]
    assert '"x y"' in found[1]
    assert nodes.digest_of(found) != nodes.digest_of(found[:1])


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ('nodes = ["127.0.0.1:8108"]\nkey_env = "K"', r"is not an address. Write http://HOST:PORT"),
        ('nodes = ["http://me:secret@host"]\nkey_env = "K"', "keeps a secret"),
        ('nodes = ["http://host:1", "http://host:1"]\nkey_env = "K"', "stands here twice"),
        ('nodes = ["http://host:1"]', "key_env"),
        ('nodes = []\nkey_env = "K"', "nodes"),
        ('nodes = ["http://host:1"]\nkey_env = "no name"', "settings.key_env"),
        (NODES + "num_typos = 3", "settings.num_typos"),
        (NODES + "api_key = 'x'", "settings.api_key"),
    ],
)
def test_a_wrong_file_names_the_key(tmp_path: Path, lines: str, says: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        f'summary = "x"\nstack = "typesense"\n[settings]\ntimeout_s = 5.0\n{lines}\n', "utf-8"
    )
    with pytest.raises(BadPolicy, match=says):
        registry.load(str(path), tmp_path)


def test_a_variable_that_is_not_set_is_named_and_so_is_a_node_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'summary = "x"\nstack = "typesense"\n[settings]\n{YOURS}', "utf-8")
    monkeypatch.delenv("A_SERVERS_KEY", raising=False)
    with pytest.raises(IndexNotReady, match="A_SERVERS_KEY is not set"):
        registry.load(str(path), tmp_path).build([], tmp_path)
    monkeypatch.setenv("A_SERVERS_KEY", "secret")
    with pytest.raises(
        IndexNotReady, match=r"127\.0\.0\.1:9: cannot connect .*correct nodes"
    ) as caught:
        registry.load(str(path), tmp_path).build([], tmp_path)
    assert "secret" not in str(caught.value)


def test_the_halves_of_the_server_are_joined_once_and_again_where_one_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder(package: str) -> Path:
        return tmp_path / package

    monkeypatch.setattr(cluster, "folder_of", folder)
    folder(cluster.PACKAGE).mkdir()
    for half, (name, file) in zip(
        (b"#!/bin/sh\n", b"exit 0\n"), cluster.HALVES.items(), strict=True
    ):
        folder(name).mkdir()
        (folder(name) / file).write_bytes(half)
    whole = cluster.program()
    assert subprocess.run([whole], check=False).returncode == 0
    at = whole.stat().st_mtime_ns
    assert cluster.program().stat().st_mtime_ns == at
    whole.write_bytes(b"#!/bin")
    assert cluster.program().read_bytes() == b"#!/bin/sh\nexit 0\n"
    whole.unlink()
    whole.mkdir()
    with pytest.raises(IndexNotReady, match=r"typesense-server: cannot be written .*Make room"):
        cluster.program()
