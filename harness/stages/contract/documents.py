"""Fifteen documents made by hand, with queries that each quote one of them."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.records import Document

DOCUMENTS = tuple(
    Document(doc_id, title, text)
    for doc_id, title, text in (
        ("bread", "Sourdough bread", "Flour, water and salt, left to rise overnight, then baked."),
        ("bees", "Keeping bees", "A hive of honey bees needs flowers within three kilometres."),
        ("tides", "Tides", "The moon pulls the sea, so the water rises twice a day."),
        ("volcano", "Volcanoes", "Molten rock erupts from deep below the crust of the earth."),
        (
            "bicycle",
            "Patching a puncture",
            "Take the tyre off the wheel, find the hole, patch it.",
        ),
        (
            "chess",
            "Chess openings",
            "The queen's gambit offers a pawn for the centre of the board.",
        ),
        ("pandas", "pandas.read_csv", "Read a comma-separated file into a data frame: read_csv."),
        ("opera", "Opera", "The soprano sings an aria while the orchestra plays softly."),
        ("vaccine", "Vaccines", "A vaccine trains the immune system to fight a virus."),
        ("tokyo", "東京", "日本の首都は東京です。"),
        ("smile", "Emoji", "A smile 😀 says more than words."),
        ("empty", "", ""),
        ("twin-b", "Copy", "The very same words stand in two places."),
        ("twin-a", "Copy", "The very same words stand in two places."),
        ("untitled", "", "Only a body: gravel, lantern, umbrella."),
    )
)

OBVIOUS: Mapping[str, str] = {
    "bread flour salt": "bread",
    "honey bees hive": "bees",
    "moon sea water tides": "tides",
    "volcanoes molten rock erupts": "volcano",
    "puncture tyre wheel patch": "bicycle",
    "chess queen's gambit pawn": "chess",
    "read_csv": "pandas",
    "soprano aria opera orchestra": "opera",
    "vaccine virus immune system": "vaccine",
    "gravel lantern umbrella": "untitled",
}
"""The id of the document that a query quotes."""
EQUAL = ("twin-a", "twin-b")
"""Two documents with the same text, in the order in which they must be shown."""
EQUAL_TEXT = "same words in two places"
COMMON = ("the water of a day", "words", EQUAL_TEXT)
"""Queries whose words stand in several documents."""
