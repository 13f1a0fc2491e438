"""What search of notes, code and documents answers in a small folder, before and after changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness_engines.stacks.code.units import WHOLE, InvalidFilter, Mode
from tests.engines.test_kept_index import STACKS, ask, live, write
from tests.make.code import SHOP

FILES = {
    "sea/salt.md": "---\ntitle: Salt\n---\n# Salt water\n\nThe harbour and boats.\n\n## Tides\n\n"
    + "The moon moves the tide, and salt stays. " * 40,
    "sea/moon.html": "<html><title>Moon</title><body><h1>Moon</h1><p>A tide &amp; the moon.</p>"
    "<ul><li>boat</li></ul><script>no()</script></body></html>",
    "app/cart.js": "// Adds what is in a cart.\nexport function total(cart) {\n"
    "  return cart.map(price).reduce(add)\n}\nexport class Cart { add(item) { eval(item) } }\n",
    "plain.txt": "Customers pay at the till. Der Preis des Tees ist hoch.\n\nLe thé coûte cher.\n",
    "data.json": '{"tea": {"price": 4, "names": ["assam", "sencha"]}}',
}
TEXTS = (
    *("salt water", '"salt water"', "tide -boat", "-sea", "+tide moon", "arbou", "nowhere", ""),
    *("total price", "total_price", "PriceList.total_price", "load_prices", "cart OR till", "thé"),
    *("a", "prices of tea", "(salt moon) tide", "read prices from a file", "the", "os.system", "%"),
)
VALUES = ("python", "py", "md", "function", "method", "class", "high", "load_prices", "path", "str")
CODE: tuple[Mapping[str, Any], ...] = (
    *({"text": "price", "mode": one, "explain": True} for one in Mode),
    *({"text": "price", "filters": {name: one}} for name in WHOLE for one in VALUES),
    *({"text": "", "filters": one} for one in ({"name": "total.*"}, {"file": "till"}, {"x": "y"})),
    *({"text": "checkout", "top": one, "context": 3, "graph": True} for one in (1, 4)),
)
DOCS: tuple[Mapping[str, Any], ...] = (
    *({"query": "tide", "document_filter": one} for one in ("sea/salt.md", "no.md")),
    *({"query": "tea price", "top_k": one, "related": 2, "explain": True} for one in (1, 3)),
)
NOTES = tuple(
    {"text": "tide", "limit": limit, "budget": budget, "explain": True}
    for limit, budget in ((1, 2_000), (3, 20), (50, 100), (0, 10), (5, 0))
)
BESIDE = {"notes": NOTES, "code": CODE, "docs": DOCS}


def answers(root: Path) -> Iterator[tuple[str, str]]:
    """Ask each stack, change its folder, and ask again."""
    for stack in STACKS:
        folder = root / stack
        for name, text in {**SHOP, **FILES}.items():
            write(folder, name, text)
        followed = live(stack, folder, root / f"{stack}-kept")
        for turn in ("first", "then"):
            with followed.now() as (now, _):
                for text in TEXTS:
                    yield f"{turn} {stack} {text}", tried(partial(ask, stack, now, text))
                does = now.retrieve if stack == "notes" else now.search
                for given in BESIDE[stack]:
                    yield f"{turn} {stack} {given}", tried(partial(does, **given))
            (folder / "plain.txt").unlink(missing_ok=True)
            (folder / "shop/till.py").rename(folder / "shop/desk.py") if turn == "first" else None
            write(folder, "sea/salt.md", "# Sea\n\nSalt and a new word.\n", 10**18 + 1)
        followed.close()


def tried(do: Callable[[], Any]) -> str:
    """Write an answer without its times, or why it was refused."""
    try:
        found = dict(do())
    except (HarnessError, InvalidFilter) as e:
        return str(e)
    found.pop("search_time_ms", None)
    for one in found.get("results", ()):
        one["source"] = {k: v for k, v in one["source"].items() if not k.endswith("_at")}
    return json.dumps(found, sort_keys=True, ensure_ascii=False, default=str)
