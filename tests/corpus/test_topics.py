"""Topics of TREC."""

from __future__ import annotations

import pytest

from harness.core.errors import BadFile
from harness.core.records import Query
from harness.corpus import trec
from tests.corpus.conftest import Written

CLASSIC = """
<top>

<num> Number: 301
<title> International
 Organized Crime

<desc> Description:
Identify organizations.
<narr> Narrative:
A relevant document names one.
</top>
<top><num>302</num><title>Topic: Polio</title> not this
</top>
"""


def test_the_title_is_the_query(written: Written) -> None:
    assert trec.tagged(written(CLASSIC)) == (
        Query("301", "International Organized Crime"),
        Query("302", "Polio"),
    )


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("<top>\n<title> a\n</top>", 1, "this topic has no <num>"),
        ("\n<top>\n<num> 1\n</top>", 2, "this topic has no <title>"),
        ("<top>\n<num> 1\n<title> a", 1, "this <top> is not closed"),
        ("<top>\n<num> 1\n<title> a\n<top>", 1, "this <top> is not closed"),
        (CLASSIC + CLASSIC, 16, "the query 301 is on line 2 already"),
    ],
)
def test_a_bad_topic_is_told_with_its_line(
    written: Written, text: str, line: int, says: str
) -> None:
    with pytest.raises(BadFile, match=f"file:{line}: {says}"):
        trec.tagged(written(text))


def test_a_file_without_topics_is_an_error(written: Written) -> None:
    with pytest.raises(BadFile, match=r"it holds no query\. Check that this is a file of topics"):
        trec.tagged(written("301 crime"))


def test_a_table_keeps_its_texts(written: Written) -> None:
    found = trec.table(written("1\ta  b\tc\n2\td\n"))
    assert found == (Query("1", "a  b\tc"), Query("2", "d"))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("2 b", "the line has no second column. Write: id<TAB>text"),
        ("2\t ", "the line has no second column"),
        ("\tb", "the query id '' is empty"),
        ("1\tb", "the query 1 is on line 1 already"),
    ],
)
def test_a_bad_row_is_told_with_its_line(written: Written, line: str, says: str) -> None:
    with pytest.raises(BadFile, match=f"file:2: {says}"):
        trec.table(written(f"1\ta\n{line}\n"))


@pytest.mark.parametrize(
    "content",
    [
        "qid\tquery\n7\tred shoes\n",
        "text\tid\nred shoes\t7\n",
        "ID\tlang\tText\n7\ten\tred shoes\n",
    ],
)
def test_columns_of_a_table_go_by_their_names(written: Written, content: str) -> None:
    assert trec.table(written(content)) == (Query("7", "red shoes"),)
