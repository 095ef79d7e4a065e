"""The shop behind the desk: orders and refunds in SQLite, policies as text files."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ORDERS = [
    ("A-1001", "Ada", "a desk lamp", 39.90, "was delivered on Monday"),
    ("A-1002", "Ada", "a pair of running shoes", 89.00, "is on its way and arrives tomorrow"),
    ("B-2001", "Ben", "a coffee grinder", 54.50, "is being packed"),
]
POLICIES = {
    "returns": "Shoes and clothes can be returned within 30 days, unworn and in their box.",
    "refunds": "A refund is paid to the card of the order within 5 working days.",
    "shipping": "Shipping is free for orders above 50 dollars.",
    "warranty": "Lamps and grinders have a warranty of 2 years.",
}

_SCHEMA = """
create table if not exists orders (
    id text primary key, customer text, item text, price real, status text
);
create table if not exists refunds (order_id text, amount real);
"""


@dataclass(frozen=True)
class Shop:
    """A shop in a folder.

    Args:
        folder: Where `shop.sqlite` and the folder `policies` are; made where they are missing.
    """

    folder: Path

    def open(self) -> Shop:
        """Make what is missing, and return the shop."""
        policies = self.folder / "policies"
        policies.mkdir(parents=True, exist_ok=True)
        for name, text in POLICIES.items():
            (policies / f"{name}.txt").write_text(f"{text}\n")
        with self._database() as database:
            database.executescript(_SCHEMA)
            database.executemany("insert or ignore into orders values (?, ?, ?, ?, ?)", ORDERS)
        return self

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.folder / "shop.sqlite")) as database, database:
            yield database

    def order(self, order_id: str) -> tuple[Any, ...] | None:
        """One order, as the database has it, or None."""
        query = "select item, price, status from orders where id = ?"
        with self._database() as database:
            row: tuple[Any, ...] | None = database.execute(query, [order_id.upper()]).fetchone()
            return row

    def refund(self, order_id: str, amount: float) -> None:
        """Write a refund of so many dollars."""
        with self._database() as database:
            database.execute("insert into refunds values (?, ?)", [order_id.upper(), amount])

    def refunded(self, order_id: str) -> float:
        """How much of an order was paid back, in dollars."""
        query = "select coalesce(sum(amount), 0) from refunds where order_id = ?"
        with self._database() as database:
            return float(database.execute(query, [order_id.upper()]).fetchone()[0])

    def search(self, query: str) -> str | None:
        """The line of the policies that shares most words with a query, or None."""
        wanted = _words(query)
        texts = [path.read_text().strip() for path in sorted(self.folder.glob("policies/*.txt"))]
        lines = [line for text in texts for line in text.splitlines()]
        best = max(lines, key=lambda line: len(wanted & _words(line)), default=None)
        return best if best is not None and wanted & _words(best) else None


def _words(text: str) -> set[str]:
    """The words that carry meaning, without their plural."""
    return {word.removesuffix("s") for word in re.findall(r"[a-z0-9]{3,}", text.lower())} - {
        "the", "and", "are", "for", "can", "how", "what", "your", "you", "within", "have", "long",
    }  # fmt: skip


def tools_of(shop: Shop) -> list[Callable[..., Any]]:
    """What the desk can do, as functions a model may call."""

    def find_order(order_id: str) -> str:
        """Find an order and say where it is.

        Args:
            order_id: The order number, such as A-1001.
        """
        found = shop.order(order_id)
        if found is None:
            return f"There is no order {order_id}."
        item, price, status = found
        return f"Order {order_id}, {item} for {price:.2f} dollars, {status}."

    def refund_order(order_id: str, amount: float) -> str:
        """Pay money back for an order.

        Args:
            order_id: The order number, such as A-1001.
            amount: How much to pay back, in dollars.
        """
        found = shop.order(order_id)
        if found is None:
            return f"There is no order {order_id}."
        if not 0 < amount <= found[1] - shop.refunded(order_id):
            return f"Order {order_id} cannot be refunded by {amount:.2f} dollars."
        shop.refund(order_id, amount)
        return f"{amount:.2f} dollars were refunded for order {order_id}."

    def search_policies(query: str) -> str:
        """Search the policies of the shop: returns, refunds, shipping, warranty.

        Args:
            query: What to look for.
        """
        return shop.search(query) or "The policies say nothing about that."

    return [find_order, refund_order, search_policies]
