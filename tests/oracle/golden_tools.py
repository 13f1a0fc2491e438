"""What search of a small mailbox, and of a folder of notes, code and documents, answers."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness_engines.kept.kit import KITS
from harness_engines.mcp_server import ToolRefusal, resolved
from harness_engines.stacks.agent_mail.contract import SearchMode
from harness_engines.stacks.agent_mail.mcp_tools.arguments import Beginning, InProduct, InProject
from harness_engines.stacks.agent_mail.mcp_tools.server import Surface
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.code.units import WHOLE, InvalidFilter, Mode
from tests.engines.agent_mail.whole import EYE, world
from tests.engines.test_kept_index import STACKS, ask, live, write
from tests.make.code import SHOP

TEXTS = (
    *("review", "Review plan", '"migration plan" -noon', "+index failed", "br-2tnl", "read_csv"),
    *("src/app/main.py", "v1.2.3", "rev*", "failed OR crash", "NOT review", "(lock index) done"),
    *("", "nothing of this", "a", "部署 失败", "100% of a_b", "Auslieferung", '"ship it', "%"),
    "die",
    *("from:AmberFox review", 'thread:"br-2tnl" done', "importance:high,urgent the", "form:Zoë a"),
    *("project:harbour review", "after:2026-02-02 the", "before:2026-02-02T03:00Z the", "from: a"),
)
BESIDE: Mapping[str, tuple[object, ...]] = {
    "sender": ("Zoë", "Zoe"), "sender_name": ("AmberFox",), "recipient": ("TealOtter",),
    "agent_name": ("AmberFox",), "direction": ("inbox", "outbox", "x"), "thread_id": ("br-2tnl",),
    "importance": ("low,high", "dire"), "ack_required": (True, False), "colour": ("red",),
    "date_start": ("2026-02-02T02:50Z", "x"), "until": ("2026-02-02",), "since": ("2026-02-03",),
    "ranking": ("recency", "best"), "min_score": (0.5,), "offset": (3, 5_001), "cursor": ("no",),
    "doc_kind": ("agent", "project", "thing"), "rrf_k": (0, 1), "rerank_top_k": (1, 5_000),
    "project_key": ("orchard", "nowhere"), "mode": ("semantic", "other"), "limit": (0, 1, 2_000),
}  # fmt: skip
ASKED: tuple[Mapping[str, Any], ...] = (
    *({"query": one, "explain": True} for one in TEXTS),
    *({"query": "the", key: one} for key, values in BESIDE.items() for one in values),
    *({"query": "the", "agent_name": "AmberFox", "direction": one} for one in ("inbox", "outbox")),
)


def of_mail(root: Path) -> Iterator[tuple[str, str]]:
    """Ask as an operator and as a viewer, in each mode, under each switch, without each tier."""
    with world(root / "world", 7, 20) as here:
        mail, store, made = here.mail, here.mail.store, here.manifest
        for who, scope in (("operator", None), ("viewer", EYE)):
            for mode in SearchMode:
                its = Surface(mail.service, store, "mail", made, mode).seen_by(scope)
                yield from ((f"{who} {mode} {given}", asked(its, given)) for given in ASKED)
            for key in ("product-1", "product-3", "product-9"):
                given = {"product_key": key, "query": "review", "project": "harbour"}
                yield f"{who} {given}", asked(its, given)
            for prefix in ("re", "migration pl", "s", "部", ""):
                begun = Beginning(project_key="*", prefix=prefix, limit=5)
                yield f"{who} {prefix}", tried(partial(its.subjects, begun))
        ways = {f"switch {one}": mail.under(one) for one in KillSwitch}
        ways |= {f"no {one}": mail.without(one) for one in FallbackTier}
        for way, service in ways.items():
            for mode in SearchMode:
                its = Surface(service.service, store, "mail", made, mode)
                both = {"query": "the review", "explain": True}
                yield f"{way} {mode}", asked(its, both)


def asked(its: Surface, given: Mapping[str, Any]) -> str:
    """Ask page by page, three at most."""
    kind, said = InProduct if "product_key" in given else InProject, list[str]()
    given = given if {"product_key", "project_key"} & {*given} else {"project_key": "*", **given}
    for _ in range(3):
        said.append(tried(partial(answer, its, kind, given)))
        cursor = json.loads(said[-1]).get("next_cursor") if said[-1].startswith("{") else ""
        if not cursor:
            break
        given = {**given, "cursor": cursor}
    return "\n".join(said)


def answer(its: Surface, kind: Any, given: Mapping[str, Any]) -> Any:
    """Call a tool."""
    return its.search(resolved(kind, given))


def tried(ask: Callable[[], Any]) -> str:
    """Write an answer without its times, or why it was refused."""
    try:
        found = ask().written()
    except ToolRefusal as e:
        return str(e)
    found.get("explain", {}).pop("timing", None)
    return json.dumps(found, sort_keys=True, ensure_ascii=False)


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
PHRASES = (
    *("salt water", '"salt water"', "tide -boat", "-sea", "+tide moon", "arbou", "nowhere", ""),
    *("total price", "total_price", "PriceList.total_price", "load_prices", "cart OR till", "thé"),
    *("a", "prices of tea", "(salt moon) tide", "read prices from a file", "the", "os.system", "%"),
)
VALUES = ("python", "py", "md", "function", "method", "class", "high", "load_prices", "path", "str")
CODE: tuple[Mapping[str, Any], ...] = (
    *({"text": "price", "mode": one, "explain": True} for one in Mode),
    *({"text": "price", "filters": {name: one}} for name in WHOLE for one in VALUES),
    {"text": "", "filters": {"file": "till"}},
    *({"text": "checkout", "top": one, "context": 3, "graph": True} for one in (1, 4)),
)
DOCS: tuple[Mapping[str, Any], ...] = (
    *({"query": "tide", "document_filter": one} for one in ("sea/salt.md", "no.md")),
    *({"query": "tea price", "top_k": one, "related": 2, "explain": True} for one in (1, 3)),
)
NOTES = tuple({"text": "tide", "limit": limit, "explain": True} for limit in (1, 3, 50))
OF_STACK = {"notes": NOTES, "code": CODE, "docs": DOCS}
KIT = {one.group: one for one in KITS}


def as_typed(stack: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name what a stack is given as its tool does."""
    names = {"text": KIT[stack].query.name, "related": "max_expansions"}
    plain = {**given, **given.get("filters", {})}
    return {names.get(name, name): value for name, value in plain.items() if name != "filters"}


def of_folders(root: Path) -> Iterator[tuple[str, str]]:
    """Ask each stack, change its folder, and ask again."""
    for stack in STACKS:
        folder = root / stack
        for name, text in {**SHOP, **FILES}.items():
            write(folder, name, text)
        followed = live(stack, folder, root / f"{stack}-kept")
        for turn in ("first", "then"):
            with followed.now() as (now, _):
                for text in PHRASES:
                    yield f"{turn} {stack} {text}", written(partial(ask, stack, now, text))
                for given in OF_STACK[stack]:
                    answer = partial(KIT[stack].answer, now, as_typed(stack, given))
                    yield f"{turn} {stack} {given}", written(answer)
            (folder / "plain.txt").unlink(missing_ok=True)
            (folder / "shop/till.py").rename(folder / "shop/desk.py") if turn == "first" else None
            write(folder, "sea/salt.md", "# Sea\n\nSalt and a new word.\n", 10**18 + 1)
        followed.close()


def written(do: Callable[[], Any]) -> str:
    """Write an answer without its times, or why it was refused."""
    try:
        found = dict(do())
    except (HarnessError, InvalidFilter) as e:
        return str(e)
    found.pop("search_time_ms", None)
    for one in found.get("results", ()):
        one["source"] = {k: v for k, v in one["source"].items() if not k.endswith("_at")}
    return json.dumps(found, sort_keys=True, ensure_ascii=False, default=str)
