"""The middleware: reserves and records the cost of calls, and ends a run over its budget.

`Plan` chooses the next call of the model by its least cost and the remaining amounts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from time import monotonic
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.utils import count_tokens_approximately
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from agent_factory import (
    Flow,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
    UsageLimit,
    hook_config,
)
from agent_factory.middleware._shared.counting import tool_attempt
from agent_factory.middleware._shared.declarations import usage_limits
from agent_factory.middleware._shared.errors import outcome_unknown
from agent_factory.middleware._shared.final_answer import (
    final_message,
    final_request,
    final_response,
)
from agent_factory.middleware._shared.invocable import plain_hook
from agent_factory.middleware._shared.messages import (
    error_result,
    follows_up,
    last_turn,
    unanswered,
    with_kept_remark,
)
from agent_factory.middleware._shared.models import given_model, with_update
from agent_factory.middleware._shared.payload_free import PayloadFree
from agent_factory.middleware._shared.token_counter import (
    TokenCounter,
    check_token_counter,
    counter_for,
    tokens_sent,
)
from agent_factory.middleware._shared.validation import (
    check_choice,
    check_count,
    check_number,
    copied,
)
from agent_factory.review.questions import answer_form, ask

from .ledger import NO_LEDGER, Ledger, Reservation
from .limits import BOUGHT, NOTHING, UNITS, Account, BudgetExceededError, Limits, Record, Spent
from .prices import Price, PriceFunction, Prices, completed, name_of, tokens, usage_of
from .state import (
    BudgetState,
    CallAccounting,
    LastUpdates,
    add_records,
    extra_key,
    run_record,
    thread_part,
    thread_record,
)

_PLAN_UNITS = {**UNITS, "turns": "model calls"}
"""Units of a plan by the names of limits."""

_OVER = "the budget of this run is used up"
_WARNING = (
    "[Of the budget, {used} are used. Do what matters most first, and come to an end in time.]"
)
_ONE_TURN = Spent(turns=1)
_ONE_TOOL_CALL = Spent(tool_calls=1)
# A reservation without effect, so all calls may share it.
_ONE_TURN_RESERVED = NO_LEDGER.reserve(_ONE_TURN)
_ROUNDING = 1e-6
"""Error in tokens that dividing dollars may cause."""


class BudgetRequest(TypedDict):
    """The question of a run that has reached its limits.

    Attributes:
        reason: What is used up, for people to read.
        spent: What is spent of each limit, by scope: "run", "thread" or "ledger".
        limits: The limits, by scope.
        needed: What the next call lacks, by the name of the limit: the least to add.
    """

    reason: str
    spent: dict[str, dict[str, float]]
    limits: dict[str, dict[str, float]]
    needed: dict[str, float]


class RaiseBudget(TypedDict):
    """Raise the limits and continue.

    Attributes:
        extra: What is added, by the name of the limit, such as `{"usd": 0.5}`. It is added in
            every scope in which that limit is used up.
    """

    type: Literal["raise"]
    extra: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]]


class StopRun(TypedDict):
    """End the run with what there is."""

    type: Literal["stop"]


BudgetResponse = Annotated[RaiseBudget | StopRun, Field(discriminator="type")]
"""The answer to a BudgetRequest."""


class BudgetMiddleware(PayloadFree[BudgetState]):
    """Limit the spending of a run, a thread or several agents, and end the run with an answer.

    A call of the model is made only if the least cost fits: the estimated tokens of the messages,
    the system prompt and the tools, and one token of an answer. Afterwards the actual cost is
    recorded: by the usage from the model, including cache prices, or by an estimate of missing
    counts. A failed call is recorded as a turn, and a call without a known outcome with its least
    cost, because it may have been charged. So a limit is exceeded by at most a call, and turns and
    tool calls are never exceeded. On a shared ledger this holds for each agent: see `Ledger`.

    Close to a limit, the model is warned once about the rest, then a cheaper model takes over,
    and at the end the run ends by `exit_behavior`. A tool call over the budget gets an
    error as its result, and so does a tool call after the seconds are used up.

    A run after an interrupt or a failure continues with its spent amounts, and so
    does a run with results of background calls; a new message starts a new run. Seconds
    count while the run works, not while it waits for a person.

    Each attempt of a retry or a fallback is counted with its own model, wherever the budget stands
    in the list. Calls that other middleware or tools make themselves are not counted;
    `Ledger.handler` records them too.

    Args:
        run: The most that a run may spend.
        thread: The most for all runs of a thread together; needs a checkpointer.
        ledger: The most for several agents together.
        warn_at: The share of any limit (0 to 1) for a warning to the model, or a list of shares;
            None for no warning. Each warning is given once in a run, as part of a last result.
            0.8 leaves some turns to act on it.
        cheaper: A chat model or "provider:name" to use from `cheaper_at` on, and earlier for
            a call too expensive with the usual model.
        cheaper_at: The share (0 to 1) of a limit of money or tokens.
        exit_behavior: "answer": the model is called once more, without tools, to answer from
            the work so far. Enough is reserved for it, as estimated from the last turn; if it still
            does not fit, the run ends as with "end". "end": a message with the numbers. "error":
            raises BudgetExceededError. "ask": interrupts with a `BudgetRequest` and is resumed
            with a `BudgetResponse`; needs a checkpointer.
        prices: US dollars for a million tokens by model name,
            `{"name": Price(input=1, output=2)}`, for models without the right price in
            genai-prices; or a function of a model's name and its usage that returns US dollars.
        token_counter: Counts the tokens of a list of messages.
        cap_output: Also pass `max_tokens` with each call, so that the answer ends at the
            limits. Only for models with this setting.
        name: Distinguishes several instances; each has separate records.

    Raises:
        ValueError: No limit is given, a share is not above 0 and at most 1, `exit_behavior` is
            unknown, or `cheaper` is given without a limit of money or tokens. UnknownPriceError:
            the price of `cheaper` is not known.
        TypeError: An argument has a wrong type.
        ImportError: A limit in USD without `prices`, and genai-prices is not installed.

    >>> from agent_factory import create_agent
    >>> from agent_factory.testing import ScriptedChatModel
    >>> budget = BudgetMiddleware(run=Limits(turns=2), exit_behavior="end")
    >>> calls = [[{"name": "look", "args": {}}]] * 2
    >>> def look() -> str:
    ...     "Look around."
    ...     return "nothing"
    >>> agent = create_agent(ScriptedChatModel(calls), [look], middleware=[budget])
    >>> agent.invoke({"messages": "Go on"})["messages"][-1].text
    'I had to stop here: 2 of 2 turns in this run are used up.'
    """

    state_schema = BudgetState
    keyed_by_name = ("budget_run", "budget_thread")
    unused: Collection[str] = ()
    kept_flows = ("around_model", "around_tool")
    counts_attempts = True
    guard_settings = ("ledger", "exit_behavior", "prices", "cap_output")

    def __init__(
        self,
        *,
        run: Limits | None = None,
        thread: Limits | None = None,
        ledger: Ledger | None = None,
        warn_at: float | Sequence[float] | None = 0.8,
        cheaper: str | BaseChatModel | None = None,
        cheaper_at: float = 0.9,
        exit_behavior: Literal["answer", "end", "error", "ask"] = "answer",
        prices: Mapping[str, Price] | PriceFunction | None = None,
        token_counter: TokenCounter = count_tokens_approximately,
        cap_output: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        kinds = {"run": (run, Limits), "thread": (thread, Limits), "ledger": (ledger, Ledger)}
        for argument, (value, kind) in kinds.items():
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{argument} must be {kind.__name__}(...), got {value!r}.")
        check_token_counter(token_counter)
        check_choice("exit_behavior", exit_behavior, ("answer", "end", "error", "ask"))
        run, thread = run or Limits(), thread or Limits()
        amounts = {*run.amounts, *thread.amounts, *(ledger.limited if ledger else ())}
        if not amounts and ledger is None:
            raise ValueError(
                "A budget needs a limit. Pass run=Limits(...), thread=Limits(...) or "
                "ledger=Ledger(Limits(...))."
            )
        limits_usd, counts_tokens = "usd" in amounts, not amounts.isdisjoint(BOUGHT)
        known_prices = Prices(copied(prices), needed=limits_usd)
        marks: Any = (warn_at if isinstance(warn_at, list | tuple | None) else [warn_at]) or ()
        for argument, share in (*(("warn_at", mark) for mark in marks), ("cheaper_at", cheaper_at)):
            check_number(argument, share, unit="shares, such as 0.8,")
            if share is None or not 0 < share <= 1:
                raise ValueError(f"{argument} must be more than 0 and at most 1, got {share!r}.")
        if cheaper is not None:
            cheaper = given_model("cheaper", cheaper)
            if not counts_tokens:
                raise ValueError(
                    "cheaper saves money or tokens, and no limit of these is given. Pass "
                    "run=Limits(usd=...) or run=Limits(total_tokens=...)."
                )
            if limits_usd:
                # An unknown price is an error now, and not in the middle of a run.
                known_prices.cost(name_of(cheaper), usage_of(1, 1))
        self.run, self.thread, self.ledger, self.warn_at = run, thread, ledger, copied(warn_at)
        self.cheaper: Any = cheaper
        self.cheaper_at = float(cheaper_at)
        self.exit_behavior: str = exit_behavior
        self.prices, self.token_counter, self.cap_output = known_prices, token_counter, cap_output
        self._ledger = ledger or NO_LEDGER
        self._count, self._marks = _checked(token_counter), sorted(map(float, marks))
        self._limits_usd, self._counts_tokens = limits_usd, counts_tokens
        # Looking up prices takes time; without a limit, a ledger or prices nobody reads them.
        self._records_usd = limits_usd or ledger is not None or prices is not None
        self.needs_checkpointer = bool(thread.amounts) or exit_behavior == "ask"
        limits_tools = ledger is not None or not amounts.isdisjoint(("tool_calls", "seconds"))
        self.unused = () if limits_tools else ("around_tool",)
        self._updates = LastUpdates()

    @property
    def limits(self) -> Sequence[UsageLimit]:  # type: ignore[override]
        """The limits for the plan. Limits of a `SharedLedger` are in a database."""
        scopes = {"run": self.run, "thread": self.thread}
        if type(self.ledger) is Ledger:
            scopes["ledger"] = self.ledger.limits
        return tuple(
            replace(limit, raisable=self.exit_behavior == "ask")
            for scope, limits in scopes.items()
            for name, most in limits.given().items()
            for limit in usage_limits(_PLAN_UNITS[name], {scope: most})
        )

    def counted_since(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
        """Amounts spent in the thread since a checkpoint."""
        earlier, record = (thread_record(self.name, values) for values in (before, now))
        since = {key: amount - earlier.get(key, 0) for key, amount in record.items()}
        return {"budget_thread": {self.name: since}} if any(since.values()) else {}

    @plain_hook
    def before_agent(self, state: BudgetState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Start the record of a new run, and add the record of the last run to the thread.

        A run with results of background calls goes on with the record of the last run.
        """
        if follows_up(state) and self.name in (state.get("budget_run") or {}):
            return {"budget_clock": monotonic()}
        clock, records = (self.name, monotonic()), state.get("budget_run") or {}
        update: dict[str, object] = {"budget_clock": clock, "budget_run": {self.name: None}}
        record = records.get(self.name, {})
        missing = self._updates.missing(runtime, record, new_run=True)
        if self.name in records:  # the thread is kept, and had a run before
            record = add_records(record, missing)
        if record:
            update["budget_thread"] = {self.name: thread_part(record)}
        return update

    @plain_hook
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: BudgetState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End a run over its budget after a hook sent it back to the model."""
        if "over" not in run_record(self.name, state):
            return None
        message = state["messages"][-1]
        # The run has its last message, and a hook still sent the run back.
        if isinstance(message, AIMessage) and not message.tool_calls:
            return {"jump_to": "end"}
        over = self._over(CallAccounting(self.name, state))
        return {"jump_to": "end", "messages": [over]}

    def around_model(self, request: ModelRequest[Any]) -> Flow[ModelCallResult]:
        """Make the call if the cost fits, and record the cost."""
        accounting = CallAccounting(self.name, request.state, request.runtime, self._updates)
        plan = Plan(self, request, accounting)
        if "over" in accounting.run:
            return self._over(accounting)
        # Once more after each answer, because raised limits may still be too low.
        while isinstance(call := plan.choose_call(), BudgetExceededError):
            if self.exit_behavior == "error":
                raise call
            if self.exit_behavior != "ask" or not self._ask_to_raise(accounting, call):
                last_response = ModelResponse([final_message(call.explanation, source="budget")])
                return with_update(request, last_response, accounting.model_update({"over": 1}))
        with call.reservation as reservation:
            began = monotonic()
            model_request = call.request
            if call.refused:
                model_request = final_request(model_request, call.refused.explanation)
            response: ModelResponse | None = None
            try:
                response = yield model_request
                assert response is not None
                costs = plan.spent_on(call.request.model, response.result)
            except BaseException as error:
                # A call that may have run has cost something: at least the reserved amount.
                if response is not None or outcome_unknown(error):
                    reservation.commit(reservation.least)
                    accounting.model_update(reservation.least.as_record(), is_end=False)
                elif isinstance(error, Exception):
                    reservation.commit(_ONE_TURN)
                    accounting.model_update(_ONE_TURN.as_record(), is_end=False)
                raise
            if self.ledger is not None:
                ids = [m.id for m in response.result if isinstance(m, AIMessage)]
                in_ledger = [self.ledger.take_recorded(id_) for id_ in ids]
                # The handler of the ledger may have recorded the tokens and dollars already.
                ledger_amounts = {"turns": costs.get("turns", 0)} if any(in_ledger) else costs
                reservation.commit(Spent.from_record(ledger_amounts))
        now, over = monotonic(), int(call.refused is not None)
        amounts = {**costs, "slowest": now - began, "warned": call.warned, "over": over}
        update = {**accounting.model_update(amounts, now=now), **call.update}
        if call.refused:
            reason = BudgetExceededError(self._accounts(accounting), call.refused.need).explanation
            response = final_response(call.request, response, reason)
        return with_update(request, response, update)

    def around_tool(self, request: ToolCallRequest) -> Flow[Any]:
        """Run the tool if the call fits, and count it; return an error message otherwise."""
        accounting = CallAccounting(self.name, request.state)
        call = request.tool_call
        message, tail = last_turn(request.state["messages"])
        ids = [open_call["id"] for open_call in unanswered(message, tail)]
        with tool_attempt(request, message) as notes:
            # The calls of a turn run in parallel, without a view of the other records. So each
            # leaves room for the calls before, and for another attempt of all.
            earlier = ids.index(call["id"]) if call["id"] in ids else 0
            if call in (again := notes["again"]):
                earlier = len(ids) - 1 + sum(other["id"] in ids for other in again)
            try:
                accounts = accounting.accounts(self.run, self.thread)
                need = Spent(tool_calls=1 + earlier)
                if any(account.shortfall(need) for account in accounts):
                    raise BudgetExceededError(accounts, need)
                reserved = self._ledger.reserve(_ONE_TOOL_CALL)
            except BudgetExceededError as error:
                accounting.add({"refused": 1})
                refusal = f"Error: the budget refused this call of {call['name']}"
                text = f"{refusal}: {error.explanation}.{notes['before']} Go on without it."
                return [error_result(call, text), Command(update=accounting.update())]
            accounting.add({"tool_calls": 1})
            with reserved as reservation:
                try:
                    result = yield request
                except BaseException as error:
                    if isinstance(error, Exception):
                        reservation.commit(_ONE_TOOL_CALL)  # it ran
                        notes["has_run"] = not accounting.count(accounting.tool_clock)
                    elif outcome_unknown(error):
                        # A cancelled task writes nothing, so its spending is kept outside the
                        # state.
                        record = self._updates.missing(request.runtime, accounting.run)
                        record = add_records(record, _ONE_TOOL_CALL.as_record())
                        self._updates.keep(request.runtime, accounting.run, record, is_end=False)
                    raise
                reservation.commit(_ONE_TOOL_CALL)
            notes["has_run"] = True
            if not (update := accounting.count(accounting.tool_clock)):
                return result
        # LangGraph takes a list of messages and commands as the result of a tool.
        return [*(result if isinstance(result, list) else [result]), Command(update=update)]

    def _accounts(self, accounting: CallAccounting) -> tuple[Account, ...]:
        """The limits of the run, the thread and the ledger, with the amounts spent up to now."""
        return (*accounting.accounts(self.run, self.thread), self._ledger.account())

    def _over(self, accounting: CallAccounting) -> AIMessage:
        accounts = self._accounts(accounting)
        amounts = ", ".join(a.describe(name) for a in accounts for name in a.limits.given())
        return final_message(f"{_OVER}: {amounts}", source="budget")

    def _ask_to_raise(self, accounting: CallAccounting, error: BudgetExceededError) -> bool:
        """Interrupt to ask for higher limits; whether they were raised."""
        least: dict[str, float] = {}
        for missing in error.reached.values():
            for name, amount in missing.items():
                least[name] = max(least.get(name, amount), amount)
        request = BudgetRequest(
            reason=f"{error.explanation}.",
            spent={
                account.scope: {n: getattr(account.used, n) for n in account.limits.given()}
                for account in error.accounts
            },
            limits={account.scope: account.limits.given() for account in error.accounts},
            needed=least,
        )
        # Part of the schema, because LangGraph stores an answer once the schema accepts it.
        schema = Annotated[BudgetResponse, AfterValidator(partial(_checked_answer, least))]
        answer = ask(request, answer_form("BudgetResponse", schema))
        if answer["type"] == "stop":
            return False
        for scope, missing in error.reached.items():
            extra = {name: _in_unit(name, answer["extra"][name]) for name in missing}
            if scope == "ledger":
                self._ledger.raise_limits(extra)
            else:
                accounting.add({extra_key(scope, name): n for name, n in extra.items()})
        return True


def _checked(token_counter: TokenCounter) -> TokenCounter:
    if token_counter is count_tokens_approximately:  # cached counts
        return token_counter

    def count(messages: Sequence[BaseMessage]) -> int:
        number = token_counter(messages)
        check_count("The result of token_counter", number, required=True)
        return number

    return count


@dataclass(slots=True)
class Call:
    """A call within the budget."""

    request: ModelRequest[Any]
    reservation: Reservation
    warned: float = 0  # the mark of the warning to the model; 0 for none
    update: Mapping[str, object] = field(default_factory=dict)  # keeps the warning in the thread
    refused: BudgetExceededError | None = None  # the reason of a last call, or None


class Plan:
    """Choice of the next call of the model, by the least cost."""

    def __init__(
        self, budget: BudgetMiddleware, request: ModelRequest[Any], accounting: CallAccounting
    ) -> None:
        self._budget, self._request, self._accounting = budget, request, accounting
        self._count = counter_for(request.model, budget._count)

    def choose_call(self) -> Call | BudgetExceededError:
        """The next call, with the least cost reserved; an error if none fits."""
        budget = self._budget
        if budget.ledger is None and not budget._counts_tokens:
            share = budget._marks[0] if budget._marks else 1
            if self._accounting.is_far_from(budget.run, budget.thread, share):
                # The call takes a turn, and must leave room for at most one more and a tool call.
                # So what follows would refuse nothing, warn about nothing and choose it too.
                return Call(self._request, _ONE_TURN_RESERVED)
        accounts = budget._accounts(self._accounting)
        models = [self._request.model]
        if budget.cheaper is not None:
            if max(account.share(BOUGHT) for account in accounts) >= budget.cheaper_at:
                models = []
            models.append(budget.cheaper)
        refusals = []
        # An ordinary call of the cheaper model comes before a last answer of the agent's own.
        for last in (False, True) if budget.exit_behavior == "answer" else (False,):
            for model in models:
                reserved = self._reserve(model, accounts, last=last)
                if isinstance(reserved, BudgetExceededError):
                    refusals.append(reserved)
                    continue
                request = self._request_to(model, last=last)
                if last:
                    return Call(request, reserved, refused=refusals[0])
                # The first call above a mark of `warn_at` warns the model.
                share = max(map(Account.share, accounts))
                marks = [mark for mark in budget._marks if share >= mark]
                if not marks or marks[-1] <= self._accounting.run.get("warned", 0):
                    return Call(request, reserved)
                text = " and ".join(
                    account.describe(name)
                    for account in accounts
                    for name, share in account.shares().items()
                    if share >= marks[0]
                )
                warning = _WARNING.format(used=text)
                warned_request, update = with_kept_remark(request, warning, "budget", {})
                return Call(warned_request, reserved, marks[-1], update=update)
        return refusals[0]

    def spent_on(self, model: object, result: Sequence[BaseMessage]) -> Record:
        """The cost of a response: as the model reports it, or by estimate."""
        record: Record = {}
        for message in result:
            # `lc_source` marks a message of another middleware.
            if not isinstance(message, AIMessage) or "lc_source" in message.additional_kwargs:
                continue
            count = partial(self._count, [message])
            usage = completed(message.usage_metadata, lambda: self._input_size, count)
            read, written = usage["input_tokens"], usage["output_tokens"]
            amounts: Record = {"turns": 1, "input_tokens": read, "output_tokens": written}
            if self._budget._records_usd:
                model_name = name_of(model, self._request.model_settings)
                metadata = message.response_metadata
                amounts["usd"] = self._budget.prices.cost_of_response(metadata, model_name, usage)
            record = add_records(record, amounts) if record else amounts
        return record

    def _reserve(
        self, model: object, accounts: tuple[Account, ...], *, last: bool
    ) -> Reservation | BudgetExceededError:
        """Reserve the least cost of a call, if the cost fits with the rest to be left."""
        of_run, of_thread, of_ledger = accounts
        size = self._input_size if self._budget._counts_tokens else 0
        while True:
            least, keep = self._needs(model, size, last)
            if not (of_run.shortfall(least, keep) or of_thread.shortfall(least, keep)):
                try:
                    return self._budget._ledger.reserve(least, keep=keep)
                except BudgetExceededError as error:
                    (of_ledger,) = error.accounts
            # If another layer has removed messages, the usage of the last answer is too large.
            is_edited = self._request.messages is not self._request.state.get("messages")
            if not size or not is_edited or self._counted_input_size >= size:
                return BudgetExceededError((of_run, of_thread, of_ledger), least + keep)
            size = self._counted_input_size

    def _needs(self, model: object, size: int, last: bool) -> tuple[Spent, Spent]:
        """The least cost of a call, and the rest to be left: a tool call, a last answer."""
        run, counts_tokens = self._accounting.run, self._budget._counts_tokens
        least = self._cost(model, size, 1) if counts_tokens else _ONE_TURN
        if last:
            return least, NOTHING
        # Another tool call must fit, or the run would only collect refusals.
        was_refused = run.get("refused", 0) > 0
        if self._budget.exit_behavior != "answer":
            return least, Spent(tool_calls=int(was_refused))
        keep = Spent(
            turns=0 if counts_tokens else 1,
            tool_calls=int(was_refused or bool(self._request.tools)),
            seconds=run.get("slowest", 0) + self._accounting.unrecorded_seconds,
        )
        if not counts_tokens:
            return least, keep
        # If this turn is like the last turn, the rest of this answer comes after the least,
        # and a call with the answer and the tool results.
        message, since = self._last
        if message is None:
            return least, keep + least
        answer = tokens(message.usage_metadata or {}, "output_tokens")
        answer = answer or max(self._count([message]), 1)
        return least, keep + self._cost(model, size + answer + since, 2 * answer - 1)

    def _request_to(self, model: Any, *, last: bool) -> ModelRequest[Any]:
        """The request to a model; `cap_output` limits the answer to the remaining amounts."""
        request = self._request
        if model is not request.model:
            request = request.override(model=model)
        if not self._budget.cap_output:
            return request
        size, price = 0, 0.0
        if self._budget._counts_tokens:
            size = self._input_size
            # Over many tokens, because a price function may round.
            price = (self._cost(model, size, 1001).usd - self._cost(model, size, 1).usd) / 1000
        least, keep = self._needs(model, size, last)
        *accounts, ledger = self._budget._accounts(self._accounting)
        left = [_output_tokens_left(account, least + keep, price) for account in accounts]
        # The least cost is already reserved in the ledger.
        left.append(_output_tokens_left(ledger, keep, price))
        # The least cost includes the first token of the answer.
        token_limits = [1 + int(count + _ROUNDING) for count in left if count is not None]
        if not token_limits:
            return request
        # At least 1, because providers refuse a limit of 0.
        max_tokens = request.model_settings.get("max_tokens", min(token_limits))
        limit = {"max_tokens": max(min(max_tokens, *token_limits), 1)}
        return request.override(model_settings={**request.model_settings, **limit})

    def _cost(self, model: object, input_tokens: int, output_tokens: int) -> Spent:
        usd = 0.0
        if self._budget._limits_usd:
            model_name = name_of(model, self._request.model_settings)
            usd = self._budget.prices.cost(model_name, usage_of(input_tokens, output_tokens))
        return Spent(turns=1, input_tokens=input_tokens, output_tokens=output_tokens, usd=usd)

    @cached_property
    def _last(self) -> tuple[AIMessage | None, int]:
        """The last answer, and the tokens of the messages after it."""
        message, tail = last_turn(self._request.messages)
        return message, self._count(tail) if message and tail else 0

    @cached_property
    def _input_size(self) -> int:
        # The usage of the last answer covers everything before: only later messages are counted.
        message, since = self._last
        usage: Any = (message and message.usage_metadata) or {}
        # Some streams of servers that imitate Anthropic's API report no input.
        counted = tokens(usage, "input_tokens") and tokens(usage, "total_tokens")
        return counted + since if counted else self._counted_input_size

    @cached_property
    def _counted_input_size(self) -> int:
        return tokens_sent(self._request, self._request.messages, self._count)


def _output_tokens_left(account: Account, need: Spent, price: float) -> float | None:
    """Number of output tokens that still fit into an account; None without a limit of them."""
    limits, total = account.limits.given(), account.used + need
    names = limits.keys() & {"output_tokens", "total_tokens"}
    left = [limits[name] - getattr(total, name) for name in names]
    if "usd" in limits and price:
        left.append((limits["usd"] - total.usd) / price)
    return max(min(left), 0) if left else None


def _checked_answer(minimum: Mapping[str, float], response: Any) -> object:
    """The answer to a BudgetRequest, if it raises exactly the limits that are used up."""
    if response["type"] == "stop":
        return response
    extra: Mapping[str, float] = response["extra"]
    if unknown_names := extra.keys() - minimum.keys():
        raise ValueError(
            f"extra has {', '.join(sorted(unknown_names))}, of which no limit is used up. Pass "
            f"{', '.join(minimum)}."
        )
    for name, least in minimum.items():
        amount = extra.get(name)
        if amount is None or amount < least:
            raise ValueError(f"extra[{name!r}] must be at least {least!r}, got {amount!r}.")
        if amount != _in_unit(name, amount):
            raise ValueError(f"extra[{name!r}] must be a whole number, got {amount!r}.")
    return response


def _in_unit(name: str, amount: float) -> float:
    return amount if name in ("usd", "seconds") else int(amount)
