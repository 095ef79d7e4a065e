"""A budget of money, tokens, time, turns and tool calls, for a run, a thread or many agents.

What a call will cost at least is set aside before it is made, so that a limit holds before money
is gone and not after; what it did cost takes its place. The layers do the work, since only they
see the request and its answer. A hook before the model ends a run that is over, whatever hooks
would send it back.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from time import monotonic
from typing import Any, Literal, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.runnables import Runnable
from langgraph.runtime import Runtime
from langgraph.types import Command

from agent_factory import (
    AgentMiddleware,
    ExtendedModelResponse,
    Flow,
    ModelRequest,
    ModelResponse,
    Ordering,
    ToolCallRequest,
    hook_config,
    init_model,
)
from agent_factory.middleware._shared.context_size import TokenCounter
from agent_factory.middleware._shared.final_answer import last_answer
from agent_factory.middleware._shared.messages import last_turn, unanswered
from agent_factory.middleware._shared.validation import check_choice, check_number
from agent_factory.middleware.budget.account import (
    BudgetState,
    Visit,
    extra_key,
    for_thread,
    is_over,
)
from agent_factory.middleware.budget.estimate import Estimate
from agent_factory.middleware.budget.interrupt import (
    BudgetRequest,
    BudgetResponse,
    RaiseBudget,
    StopRun,
    ask_for_more,
)
from agent_factory.middleware.budget.ledger import Ledger, Reservation, Unshared
from agent_factory.middleware.budget.limits import (
    BOUGHT,
    BudgetExceededError,
    Limits,
    Spent,
    reason,
)
from agent_factory.middleware.budget.plan import Plan, Settings
from agent_factory.middleware.budget.prices import (
    Price,
    PriceFunction,
    Prices,
    UnknownPriceError,
    name_of,
)

__all__ = [
    "BudgetExceededError",
    "BudgetMiddleware",
    "BudgetRequest",
    "BudgetResponse",
    "BudgetState",
    "Ledger",
    "Limits",
    "Price",
    "RaiseBudget",
    "Reservation",
    "Spent",
    "StopRun",
    "UnknownPriceError",
]

_OVER = "the budget of this run is used up"
_OF_TOOLS = ("tool_calls", "seconds")
_A_TOOL_CALL = Spent(tool_calls=1)
_ONE_EACH = UsageMetadata(input_tokens=1, output_tokens=1, total_tokens=2)

T = TypeVar("T")


class BudgetMiddleware(AgentMiddleware[BudgetState, Any]):
    """Lets a run spend so much and no more, and ends it well.

    A call of the model is made only if the least it costs fits: the tokens of its messages, its
    system prompt and its tools by estimate, and one token of an answer. What it did cost, by its
    usage and with what came from a cache, is booked then; a model that reports none is booked by
    estimate, a call that failed is not booked. So a limit is passed by no more than one call; of
    turns and tool calls, by none. On a shared ledger that holds for each agent: see `Ledger`.

    On the way to a limit the model is told once how much is left, then a cheaper model takes
    over, and at the end the run ends as `exit_behavior` says. A tool call that does not fit any
    more is answered with an error, and so is one that comes when the seconds are over.

    A run goes on with what it has spent when it is resumed after an interrupt or a failure; a new
    message begins a new run. Seconds pass while the run works, not while it waits for a person.

    Put it last in the list, inside retries and fallbacks, so that each attempt is counted with
    the model it is made with. Calls that other middleware or tools make on their own are not seen
    here; `Ledger.handler` books them too.

    Args:
        run: What one run may spend.
        thread: What all runs of a thread may spend together; needs a checkpointer.
        ledger: What several agents may spend together.
        warn_at: At which share of any limit (0 to 1) the model is told, once in a run for each
            mark; the message is not kept in the thread. Several marks as a list; None for none.
            0.8 leaves some turns to act on it.
        cheaper: A chat model or "provider:name" that is used from `cheaper_at` on, and before
            where a call of the usual model does not fit any more.
        cheaper_at: At which share of a limit of money or tokens.
        exit_behavior: "answer": one last call, without tools, answers from the work so far; enough
            is kept back for it, as the conversation has grown so far. Where it does not fit all
            the same, as "end". "end": a message with the numbers. "error": raises
            BudgetExceededError. "ask": interrupts with a `BudgetRequest`, resumed with a
            `BudgetResponse`; needs a checkpointer.
        prices: USD for a million tokens by model name, `{"name": Price(input=1, output=2)}`, for
            models that genai-prices does not know or prices otherwise; or a function of a model's
            name and its usage that gives the USD.
        token_counter: Counts the tokens of a list of messages.
        cap_output: Also pass `max_tokens` with each call, so that its answer ends where the
            limits do. Only for models that take it.
        name: Tells several instances apart; each keeps books of its own.

    Raises:
        ValueError: No limit is given, a share is not within 0 and 1, `exit_behavior` is unknown,
            or `cheaper` has nothing to save. UnknownPriceError: nobody knows its price.
        TypeError: An argument of an unusable type.
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

    ordering = Ordering(after=("ModelRetryMiddleware", "ModelFallbackMiddleware"))

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
        self.run = _checked("run", run, Limits) or Limits()
        self.thread = _checked("thread", thread, Limits) or Limits()
        self.ledger = _checked("ledger", ledger, Ledger)
        if not callable(token_counter):
            raise TypeError(f"token_counter must be a function on messages, not {token_counter!r}.")
        check_choice("exit_behavior", exit_behavior, ("answer", "end", "error", "ask"))
        self.exit_behavior = exit_behavior
        self.needs_checkpointer = thread is not None or exit_behavior == "ask"
        self.token_counter = token_counter
        limited = self._limited()
        self._in_money = "usd" in limited
        self.prices = Prices(prices, needed=self._in_money)
        self._settings = Settings(
            run=self.run,
            thread=self.thread,
            ledger=self.ledger or Unshared(),
            warn_at=_marks(warn_at),
            cheaper=self._checked_cheaper(cheaper, not limited.isdisjoint(BOUGHT)),
            cheaper_at=_share("cheaper_at", cheaper_at),
            answers=exit_behavior == "answer",
            counts=not limited.isdisjoint(BOUGHT),
            cap_output=cap_output,
        )
        guards_tools = self.ledger is not None or not limited.isdisjoint(_OF_TOOLS)
        self.unused = () if guards_tools else ("around_tool",)
        # What nobody asks for is not looked up.
        asks = self._in_money or self.ledger is not None or prices is not None
        self._booked_by = self.prices if asks else None

    def _limited(self) -> set[str]:
        shared = {} if self.ledger is None else self.ledger.limits.given()
        limited = {*self.run.given(), *self.thread.given(), *shared}
        if not limited and self.ledger is None:
            raise ValueError(
                "Give run=Limits(...), thread=Limits(...) or ledger=Ledger(Limits(...)): without a "
                "limit, all may pass."
            )
        return limited

    def _checked_cheaper(self, cheaper: Any, saves: bool) -> BaseChatModel | None:
        if cheaper is None:
            return None
        if not isinstance(cheaper, str | Runnable):
            raise TypeError(f"cheaper must be a chat model or 'provider:name', not {cheaper!r}.")
        if not saves:
            raise ValueError("cheaper saves money or tokens: give a limit of usd or of tokens.")
        model = init_model(cheaper)  # type: ignore[arg-type]  # a bound model is a Runnable
        if self._in_money:
            self.prices.of(name_of(model), _ONE_EACH)
        return model

    def before_agent(self, state: BudgetState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Opens the book of a new run; that of the last one goes to the thread."""
        book = state.get("budget_run", {}).get(self.name)
        if not book:
            return {"budget_clock": monotonic()}
        return {
            "budget_thread": {self.name: for_thread(book)},
            "budget_run": {self.name: None},
            "budget_clock": monotonic(),
        }

    async def abefore_agent(self, state: BudgetState, runtime: Runtime[Any]) -> dict[str, Any]:
        """As `before_agent`; there is nothing to wait for."""
        return self.before_agent(state, runtime)

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: BudgetState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Ends a run that is over, past the hooks that sent it back."""
        if not is_over(self.name, state):
            return None
        message = state["messages"][-1]
        if isinstance(message, AIMessage) and not message.tool_calls:
            return {"jump_to": "end"}
        return {"jump_to": "end", "messages": [_last_words(_OVER)]}

    @hook_config(can_jump_to=["end"])
    async def abefore_model(
        self, state: BudgetState, runtime: Runtime[Any]
    ) -> dict[str, Any] | None:
        """As `before_model`; there is nothing to wait for."""
        return self.before_model(state, runtime)

    def around_model(
        self, request: ModelRequest[Any]
    ) -> Generator[Any, Any, AIMessage | ExtendedModelResponse[Any]]:
        """Makes the call if it fits, and books it."""
        visit = Visit(self.name, request.state, request.runtime)
        estimate = Estimate(request, self.token_counter, self.prices if self._in_money else None)
        plan = Plan(self._settings, request, visit, estimate)
        if visit.run.get("over"):
            return _last_words(_OVER)
        call = plan.made()
        while isinstance(call, BudgetExceededError):
            if self.exit_behavior != "ask" or not self._raised(visit, call):
                return self._ended(visit, call)
            call = plan.made()
        with call.reservation as reservation:
            began = monotonic()
            response: ModelResponse[Any]
            if call.last:
                response = yield from last_answer(call.request, call.last)
            else:
                response = yield call.request
            spent = estimate.actual(call.request.model, response.result, self._booked_by)
            reservation.commit(self._unbooked(response, spent))
        took = monotonic() - began
        update = visit.booked(
            {**spent.written(), "slowest": took, "told": call.mark, "over": int(bool(call.last))}
        )
        return ExtendedModelResponse(response, Command(update=update))

    def around_tool(self, request: ToolCallRequest) -> Flow[Any]:
        """Runs the tool if its call fits, and counts it; otherwise answers with an error."""
        visit = Visit(self.name, request.state)
        held = self._reserved(request, visit)
        if isinstance(held, BudgetExceededError):
            visit.add({"refused": 1})
            return [_refusal(request.tool_call, held), Command(update=visit.update())]
        with held as reservation:
            try:
                result = yield request
            except Exception:
                reservation.commit(_A_TOOL_CALL)  # it ran
                raise
            reservation.commit(_A_TOOL_CALL)
        visit.add(_A_TOOL_CALL.written())
        results = result if isinstance(result, list) else [result]
        return [*results, Command(update=visit.update() | visit.started())]

    def _reserved(
        self, request: ToolCallRequest, visit: Visit
    ) -> Reservation | BudgetExceededError:
        """One call of a tool set aside; or what stands in its way.

        Calls of one turn run side by side, and none sees what the others write. So each makes
        room for those before it.
        """
        message, tail = last_turn(request.state["messages"])
        ids = [call["id"] for call in unanswered(message, tail)]
        own = request.tool_call["id"]
        need = Spent(tool_calls=1 + (ids.index(own) if own in ids else 0))
        accounts = visit.accounts(self.run, self.thread)
        if any(account.missing(need) for account in accounts):
            return BudgetExceededError(accounts, need)
        try:
            return self._settings.ledger.reserve(_A_TOOL_CALL)
        except BudgetExceededError as error:
            return error

    def _raised(self, visit: Visit, refused: BudgetExceededError) -> bool:
        """Whether people gave more; it is added where it was lacking."""
        extra = ask_for_more(refused.accounts, refused.need)
        if extra is None:
            return False
        for scope, lacks in refused.reached.items():
            more = {name: extra[name] for name in lacks}
            if scope == "ledger":
                self._settings.ledger.raise_limits(more)
            else:
                visit.add({extra_key(scope, name): amount for name, amount in more.items()})
        return True

    def _ended(self, visit: Visit, refused: BudgetExceededError) -> ExtendedModelResponse[Any]:
        """What the run ends with.

        Raises:
            BudgetExceededError: It should not end with words.
        """
        if self.exit_behavior == "error":
            raise refused
        words = _last_words(reason(refused.accounts, refused.need))
        update = visit.booked({"over": 1})
        return ExtendedModelResponse(ModelResponse([words]), Command(update=update))

    def _unbooked(self, response: ModelResponse[Any], spent: Spent) -> Spent:
        """What the ledger does not know yet: its handler may have booked the tokens."""
        if self.ledger is None:
            return spent
        ids = [message.id for message in response.result if isinstance(message, AIMessage)]
        booked = [self.ledger.fetch(id_) for id_ in ids]
        return Spent(turns=spent.turns) if any(booked) else spent


def _last_words(why: str) -> AIMessage:
    return AIMessage(f"I had to stop here: {why}.", additional_kwargs={"lc_source": "budget"})


def _refusal(call: Any, refused: BudgetExceededError) -> ToolMessage:
    why = reason(refused.accounts, refused.need)
    return ToolMessage(
        f"Error: {call['name']} did not run: {why}. Go on without it.",
        tool_call_id=call["id"],
        name=call["name"],
        status="error",
    )


def _checked(name: str, value: T | None, kind: type[T]) -> T | None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} must be {kind.__name__}(...), not {value!r}.")
    return value


def _share(name: str, value: Any) -> float:
    check_number(name, value, unit="shares, such as 0.8,")
    if value is None or not 0 < value <= 1:
        raise ValueError(f"{name} must be more than 0 and at most 1, not {value!r}.")
    return float(value)


def _marks(warn_at: Any) -> tuple[float, ...]:
    if warn_at is None:
        return ()
    marks = warn_at if isinstance(warn_at, list | tuple) else [warn_at]
    return tuple(sorted(_share("warn_at", mark) for mark in marks))
