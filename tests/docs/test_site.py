"""The site of the docs is built without a warning, and its search finds what people look for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from tests.docs.pages import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:::mkdocs"),
    pytest.mark.filterwarnings("ignore:::markdown"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


@pytest.mark.parametrize("wanted", ["negative queries", "nDCG gain", "no judgements"])
def test_the_search_has_every_word_on_one_page(site: Path, wanted: str) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    texts = [f"{one['title']} {one['text']}".lower() for one in index["docs"]]
    assert [text for text in texts if all(word in text for word in wanted.lower().split())]


def test_the_command_line_is_there(site: Path) -> None:
    text = (site / "command-line.html").read_text(encoding="utf-8")
    assert 'id="harness-run"' in text
    assert "--control" in text
