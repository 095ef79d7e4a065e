"""What passes between a run whose budget is used up and the people who may raise it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from langgraph.types import interrupt
from pydantic import AfterValidator, Field, RootModel, create_model
from typing_extensions import TypedDict

from agent_factory.middleware.budget.limits import Account, Spent, reason


class BudgetRequest(TypedDict):
    """The question of a run that has come to its limits.

    Attributes:
        reason: What is used up, for people to read.
        spent: What is spent of each limit, by scope: "run", "thread" or "ledger".
        limits: The limits, by scope.
        needed: What the next call lacks, by the name of the limit: the least to give.
    """

    reason: str
    spent: dict[str, dict[str, float]]
    limits: dict[str, dict[str, float]]
    needed: dict[str, float]


class RaiseBudget(TypedDict):
    """Go on with more.

    Attributes:
        extra: What is added, by the name of the limit, such as `{"usd": 0.5}`, wherever that
            limit is used up.
    """

    type: Literal["raise"]
    extra: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]]


class StopRun(TypedDict):
    """End the run with what there is."""

    type: Literal["stop"]


BudgetResponse = Annotated[RaiseBudget | StopRun, Field(discriminator="type")]
"""The answer to a BudgetRequest."""


def ask_for_more(accounts: tuple[Account, ...], need: Spent) -> dict[str, float] | None:
    """Interrupt with the question; what is added once it is answered, or None to stop.

    Raises:
        pydantic.ValidationError: The answer is none; the same interrupt can be answered again.
    """
    needed = _needed(accounts, need)
    request = BudgetRequest(
        reason=f"{reason(accounts, need)}.",
        spent={a.scope: _spent(a) for a in accounts},
        limits={account.scope: account.limits.given() for account in accounts},
        needed=needed,
    )
    schema = Annotated[BudgetResponse, AfterValidator(partial(_check, needed))]
    model: Any = create_model("BudgetResponse", __base__=RootModel[schema])
    answer = interrupt(request, response_schema=model).root
    if answer["type"] == "stop":
        return None
    return {name: _in_its_unit(name, amount) for name, amount in answer["extra"].items()}


def _in_its_unit(name: str, amount: float) -> float:
    return amount if name in ("usd", "seconds") else int(amount)


def _needed(accounts: tuple[Account, ...], need: Spent) -> dict[str, float]:
    lacks = [pair for account in accounts for pair in account.missing(need).items()]
    return {name: max(lack for other, lack in lacks if other == name) for name, _ in lacks}


def _spent(account: Account) -> dict[str, float]:
    return {name: getattr(account.used, name) for name in account.limits.given()}


def _check(needed: Mapping[str, float], response: Any) -> Any:
    if response["type"] == "stop":
        return response
    extra = response["extra"]
    if unknown := extra.keys() - needed.keys():
        raise ValueError(
            f"{', '.join(sorted(unknown))}: no such limit is used up; give {', '.join(needed)}."
        )
    for name, lack in needed.items():
        if extra.get(name, 0) < lack or name not in extra:
            raise ValueError(f"extra[{name!r}] must be at least {lack!r}; got {extra.get(name)!r}.")
        if extra[name] != _in_its_unit(name, extra[name]):
            raise ValueError(f"extra[{name!r}] must be a whole number, not {extra[name]!r}.")
    return response
