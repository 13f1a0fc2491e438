"""Services over kept folders."""

import random
from collections.abc import Callable
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import pytest
from mcp import Client

from harness.core.errors import HarnessError, ModelNotReady, UnknownName
from harness_engines.kept.kit import CODE, DOCUMENTS, NOTES
from harness_engines.stacks.code.arm import Code
from harness_engines.stacks.code.ranking import CodeSettings
from harness_engines.stacks.documents import ranking
from harness_engines.stacks.documents.arm import Documents
from harness_engines.stacks.documents.library import DocumentSettings
from tests.engines.test_kept_index import BY_WORDS, FORMULA, STACKS, ask, live, write
from tests.make.code import SETTINGS as CODE_SETTINGS
from tests.make.code import write_shop
from tests.make.files import pdf


@pytest.mark.parametrize("stack", STACKS)
def test_a_query_that_no_index_answers_is_looked_for_as_it_is(tmp_path: Path, stack: str) -> None:
    write(tmp_path / "root", "a.md", "# A\n\nThe word 東京都庁 stands here, and unforgettable.\n")
    write(tmp_path / "root", "b.md", "# B\n\nsalt\n")
    followed = live(stack, tmp_path / "root", tmp_path / "kept")
    with followed.now() as (now, _):
        for text in ("京", "forgett", "+forgett -salt"):
            answer = ask(stack, now, text)
            shown = str(answer)
            assert "'fallback': 'like'" in shown, text
            assert "unforgettable" in shown
            assert "salt" not in str(answer.get("results", answer.get("items", answer.get("hits"))))
        assert "'fallback': 'like'" not in str(ask(stack, now, "salt"))
        assert "'fallback': 'like'" not in str(ask(stack, now, "forgett -stands"))
    followed.close()


def asked(opened: Any, text: str, **given: object) -> Any:  # noqa: ANN401  JSON of code
    return CODE.answer(opened, {"query": text, **given})


def found_in(opened: Any, text: str, **given: object) -> Any:  # noqa: ANN401  JSON of documents
    return DOCUMENTS.answer(opened, {"query": text, **given})


def test_code_is_shown_with_what_is_beside_it(tmp_path: Path) -> None:
    followed = live("code", write_shop(tmp_path / "root"), tmp_path / "kept")
    with followed.now() as (now, _):
        found = asked(now, "checkout", top=1, mode="code", context=3)
    followed.close()
    (hit,) = found["hits"]
    assert hit["score"] > 0
    beside = {(one["name"], one["reason"], one["of"]) for one in found["context"]}
    assert ("shop.prices.load_prices", "call", hit["id"]) in beside


@pytest.mark.parametrize("name", ["retain", "Book.retain", "Book"])
def test_what_is_named_exactly_comes_before_prose_and_words(tmp_path: Path, name: str) -> None:
    write(tmp_path / "root", "a.md", f"# About {name}\n\n{name} {name}: retain a Book.\n")
    write(tmp_path / "root", "b.py", '"""retain Book."""\n\n\ndef retained(Book):\n    retain()\n')
    write(tmp_path / "root", "z.py", "class Book:\n    def retain(self):\n        return 1\n")
    followed = live("code", tmp_path / "root", tmp_path / "kept")
    with followed.now() as (now, _):
        first, *rest = asked(now, name, explain=True)["hits"]
        prose = asked(now, name, mode="prose")["hits"]
        only = asked(now, name, path="b.py")["hits"]
    followed.close()
    assert first["name"] in {f"z.{name}", f"z.Book.{name}"}
    assert first["scoreBreakdown"]["selected"] == {"type": "name", "score": 1.0}
    assert rest
    assert {hit["mode"] for hit in prose} == {"prose"}
    assert {hit["path"] for hit in only} == {"b.py"}


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("papers") / "root"
    root.mkdir()
    pages = [["Customer retention rose in Ocean Tide Trust."], ["Churn fell in Ocean Tide Trust."]]
    (root / "q3.pdf").write_bytes(pdf(pages))
    write(root, "c.md", "Salt and water.\n")
    write(root, "b.md", "# Notes\n\nRetention of customers and Ocean Tide Trust.\n")
    return root


def test_documents_are_cited_filtered_and_expanded(papers: Path, tmp_path: Path) -> None:
    followed = live("docs", papers, tmp_path / "kept")
    with followed.now() as (now, _):
        found = found_in(now, "churn", max_expansions=5)
        assert found["results"][0]["citation"] == "q3.pdf, p. 2, para. 1"
        assert found["results"][0]["source"]["document_path"] == str(papers / "q3.pdf")
        assert {one["document_id"] for one in found["related"]} == {"q3.pdf", "b.md"}
        assert found["related"][0]["shared"] == ["ocean tide trust"]
        told = found_in(now, "customer retention of ocean tide", explain=True)
        ids = [one["source"]["chunk_id"] for one in told["results"]]
        assert [told["explain"][name]["bm25"] for name in ids] == [1, 2, 3]
        assert "related" not in found_in(now, "churn")
        only = found_in(now, "retention", document_filter="b.md")["results"]
        assert [one["source"]["document_id"] for one in only] == ["b.md"]
        with pytest.raises(UnknownName, match=r"b\.md"):
            found_in(now, "retention", document_filter="b.txt")
        with pytest.raises(HarnessError, match="ask for one result"):
            found_in(now, "retention", top_k=0)
    followed.close()


def test_a_missing_model_answers_by_words_and_says_so(papers: Path, tmp_path: Path) -> None:
    def absent(_: DocumentSettings) -> None:
        raise ModelNotReady("the file is absent")

    models = {"embedder": "all-MiniLM-L6-v2", "sparse": "splade-tiny"}
    ranked = {"fusion": "rank", "recall_weight": 1.0}
    given = DocumentSettings.model_validate({**BY_WORDS, **models, **ranked})
    with mock.patch.object(ranking, "embedder_of", absent):
        followed = DOCUMENTS.follow(Documents(given, tmp_path / "cache"), papers, tmp_path / "kept")
        with followed.now() as (now, _):
            found = found_in(now, "customer retention")
        followed.close()
    (missing,) = found["missing"]
    assert [*missing.values()] == ["E1", "the file is absent", ranking.MODEL_NOT_READY]
    assert found["results"]
    by_words = DocumentSettings.model_validate({**BY_WORDS, **FORMULA})
    assert ranking.Loaded.of(by_words, tmp_path).missing == ()


def test_an_answer_to_a_client_names_what_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path / "root", "a.md", "salt")
    app = NOTES.application(live("notes", tmp_path / "root", tmp_path / "kept"), "notes")

    async def ask() -> Any:  # noqa: ANN401  as the tool gives it
        async with Client(app) as client:
            told = await client.call_tool("rag_retrieve", {"queryText": "salt"})
        return told.structured_content

    assert "unread" not in anyio.run(ask)
    (tmp_path / "root" / "b.md").write_bytes(b"\xff")
    why = "is not UTF-8 (invalid start byte). Save it as UTF-8"
    assert anyio.run(ask)["unread"] == [{"path": "b.md", "why": why}]


GOOD = "def harbour():\n    return 'tide'\n"
STATES = {
    "a long number": b"def anchor():\n    return 0x" + b"f" * 4_200 + b"\n",
    "half a pair": b'def anchor():\n    """Half \\ud800 a pair."""\n    return "\\udfff"\n',
    "no Python": b"import salt\ndef anchor(:\n    return\n",
    "depth": b"def anchor():\n    return " + b"-" * 3_000 + b"1\n",
    "null bytes": b"def anchor():\n    return '\0'\n",
}


def searched(root: Path, text: str, **changed: object) -> dict[str, Any]:
    given = {**CODE_SETTINGS, "embedder": "", "mixed": "scores", **changed}
    arm = Code(CodeSettings.model_validate(given), root.parent / "cache")
    followed = CODE.follow(arm, root, root.parent / "kept")
    try:
        with followed.now() as (now, done):
            assert done is not None
            assert done.faults == ()
            return dict(asked(now, text))
    finally:
        followed.close()


@pytest.mark.parametrize("state", STATES)
def test_source_in_any_state_is_found(tmp_path: Path, state: str) -> None:
    root = tmp_path / "root"
    write(root, "good.py", GOOD)
    (root / "bad.py").write_bytes(STATES[state])
    assert [hit["path"] for hit in searched(root, "anchor")["hits"]][:1] == ["bad.py"]
    assert [hit["path"] for hit in searched(root, "harbour")["hits"]][:1] == ["good.py"]


LINES = f"import numpy as np\nfrom os import path\n\n# Tuned by hand\n\n{GOOD}"


@pytest.mark.parametrize(
    ("text", "line"), [("numpy", 1), ("os import path", 2), ("tuned by hand", 4), ("umpy", 1)]
)
def test_a_line_in_no_unit_is_found_with_its_place(tmp_path: Path, text: str, line: int) -> None:
    write(tmp_path / "root", "a.py", LINES)
    answer = searched(tmp_path / "root", text)
    (hit,) = answer["hits"]
    assert (hit["type"], hit["path"], hit["lines"]) == ("line", "a.py", f"{line}-{line}")
    assert answer["fallback"] == "like"


def letter() -> bytes:
    made = EmailMessage()
    made["Subject"], made["From"] = "Gezeiten für März", "Ada <ada@example.org>"
    made.set_content("The tide\ncomes in.\n" * 5)
    made.add_alternative("<p>The tide comes in.</p>" * 5, subtype="html")
    return made.as_bytes()


def word() -> bytes:
    docx = pytest.importorskip("docx", reason='needs the extra "documents"')
    made, written = docx.Document(), BytesIO()
    made.add_paragraph("The tide comes in.")
    made.save(written)
    return written.getvalue()


LINE = b"From a Mon Jan  6 00:00:00 2025\n"
SOURCE = b'"""Tides."""\nimport sea\n\ndef tide(at: int) -> str:\n    return "\\ud800" * 0x%s\n'
WHOLE: dict[str, dict[str, bytes | Callable[[], bytes]]] = {
    "notes": {
        "md": b"---\ntitle: Tide\n---\n# Tide\n\n```\n# no\n```\n\n* a\n",
        "txt": b"Tide\n----\n",
        "rst": b"====\nTide\n====\n\nIn.\n",
        "org": b"#+title: Tide\n* In\n#+begin_src\n* no\n#+end_src\n",
    },
    "code": {
        "py": SOURCE % (b"f" * 4_200),
        "pyi": SOURCE % b"1",
        "md": b"# Tide\n\n```\n# no\n```\n\n## In\n",
        "toml": b'[tide]\nin = "noon"\nat = [1, 2]\n',
        "json": b'{"tide \\ud800": {"in": ["noon", 1e5]}}',
        "csv": b'tide,"in"\nnoon,1\n',
    },
    "docs": {
        "pdf": pdf([["The tide comes in."], ["Twice a day."]]),
        "docx": word,
        "html": b"<meta charset=gb2312><ruby>t<rt>i</ruby><table><tr><td>de<td>in</table>",
        "eml": letter,
        "mbox": lambda: LINE + letter() + b"\n" + LINE + b"Subject: x\n\nsalt\n",
        "txt": b"The tide\n\ncomes in.\n",
    },
}


def damaged(whole: bytes, drawn: random.Random) -> bytes:
    """Cut a file, or change, repeat, swap or fill some of it."""
    low, high = sorted(drawn.choices(range(len(whole) + 1), k=2))
    before, within, behind = whole[:low], whole[low:high], whole[high:]
    some = bytes(drawn.choices(range(256), k=drawn.randint(1, 8)))
    ways = (
        *(before, before + some + within + behind, before + b"\0" * len(within) + behind),
        *(before + behind, before + within * 3 + behind, behind + within + before),
        bytes(one ^ (drawn.random() < 0.02) << drawn.randrange(8) for one in whole),
    )
    return drawn.choice(ways)


@pytest.mark.slow
@pytest.mark.parametrize("stack", WHOLE)
def test_damaged_files_stop_no_folder(
    tmp_path: Path, stack: str, draws: Callable[[int, int], int]
) -> None:
    drawn, root, each = random.Random(stack), tmp_path / "root", draws(10, 40)
    root.mkdir()
    kept = live(stack, root, tmp_path / "kept")
    (root / "good.md").write_text("# Harbour\n\nBoats wait for quinces.\n")
    for kind, made in WHOLE[stack].items():
        whole = made if isinstance(made, bytes) else made()
        for at in range(each):
            (root / f"{kind}-{at}.{kind}").write_bytes(damaged(whole, drawn))
    with kept.now() as (now, done):
        assert done is not None
        assert done.read + len(done.faults) == each * len(WHOLE[stack]) + 1
        assert all(": " not in fault.path and fault.why for fault in done.faults)
        assert "good.md" in str(ask(stack, now, "quinces"))
        if stack == "docs":
            assert not [fault for fault in done.faults if "cannot be read (" in fault.why]
    kept.close()
