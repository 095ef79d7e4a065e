"""The effect of a tool happens once, wherever its process dies."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

import pytest
import stack_agents
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from agent_factory import (
    AgentFactoryError,
    AgentMiddleware,
    AgentState,
    ToolCallRequest,
    ToolRuntime,
    agent_tool,
    background,
    create_agent,
    plan_agent,
    run,
)
from agent_factory import middleware as m
from agent_factory.review import pending
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, Killed
from tables import each

GO: Any = {"messages": [("user", "Go")]}


class Bank:
    """Takes payments, then raises what is planned.

    Attributes:
        paid: The keys of the payments.
        before: What is raised before a payment, first to last; None for nothing.
        after: The same, after a payment.
    """

    def __init__(self, *after: BaseException | None) -> None:
        self.paid: list[str] = []
        self.before: list[BaseException | None] = []
        self.after = list(after)

    def pay(self, euros: int, runtime: ToolRuntime) -> str:
        """Pay a bill."""
        if self.before and (error := self.before.pop(0)):
            raise error
        self.paid.append(m.idempotency_key(runtime))
        if self.after and (error := self.after.pop(0)):
            raise error
        return f"Paid {euros}."


class Dies(AgentMiddleware):
    """Dies once after each tool call of some ids, before the result is stored."""

    def __init__(self, *ids: str) -> None:
        super().__init__()
        self.ids = list(ids)

    def around_tool(self, request: Any) -> Any:
        result = yield request
        if request.tool_call["id"] in self.ids:
            self.ids.remove(request.tool_call["id"])
            raise Killed
        return result


def payment(euros: int = 5, id: str = "1", name: str = "pay") -> dict[str, Any]:
    return {"name": name, "args": {"euros": euros}, "id": id}


def agent_of(
    bank: Bank, policy: Any, *outer: Any, script: Any = (), inner: Any = (), **options: Any
) -> Any:
    once = m.OnceMiddleware({"pay": policy}, store=options.pop("store", m.InMemoryEffects()))
    steps = [*(script or [[payment()]]), "Done."]
    options = {"checkpointer": InMemorySaver(), "tools": [bank.pay], **options}
    return stack_agents.agent_of(steps, *outer, once, *inner, **options)


def die(call: Any, agent: Any, given: Any = GO, kind: type[BaseException] = Killed) -> Any:
    """Start a run whose process dies; the agent."""
    with pytest.raises(kind):
        call(agent, given, THREAD, durability="sync")
    return agent


def results(values: Any) -> list[str]:
    return [message.text for message in values["messages"] if message.type == "tool"]


retries = partial(m.ToolRetryMiddleware, initial_delay=0)


def answer(agent: Any, call: Any, decision: Any) -> Any:
    (asked,) = pending(agent, THREAD).calls
    given: Any = Command(resume={asked.interrupt_id: decision})
    return call(agent, given, THREAD, durability="sync")


# What is stored is not run again


@each("fused", [True, False, "turn"])
@each("policy", ["rerun", "ask", "fail"])
def test_a_stored_result_is_returned_without_running_the_tool(
    call: Any, policy: str, fused: Any
) -> None:
    bank = Bank()
    agent = die(call, agent_of(bank, policy, Dies("1"), fused=fused))
    assert results(call(agent, None, THREAD)) == ["Paid 5."]
    assert len(bank.paid) == 1


class Paid(AgentState[Any]):
    total: Annotated[int, lambda old, new: old + new]


@each("as_list", [False, True])
def test_commands_and_lists_are_stored_as_they_are(call: Any, as_list: bool) -> None:
    runs = []

    def pay(euros: int, runtime: ToolRuntime) -> Any:
        """Pay a bill."""
        runs.append(euros)
        message = ToolMessage("Paid.", tool_call_id=runtime.tool_call_id, artifact={"no": 7})
        if as_list:
            return [message, Command(update={"total": euros})]
        return Command(update={"total": euros, "messages": [message]})

    agent = agent_of(Bank(), "fail", Dies("1"), tools=[pay], state_schema=Paid)
    die(call, agent, {**GO, "total": 1})
    values = call(agent, None, THREAD)
    assert (runs, values["total"], results(values)) == ([5], 6, ["Paid."])
    assert values["messages"][2].artifact == {"no": 7}


def test_a_returned_error_is_a_result(call: Any) -> None:
    runs = []

    def pay(euros: int) -> str:
        """Pay a bill."""
        runs.append(euros)
        raise ValueError("declined")

    agent = agent_of(Bank(), "ask", Dies("1"), tools=[pay], handle_tool_errors=ValueError)
    die(call, agent)
    (text,) = results(call(agent, None, THREAD))
    assert "declined" in text
    assert runs == [5]


# What happens if the outcome of an attempt is unknown


class Keeps(m.InMemoryEffects):
    """A store that keeps a record which was released, and ends a loop that relies on it."""

    def __init__(self) -> None:
        super().__init__()
        self.releases = 0

    def release(self, effect: m.Effect) -> None:
        self.releases += 1
        if self.releases > 50:
            raise Killed


@each("policy", ["rerun", "ask"])
def test_a_store_that_keeps_a_released_record_is_an_error(call: Any, policy: str) -> None:
    bank, store = Bank(Killed()), Keeps()
    agent = die(call, agent_of(bank, policy, store=store))
    if policy == "ask":
        call(agent, None, THREAD, durability="sync")
    act = partial(answer, agent, call, {"type": "approve"})
    if policy == "rerun":
        act = partial(call, agent, None, THREAD, durability="sync")
    with pytest.raises(m.EffectError, match=r"has kept the record of .*, which was released"):
        act()
    assert store.releases == 1
    assert len(bank.paid) == 1


@each("death", [Killed(), TimeoutError("no answer")])
def test_fail_reports_to_the_model_that_the_outcome_is_unknown(call: Any, death: Any) -> None:
    bank = Bank(death)
    values = call(die(call, agent_of(bank, "fail"), kind=type(death)), None, THREAD)
    (text,) = results(values)
    assert text.startswith("Error: pay(euros=5), started at 20")
    assert "its outcome is unknown: it may have been done" in text
    assert values["messages"][2].status == "error"
    assert len(bank.paid) == 1


@each("fused", [True, False, "turn"])
@each(
    "decision, result, payments",
    [
        ({"type": "approve"}, "Paid 5.", 2),
        ({"type": "respond", "message": "Paid, receipt 7."}, "Paid, receipt 7.", 1),
        ({"type": "reject", "message": "Let it be."}, "Let it be.", 1),
        ({"type": "reject"}, "A person decided not to run it again.", 1),
    ],
)
def test_ask_asks_a_person(
    call: Any, fused: Any, decision: Any, result: str, payments: int
) -> None:
    bank, store = Bank(Killed()), m.InMemoryEffects()
    agent = die(call, agent_of(bank, "ask", fused=fused, store=store))
    call(agent, None, THREAD, durability="sync")
    (asked,) = pending(agent, THREAD).calls
    assert (asked.id, asked.name, asked.args, asked.kind) == ("1", "pay", {"euros": 5}, "review")
    assert asked.allowed == ("approve", "reject", "respond")
    assert asked.question.startswith("pay(euros=5), started at 20")
    assert "it may have been done" in asked.question
    values = answer(agent, call, decision)
    assert results(values)[0].endswith(result)
    assert values["messages"][-1].text == "Done."
    assert len(bank.paid) == payments
    if decision["type"] == "respond":
        assert [effect.result.text for effect in store.of_run("1/")] == [result]


class Breaks(m.InMemoryEffects):
    """A store whose operations raise, before or after their work: {"begin": [None, Killed()]}."""

    def __init__(self, **errors: Any) -> None:
        super().__init__()
        self.errors = errors

    def _raise(self, name: str) -> None:
        if self.errors.get(name) and (error := self.errors[name].pop(0)):
            raise error

    def begin(self, effect: m.Effect) -> m.Effect | None:
        self._raise("begin")
        earlier = super().begin(effect)
        self._raise("begun")
        return earlier

    def finish(self, effect: m.Effect, result: bytes) -> None:
        self._raise("finish")
        super().finish(effect, result)

    def release(self, effect: m.Effect) -> None:
        self._raise("release")
        super().release(effect)
        self._raise("released")


@each("when", ["release", "released", "begin"])
def test_an_answer_is_not_asked_for_twice_if_the_process_dies_before_the_tool_starts(
    call: Any, when: str
) -> None:
    bank = Bank(Killed())
    store = Breaks()
    agent = die(call, agent_of(bank, "ask", store=store))
    call(agent, None, THREAD, durability="sync")
    store.errors = {when: [None, Killed()] if when == "begin" else [Killed()]}
    with pytest.raises(Killed):
        answer(agent, call, {"type": "approve"})
    assert results(call(agent, None, THREAD)) == ["Paid 5."]
    assert len(bank.paid) == 2


@each("when", ["begin", "begun", "finish"])
def test_a_death_between_record_and_result_is_an_unknown_outcome(call: Any, when: str) -> None:
    """A death before the record costs nothing."""
    bank = Bank()
    agent = die(call, agent_of(bank, "fail", store=Breaks(**{when: [Killed()]})))
    (text,) = results(call(agent, None, THREAD))
    assert ("its outcome is unknown" in text) is (when != "begin")
    assert len(bank.paid) == (when != "begun")


# Interrupts


@each("mode", ["batched", "per_call"])
def test_it_works_inside_of_reviews(call: Any, mode: Any) -> None:
    review = m.HumanInTheLoopMiddleware({"pay": True}, interrupt_mode=mode)
    bank = Bank(Killed())
    agent = agent_of(bank, "ask", review)
    call(agent, GO, THREAD)
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"euros": 4}}}
    with pytest.raises(Killed):
        answer(agent, call, {"decisions": [edit]} if mode == "batched" else edit)
    call(agent, None, THREAD)
    if mode == "per_call":  # LangGraph has lost the answer with the task
        answer(agent, call, edit)
    (asked,) = pending(agent, THREAD).calls
    assert asked.question.startswith("pay(euros=4), started at")
    (text,) = results(answer(agent, call, {"type": "respond", "message": "Paid 4."}))
    assert text.startswith("Paid 4.")
    assert len(bank.paid) == 1


# Failures and retries


def test_after_a_definite_failure_the_call_may_run_again(call: Any) -> None:
    """In another run, or by a retry outside."""
    bank = Bank()
    bank.before = [ConnectionError("down")]
    agent = die(call, agent_of(bank, "fail"), kind=ConnectionError)
    assert results(call(agent, None, THREAD)) == ["Paid 5."]
    bank.before = [ConnectionError("down")] * 2
    assert results(call(agent_of(bank, "ask", retries()), GO, THREAD)) == ["Paid 5."]


NAMED: Any = {"retry_on": (ConnectionError, TimeoutError)}


@each("named", [NAMED, {"idempotent_tools": ["pay"]}, {"retry_on": lambda error: True}])
@each("inside", [False, True])
def test_a_timeout_of_an_effect_is_never_repeated_blindly(
    call: Any, named: Any, inside: bool
) -> None:
    bank = Bank(TimeoutError("no answer"))
    order: Any = {"inner": [retries(**named)]} if inside else {}
    outer = () if inside else (retries(**named),)
    (text,) = results(call(agent_of(bank, "fail", *outer, **order), GO, THREAD))
    assert ("is not known" if inside else "is unknown") in text
    assert len(bank.paid) == 1


def test_a_retry_that_would_repeat_a_timeout_asks_first(call: Any) -> None:
    bank = Bank(TimeoutError("no answer"), TimeoutError("no answer"))
    agent = agent_of(bank, "ask", retries(**NAMED))
    for paid in (1, 2):
        call(agent, GO if paid == 1 else None, THREAD)
        assert len(bank.paid) == paid
        if paid == 1:
            answer(agent, call, {"type": "approve"})
    assert results(answer(agent, call, {"type": "approve"})) == ["Paid 5."]
    assert len(bank.paid) == 3


def test_the_answer_to_a_question_of_the_tool_does_not_answer_that_of_the_middleware(
    call: Any,
) -> None:
    """LangGraph gives the interrupts of a task their answers by their order."""
    bank = Bank(TimeoutError("no answer"))
    answers = []

    def pay(euros: int, runtime: ToolRuntime) -> str:
        """Pay a bill."""
        answers.append(interrupt("Sure?"))
        return bank.pay(euros, runtime)

    agent = agent_of(bank, "ask", retries(**NAMED), tools=[pay])
    assert call(agent, GO, THREAD)["__interrupt__"][0].value == "Sure?"
    approve = {"type": "approve"}
    (asked,) = answer(agent, call, approve)["__interrupt__"]
    assert "its outcome is unknown" in asked.value["description"]
    assert len(bank.paid) == 1
    assert results(answer(agent, call, approve)) == ["Paid 5."]
    assert answers == [approve, approve]


@each("inside", [False, True])
def test_a_tool_with_a_key_is_repeated_after_a_timeout(call: Any, inside: bool) -> None:
    bank = Bank(TimeoutError("no answer"))
    layers: Any = {"inner": [retries()]} if inside else {}
    outer = () if inside else (retries(idempotent_tools=["pay"]),)
    assert results(call(agent_of(bank, "rerun", *outer, **layers), GO, THREAD)) == ["Paid 5."]
    assert len(set(bank.paid)) == 1
    assert len(bank.paid) == 2


def test_a_timeout_that_a_retry_inside_has_reported_is_unknown_and_reported_outward(
    call: Any,
) -> None:
    bank = Bank(TimeoutError("no answer"))
    store = m.InMemoryEffects()
    outer = m.ToolErrorMiddleware(lambda error, request: f"handled {error}")
    agent = agent_of(bank, "ask", outer, inner=[retries()], store=store)
    assert results(call(agent, GO, THREAD)) == ["handled no answer"]
    assert [effect.is_done for effect in store.of_run("1/")] == [False]


@each("order", [1, -1])
@each(
    "failure, outcomes",
    [(None, ["Paid 5."]), (TimeoutError("?"), [None]), (ValueError("No money."), [])],
)
def test_an_effect_in_the_background_ends_as_its_job_does(
    call: Any, failure: Any, outcomes: list[Any], order: int
) -> None:
    store, bank = m.InMemoryEffects(), Bank(failure)
    both: Any = [m.BackgroundMiddleware(), m.OnceMiddleware({"pay": "ask"}, store=store)]
    model = ScriptedChatModel([[{"name": "pay", "args": {"euros": 5}}], *["Ok."] * 3])
    kept = InMemorySaver()
    agent = create_agent(model, [background(bank.pay)], middleware=both[::order], checkpointer=kept)
    with m.effects_of_run(store, run="1"):
        call(agent, GO, THREAD)
    assert [effect.result and effect.result.text for effect in store.of_run("1")] == outcomes
    assert len(bank.paid) == 1


def test_a_build_warns_of_a_wrong_order_and_of_hidden_errors() -> None:
    once = m.OnceMiddleware({"pay": "ask"}, store=m.InMemoryEffects())
    for outer in (m.ToolRetryMiddleware(), m.ToolErrorMiddleware()):
        with pytest.raises(ValueError, match="AF204"):
            plan_agent(tools=[Bank().pay], middleware=[once, outer], strict=True, checkpointer=True)
    with pytest.raises(ValueError, match="AF207"):
        plan_agent(tools=[Bank().pay], middleware=[once], strict=True, handle_tool_errors=True)
    with pytest.raises(ValueError, match="AF210"):
        plan_agent(middleware=[once], strict=True)


# The store


@each("refusal", [AgentFactoryError("the lease", "is lost."), Killed()])
def test_a_refusal_of_the_store_passes_all_layers_unchanged(call: Any, refusal: Any) -> None:
    bank = Bank()
    outer = (m.ToolErrorMiddleware(), retries())
    store = Breaks(begin=[refusal])
    agent = agent_of(bank, "ask", *outer, store=store, handle_tool_errors=True)
    with pytest.raises(type(refusal)) as caught:
        call(agent, GO, THREAD)
    assert caught.value is refusal
    assert bank.paid == []


@each("when", ["begin", "finish", "release"])
def test_a_failure_of_the_store_is_not_one_of_the_tool(call: Any, when: str) -> None:
    bank = Bank()
    bank.before = [ConnectionError("down")] if when == "release" else []
    broken = OSError("the disk is full")
    agent = agent_of(
        bank, "ask", m.ToolErrorMiddleware(), retries(), store=Breaks(**{when: [broken]})
    )
    with pytest.raises(m.EffectError, match="OSError: the disk is full") as caught:
        call(agent, GO, THREAD)
    assert caught.value.__cause__ is broken
    call(agent, None, THREAD)
    assert pending(agent, THREAD).asks == (when != "begin")


def test_a_store_can_be_announced_for_a_run_and_that_of_the_middleware_comes_first(
    call: Any,
) -> None:
    bank, store, own = Bank(), m.InMemoryEffects(), m.InMemoryEffects()
    with m.effects_of_run(store, run="order-17"):
        call(agent_of(bank, "ask", store=None), GO, THREAD)
        call(agent_of(bank, "ask", store=own), GO, THREAD)
    (effect,) = store.of_run("order-17")
    assert (effect.key, effect.tool, effect.args) == (bank.paid[0], "pay", {"euros": 5})
    assert effect.result.text == "Paid 5."
    assert [effect.key for effect in own.of_run("order-17")] == bank.paid[1:]


def test_without_a_store_or_a_thread_an_error_says_what_to_write(call: Any) -> None:
    bank = Bank()
    with pytest.raises(m.EffectError, match=r"store=SqliteEffects\('effects.db'\)"):
        call(agent_of(bank, "ask", store=None), GO, THREAD)
    agent = agent_of(bank, "ask", checkpointer=None)
    with pytest.raises(m.EffectError, match="without a thread"):
        call(agent, GO)
    assert bank.paid == []
    agent = agent_of(bank, "ask", checkpointer=None)  # as a tool or a node of another agent
    assert results(call(agent, GO, THREAD)) == ["Paid 5."]


def test_outside_of_an_agent_a_question_is_an_error() -> None:
    once = m.OnceMiddleware({"pay": "ask"}, store=m.InMemoryEffects())
    asked: Any = {**payment(), "type": "tool_call"}
    state: Any = {"messages": [AIMessage("", tool_calls=[asked], id="m")]}
    runtime: Any = ToolRuntime(
        state=state, context=None, config=THREAD, stream_writer=print, tool_call_id="1", store=None
    )
    request = ToolCallRequest(asked, None, state, runtime)

    def times_out(_: Any) -> Any:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        run(once.around_tool(request), times_out)
    with pytest.raises(m.EffectError, match="pay: cannot be asked about outside of an agent"):
        run(once.around_tool(request), times_out)


# The key


def test_a_reused_call_id_and_another_thread_are_other_effects(call: Any) -> None:
    bank, store = Bank(), m.InMemoryEffects()
    agent = agent_of(bank, "ask", script=[[payment()], [payment()]])
    assert results(call(agent, GO, THREAD)) == ["Paid 5."] * 2
    turn = AIMessage("", tool_calls=[{**payment(), "type": "tool_call"}], id="the same")
    for thread in ("1", "2"):
        config = {"configurable": {"thread_id": thread}}
        call(agent_of(bank, "ask", script=[turn], store=store), GO, config)
    assert len(set(bank.paid)) == len(bank.paid) == 4


def test_time_travel_to_an_answer_returns_the_result_and_before_it_is_a_new_effect(
    call: Any,
) -> None:
    bank = Bank()
    script = [[payment()], "Done.", "Again.", [payment()]]
    agent = agent_of(bank, "ask", script=script, fused=False)
    call(agent, GO, THREAD)
    last = next(s.config for s in agent.get_state_history(THREAD) if "tools" in s.next)
    assert results(call(agent, None, last)) == ["Paid 5."]
    assert len(bank.paid) == 1
    first = [s.config for s in agent.get_state_history(THREAD) if "model" in s.next][-1]
    call(agent, None, first)
    assert len(set(bank.paid)) == 2


def test_an_edited_call_is_another_effect(call: Any) -> None:
    """Time travel to a review, and another decision there."""
    bank = Bank()
    review = m.HumanInTheLoopMiddleware({"pay": True}, interrupt_mode="per_call")
    agent = agent_of(bank, "ask", review, script=[[payment()], "Done."])
    (asked,) = call(agent, GO, THREAD)["__interrupt__"]
    waiting = agent.get_state(THREAD).config
    answer(agent, call, {"type": "approve"})
    (asked,) = call(agent, None, waiting)["__interrupt__"]
    edit = {"type": "edit", "edited_action": {"name": "pay", "args": {"euros": 4}}}
    values = call(agent, Command(resume={asked.id: edit}), THREAD)
    assert results(values)[0].startswith("Paid 4.")
    assert len(set(bank.paid)) == 2


def test_all_tools_but_some_can_be_recorded_and_those_have_no_key(call: Any) -> None:
    def look(euros: int) -> str:
        """Look."""
        return "nothing"

    store = m.InMemoryEffects()
    once = m.OnceMiddleware({"look": None}, default="ask", store=store)
    calls = [payment(), payment(id="2", name="look")]
    agent = create_agent(ScriptedChatModel([calls, "Done."]), [Bank().pay, look], middleware=[once])
    call(agent, GO, THREAD)
    assert [effect.tool for effect in store.of_run("1/")] == ["pay"]
    once = m.OnceMiddleware({"pay": None}, default="ask", store=store)
    agent = create_agent(ScriptedChatModel([[payment()]]), [Bank().pay], middleware=[once])
    with pytest.raises(m.EffectError, match="has no key for this call"):
        call(agent, GO, THREAD)


# Subagents


def with_clerk(bank: Bank, inner: Any, *outer: Any, times: int = 1) -> Any:
    """An agent whose tool is an agent that pays."""
    # A cached model gives the same answer with the same ids.
    call = AIMessage("", tool_calls=[{**payment(), "type": "tool_call"}], id="cached")
    options: Any = {"tools": [bank.pay], "name": "clerk", "ignore": ["AF211"]}
    clerk = stack_agents.agent_of([call, "It is paid."] * times, *inner, **options)
    asked = [{"name": "clerk", "args": {"request": "Pay!"}, "id": "c"}]
    tools = [agent_tool(clerk, description="Pays bills.")]
    steps = [*[asked] * times, "Done."]
    return stack_agents.agent_of(steps, *outer, tools=tools, checkpointer=InMemorySaver())


def test_the_effect_of_a_subagent_happens_once_and_is_one_of_the_outer_run(call: Any) -> None:
    bank, store = Bank(), m.InMemoryEffects()
    outer = m.OnceMiddleware({"nothing": "ask"}, store=store)
    agent = die(call, with_clerk(bank, [Dies("1"), m.OnceMiddleware({"pay": "ask"})], outer))
    assert results(call(agent, None, THREAD)) == ["It is paid."]
    assert len(bank.paid) == 1
    assert [effect.key for effect in store.of_run("1/")] == bank.paid


def test_each_call_of_a_subagent_has_its_own_effects(call: Any) -> None:
    bank = Bank()
    once = m.OnceMiddleware({"pay": "ask"}, store=m.InMemoryEffects())
    assert results(call(with_clerk(bank, [once], times=2), GO, THREAD)) == ["It is paid."] * 2
    assert len(set(bank.paid)) == 2


def test_the_question_of_a_subagent_is_answered_from_outside(call: Any) -> None:
    bank = Bank(Killed())
    agent = with_clerk(bank, [m.OnceMiddleware({"pay": "ask"}, store=m.InMemoryEffects())])
    die(call, agent)
    call(agent, None, THREAD, durability="sync")
    assert results(answer(agent, call, {"type": "respond", "message": "Paid."})) == ["It is paid."]
    assert len(bank.paid) == 1


def test_a_subagent_does_not_inherit_a_key(call: Any) -> None:
    bank = Bank()
    agent = with_clerk(bank, [], m.OnceMiddleware({"clerk": "ask"}, store=m.InMemoryEffects()))
    with pytest.raises(m.EffectError, match="has no key for this call"):
        call(agent, GO, THREAD)


# Arguments, laws


def test_async_stores_do_not_block_the_loop() -> None:
    store = m.InMemoryEffects()
    begin, is_reached = store.begin, asyncio.Event()

    async def reach() -> None:
        is_reached.set()

    async def main() -> Any:
        loop = asyncio.get_running_loop()

        def slow(effect: m.Effect) -> m.Effect | None:
            asyncio.run_coroutine_threadsafe(reach(), loop).result(timeout=60)
            return begin(effect)

        store.begin = slow  # type: ignore[method-assign]
        return await agent_of(Bank(), "ask", store=store).ainvoke(GO, THREAD)

    assert results(asyncio.run(main())) == ["Paid 5."]
    assert is_reached.is_set()
