"""The shop behind the desk: orders and refunds in SQLite, policies as text files."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import NamedTuple

ORDERS = [
    ("A-1001", "Ada", "a desk lamp", 3990, "was delivered on Monday"),
    ("A-1002", "Ada", "a pair of running shoes", 8900, "is on its way and arrives tomorrow"),
    ("B-2001", "Ben", "a coffee grinder", 5450, "is being packed"),
]
"""The orders of a new shop: number, customer, item, price in cents, status."""

POLICIES = {
    "returns": "Shoes and clothes can be returned within 30 days, unworn and in their box.",
    "refunds": "A refund is paid to the card of the order within 5 working days.",
    "shipping": "Shipping is free for orders above 50 dollars.",
    "warranty": "Lamps and grinders have a warranty of 2 years.",
}
"""The texts of a new shop, by the name of their file."""

_SCHEMA = """
create table if not exists orders (
    id text primary key, customer text, item text, price_cents integer, status text
);
create table if not exists refunds (order_id text references orders, cents integer);
"""

# A single statement: two refunds at a time cannot both spend the same money.
_REFUND = """
insert into refunds
select id, :cents from orders
where id = :id and :cents <= price_cents
    - (select coalesce(sum(cents), 0) from refunds where order_id = :id)
"""

_STOP_WORDS = {
    "the", "and", "are", "for", "can", "how", "what", "your", "you", "within", "have", "long",
    "is", "it", "be", "of", "to", "in", "on", "my", "do", "or", "an", "at", "their", "after",
}  # fmt: skip


class Order(NamedTuple):
    """An order; the price and the refundable rest are in cents."""

    id: str
    item: str
    price: int
    status: str
    left: int


@dataclass(frozen=True)
class Shop:
    """A shop: `shop.sqlite` and `policies/` in a folder."""

    folder: Path

    def open(self) -> Shop:
        """Create missing files, and return the shop."""
        policies = self.folder / "policies"
        policies.mkdir(parents=True, exist_ok=True)
        for name, text in POLICIES.items():
            path = policies / f"{name}.txt"
            if not path.exists():  # the user may have edited the file
                path.write_text(f"{text}\n", encoding="utf-8")
        with self._database() as database:
            database.executescript(_SCHEMA)
            # A kept workspace has the orders.
            database.executemany("insert or ignore into orders values (?, ?, ?, ?, ?)", ORDERS)
        return self

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        # Both: the context of a connection ends a transaction, and closes nothing.
        with closing(sqlite3.connect(self.folder / "shop.sqlite")) as database, database:
            yield database

    def order(self, order_id: str) -> Order | None:
        """An order of the database, or None."""
        query = """
            select id, item, price_cents, status, price_cents - coalesce(sum(cents), 0)
            from orders left join refunds on order_id = id where id = ? group by id
        """
        with self._database() as database:
            row: tuple[str, str, int, str, int] | None = database.execute(
                query, [_key(order_id)]
            ).fetchone()
            return row and Order(*row)

    def refund(self, order_id: str, cents: int) -> bool:
        """Write a refund if the order has enough left; False otherwise."""
        if not 0 < cents < 2**63:  # the range of integers in SQLite
            return False
        with self._database() as database:
            values = {"id": _key(order_id), "cents": cents}
            return database.execute(_REFUND, values).rowcount == 1

    def refunds(self) -> list[tuple[str, int]]:
        """Every refund, oldest first: the order and the amount in cents."""
        with self._database() as database:
            # The table has no time, and SQLite counts `rowid` up with each row.
            return database.execute("select order_id, cents from refunds order by rowid").fetchall()

    def search(self, query: str) -> str | None:
        """The line of the policies with the most words of a query, or None."""
        words = _words(query)
        files = sorted(self.folder.glob("policies/*.txt"))
        # The user may have saved a text in another encoding.
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
        lines = [line.strip() for text in texts for line in text.splitlines()]
        best = max(lines, key=lambda line: len(words & _words(line)), default="")
        return best if words & _words(best) else None


def _key(order_id: str) -> str:
    return order_id.strip().upper()


def _words(text: str) -> set[str]:
    """The words of a text without stop words and plural endings."""
    words = set(re.findall(r"[a-z0-9]{2,}", text.lower()))
    return {word.removesuffix("s") for word in words - _STOP_WORDS}


def dollars(cents: int) -> str:
    """An amount in dollars."""
    return f"{cents / 100:.2f} dollars"


def tools_of(shop: Shop) -> list[Callable[..., str]]:
    """The tools of the support desk."""

    def find_order(order_id: str) -> str:
        """Find an order and say where it is.

        Args:
            order_id: The order number, such as A-1001.
        """
        order = shop.order(order_id)
        if order is None:
            return f"There is no order {order_id}."
        return f"Order {order.id}, {order.item} for {dollars(order.price)}, {order.status}."

    def refund_order(order_id: str, amount: float) -> str:
        """Pay money back for an order.

        Args:
            order_id: The order number, such as A-1001.
            amount: How much to pay back, in dollars.
        """
        order = shop.order(order_id)
        if order is None:
            return f"There is no order {order_id}."
        # A model may write NaN or Infinity, which `round` refuses.
        cents = round(amount * 100) if isfinite(amount) else 0
        if not shop.refund(order.id, cents):
            return f"Nothing was refunded: order {order.id} has {dollars(order.left)} left."
        return f"{dollars(cents)} were refunded for order {order.id}."

    def search_policies(query: str) -> str:
        """Search the policies of the shop: returns, refunds, shipping, warranty.

        Args:
            query: What to look for.
        """
        return shop.search(query) or "The policies say nothing about that."

    return [find_order, refund_order, search_policies]
