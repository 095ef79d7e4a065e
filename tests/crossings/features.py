"""The table of features: each built-in, saver, stream mode and protocol, and what it promises."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.message import add_messages
from serve.protocols import Protocol, ag_ui, by_a2a, by_mcp, langgraph, openai

from agent_factory import AgentMiddleware
from agent_factory import middleware as m
from agent_factory.service.saver import FencedSaver
from crossings.oracle import OUTER, Checks, Decides, Limits, Once, Promise, Redacts, Streamed
from crossings.world import World

Member = AgentMiddleware[Any, Any]

READ = ("message", "result", "error", "late result", "late error")
"""Sources of the texts that enter a conversation from outside."""


@dataclass(frozen=True)
class Feature:
    """A row of the table.

    Args:
        kind: The class of the middleware; None for a feature that is none.
        promises: What it promises.
        settings: Arguments with which it acts soon.
        of: Arguments that belong to the world of a run.
        models: The number of models that are positional arguments.
        changes: What it may leave out: "messages" or "results" of the thread, "streams" of answers
            that are thrown away, "requests" to a model that are not needed after all.
        late: Tools that work in the background with it.
        inside: The agent has an agent inside, as a tool.
        wraps: Makes a subclass of the other feature's class.
    """

    kind: type[Member] | None
    promises: tuple[Promise, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    of: Callable[[World], Mapping[str, Any]] = lambda _: {}
    models: int = 0
    changes: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    inside: bool = False
    wraps: Callable[[Any], Any] | None = None

    def make(self, world: World, wrap: Callable[[Any], Any]) -> Member:
        """The middleware, or that of a subclass."""
        models = [world.model() for _ in range(self.models)]
        member: Member = wrap(self.kind)(*models, **self.settings, **self.of(world))
        return member


def row(kind: type[Member], *promises: Promise, **settings: Any) -> Feature:
    """A row with the settings of the middleware, and those of the row by their names."""
    names = {"of", "models", "changes", "late"} & settings.keys()
    parts = {name: settings.pop(name) for name in names}
    return Feature(kind, promises, settings, **parts)


def redacting(kind: type[Member]) -> type[Member]:
    """A subclass as users write them: it redacts what the model reads, and is sync."""
    has_layer = getattr(kind, "around_model", None) is not getattr(Member, "around_model", None)

    def wrap_model_call(self: Any, request: Any, handler: Any) -> Any:
        texts = [str(message.content).replace("mail-", "") for message in request.messages]
        pairs = zip(request.messages, texts, strict=True)
        messages = [message.model_copy(update={"content": text}) for message, text in pairs]
        request = request.override(messages=messages)
        if has_layer:
            return super(subclass, self).wrap_model_call(request, handler)
        return handler(request)

    subclass: type[Member] = type(
        f"My{kind.__name__}", (kind,), {"wrap_model_call": wrap_model_call}
    )
    return subclass


def checks(feature: str, sources: tuple[str, ...], **options: Any) -> Feature:
    """A row of GuardMiddleware with the check of a world."""
    promise = Checks(
        feature, sources, shown="on" in options, meanwhile=feature == "guard_meanwhile"
    )
    return row(
        m.GuardMiddleware,
        promise,
        of=lambda w: {"check": w.check(feature)},
        name=feature,
        **options,
    )


FEATURES: dict[str, Feature] = {
    "answer_guard": row(m.AnswerGuardMiddleware, changes=("streams",), max_retries=1),
    "auto_mode": row(
        m.AutoModeMiddleware,
        Decides("refund"),
        of=lambda w: {"classifier": w.helper(w.judge)},
        tools=["refund"],
    ),
    "background": row(m.BackgroundMiddleware, late=("fetch", "fail")),
    "budget": row(
        m.BudgetMiddleware, Limits(4), Limits(3, "tool calls"), run=m.Limits(turns=4, tool_calls=3)
    ),
    "budget_end": row(
        m.BudgetMiddleware, Limits(3), run=m.Limits(turns=3), exit_behavior="end", name="end"
    ),
    "caching": row(m.PromptCachingMiddleware, min_tokens=0, provider="anthropic"),
    "clearing": row(m.ContextEditingMiddleware, edits=[m.ClearToolUsesEdit(trigger=30, keep=1)]),
    "clearing_thread": row(
        m.ContextEditingMiddleware,
        changes=("results",),
        edits=[m.ClearToolUsesEdit(trigger=40, keep=1)],
        keep_thread=False,
        name="thread edits",
    ),
    "client_tools": row(m.ClientToolsMiddleware),
    "clerk": Feature(None, inside=True),
    "emulator": row(
        m.LLMToolEmulator, of=lambda w: {"model": w.helper(w.emulate)}, tools=["fetch"]
    ),
    "fallback": row(m.ModelFallbackMiddleware, models=1, changes=("streams",)),
    "file_search": row(m.FilesystemFileSearchMiddleware, root_path=Path(__file__).parent),
    "flow_guard": row(m.FlowGuardMiddleware, Decides("refund", after="fetch")),
    "guard_answer": checks("guard_answer", ("answer",), on="answer"),
    "guard_meanwhile": replace(checks("guard_meanwhile", READ), changes=("requests",)),
    "guard_call": row(
        m.GuardMiddleware,
        Decides("refund"),
        of=lambda w: {"check": w.check_call},
        on="call",
        tools=["refund"],
        name="calls",
    ),
    "guard_messages": checks("guard_messages", READ, when="before"),
    "guard_result": checks("guard_result", READ[1:], on="result"),
    "limit": row(m.ModelCallLimitMiddleware, Limits(3), run_limit=3),
    "limit_answer": row(
        m.ModelCallLimitMiddleware, Limits(2), run_limit=2, exit_behavior="answer", name="answering"
    ),
    "limit_thread": row(
        m.ModelCallLimitMiddleware, Limits(3, thread=True), thread_limit=3, name="thread limit"
    ),
    "once": row(
        m.OnceMiddleware,
        Once("refund"),
        of=lambda _: {"store": m.InMemoryEffects()},
        effects={"refund": "fail"},
    ),
    "override": Feature(None, (Redacts(READ, agents=(OUTER,)),), wraps=redacting),
    "pii": row(
        m.PIIMiddleware,
        Redacts((*READ, "answer", "call")),
        pii_type="email",
        apply_to_output=True,
        apply_to_tool_results=True,
        apply_to_tool_calls=True,
    ),
    "progress": row(
        m.ProgressGuardMiddleware, remark_after=1, withhold_after=1, answer_after=2, error_after=1
    ),
    "provider": row(m.ProviderToolSearchMiddleware, provider="anthropic"),
    "refusal": row(
        m.ModelRefusalMiddleware,
        models=1,
        changes=("streams",),
        is_refusal=lambda message: "poison" in message.text,
    ),
    "retry": row(
        m.ModelRetryMiddleware, changes=("streams",), max_retries=1, initial_delay=0, jitter=False
    ),
    "review": row(m.HumanInTheLoopMiddleware, Decides("refund"), interrupt_on={"refund": True}),
    "review_each": row(
        m.HumanInTheLoopMiddleware,
        Decides("refund"),
        interrupt_on=m.ToolPolicy(m.Rule("refund", "ask"), m.Rule("*", "allow")),
        interrupt_mode="per_call",
        name="each",
    ),
    "router": row(
        m.ModelRouterMiddleware,
        of=lambda w: {"choices": {"same": m.ModelChoice(w.model(), "always")}},
        classifier=lambda _: "same",
    ),
    "selector": row(
        m.LLMToolSelectorMiddleware,
        of=lambda w: {"model": w.helper()},
        max_tools=4,
        max_retries=0,
        on_parsing_failure="all",
    ),
    "shell": row(m.ShellToolMiddleware),
    "steering": row(m.SteeringMiddleware),
    "summary": row(
        m.SummarizationMiddleware,
        of=lambda w: {"model": w.helper()},
        trigger=("messages", 5),
        keep=("messages", 2),
    ),
    "summary_thread": row(
        m.SummarizationMiddleware,
        changes=("messages", "results"),
        of=lambda w: {"model": w.helper()},
        trigger=("messages", 6),
        keep=("messages", 2),
        keep_thread=False,
        name="thread summary",
    ),
    "todo": row(m.TodoListMiddleware),
    "tool_error": row(m.ToolErrorMiddleware),
    "tool_limit": row(m.ToolCallLimitMiddleware, Limits(2, "tool calls"), run_limit=2),
    "tool_limit_thread": row(
        m.ToolCallLimitMiddleware,
        Limits(1, "calls of refund", thread=True),
        tool_name="refund",
        thread_limit=1,
        exit_behavior="end",
    ),
    "tool_offload": row(m.ToolResultOffloadMiddleware, threshold=10, preview=60),
    "tool_retry": row(m.ToolRetryMiddleware, max_retries=1, initial_delay=0, jitter=False),
}
"""Each built-in, set up so that it acts soon; an agent inside; and a subclass of a user."""


# Savers


SAVERS: dict[type[BaseCheckpointSaver[Any]], str] = {
    InMemorySaver: "memory",
    SqliteSaver: "sqlite",
    AsyncSqliteSaver: "sqlite",
    FencedSaver: "service",  # the ways of a service bring it
}
"""Savers, and the names by which crossings draw them. Those of Postgres need a server."""


def saver_of(name: str, mode: str) -> Any:
    """A saver in a context; none in a service."""
    if name == "sqlite":
        return (AsyncSqliteSaver if mode == "async" else SqliteSaver).from_conn_string(":memory:")
    return nullcontext(InMemorySaver() if name == "memory" else None)


# Streams


def texts(messages: Sequence[AnyMessage]) -> list[tuple[str, str, str]]:
    return [(str(m.id), m.type, m.text) for m in messages]


def last_state(states: Sequence[Any], run: Streamed) -> Iterator[str]:
    """The last state that was streamed is that of the thread."""
    if texts(states[-1]["messages"]) != texts(run.after):
        yield f"the last state is {texts(states[-1]['messages'])}, and not {texts(run.after)}"


def all_updates(updates: Sequence[Any], run: Streamed) -> Iterator[str]:
    """The updates that were streamed lead from the state before to that of the thread."""
    new = {message.id: message for message in run.after}
    # A message of the user may be changed before the thread gets it, as no update.
    state: Any = [*run.before, *(new.get(message.id, message) for message in run.sent)]
    for update in updates:
        for part in update if isinstance(update, list) else [update]:
            state = add_messages(state, (part or {}).get("messages") or [])
    left, right = Counter(texts(state)), Counter(texts(run.after))  # parallel calls end as they do
    if left != right:
        yield f"the updates lead to {[*(left - right)]}, and not to {[*(right - left)]}"


def values(run: Streamed) -> Iterator[str]:
    return last_state([chunk for chunk in run.chunks if "messages" in chunk], run)


def updates(run: Streamed) -> Iterator[str]:
    found = [(node, u) for chunk in run.chunks for node, u in chunk.items()]
    return all_updates([u for node, u in found if node != "__interrupt__"], run)


def checkpoints(run: Streamed) -> Iterator[str]:
    return last_state([chunk["values"] for chunk in run.chunks], run)


def tasks(run: Streamed) -> Iterator[str]:
    results = [chunk["result"] for chunk in run.chunks if "result" in chunk]
    return all_updates(results, run)


def debug(run: Streamed) -> Iterator[str]:
    for kind, read in (("checkpoint", checkpoints), ("task_result", tasks)):
        chunks = [chunk["payload"] for chunk in run.chunks if chunk["type"] == kind]
        yield from read(run._replace(chunks=chunks))


def messages(run: Streamed) -> Iterator[str]:
    """The tokens of a message are its text, and no other message is streamed."""
    before = {message.id for message in (*run.before, *run.sent)}
    new = {message.id: message for message in run.after if message.id not in before}
    streamed: dict[str | None, str] = {}
    for message, _ in run.chunks:
        if message.type != "remove":  # LangGraph streams removals as messages
            streamed[message.id] = streamed.get(message.id, "") + message.text
    if "results" in run.changes:
        new = {id: message for id, message in new.items() if message.type != "tool"}
    if run.changes - {"late results"}:
        streamed = {id: text for id, text in streamed.items() if id in new}
    for id in new.keys() | (streamed.keys() - before):
        kept = new[id].text if id in new else None
        if kept != streamed.get(id, "" if kept == "" else None):
            yield f"{streamed.get(id)!r} is streamed of {kept!r}"


def custom(run: Streamed) -> Iterator[str]:
    """Each call of `fetch` in a run writes its number."""
    if sorted(run.chunks) != sorted(run.fetched):
        yield f"{run.chunks} are streamed of {run.fetched}"


STREAMS: dict[str, Callable[[Streamed], Iterator[str]]] = {
    "checkpoints": checkpoints,
    "custom": custom,
    "debug": debug,
    "messages": messages,
    "tasks": tasks,
    "updates": updates,
    "values": values,
}
"""How the chunks of a mode and the thread differ."""


# Protocols

Ask = Callable[[Any, str, str, str], Any]
"""Sends a text (client, thread, id of the message, text), and returns the answer or None."""


def response_of(protocol: Protocol, client: Any, thread: str, id: str, text: str) -> Any:
    """The response to a request, and the data of a stream of events."""
    path, sent = protocol("desk", thread, text, id)
    response = client.post(path, json=sent.body, headers=sent.headers)
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines] or response.json()


def ask_langgraph(*asked: Any) -> Any:
    state = response_of(langgraph, *asked)
    return state["messages"][-1]["content"] if "messages" in state else None


def ask_openai(*asked: Any) -> Any:
    choices = response_of(openai, *asked).get("choices")
    return choices[0]["message"]["content"] if choices else None


def ask_ag_ui(*asked: Any) -> Any:
    events = response_of(ag_ui, *asked)
    snapshots = [event["messages"] for event in events if event["type"] == "MESSAGES_SNAPSHOT"]
    return snapshots[-1][-1].get("content") if snapshots else None


def ask_mcp(*asked: Any) -> Any:
    response = response_of(by_mcp, *asked)
    result = (response[-1] if isinstance(response, list) else response)["result"]
    return result.get("structuredContent", {}).get("answer")


def ask_a2a(*asked: Any) -> Any:
    artifacts = response_of(by_a2a, *asked).get("result", {}).get("task", {}).get("artifacts", ())
    return "".join(part["text"] for artifact in artifacts for part in artifact["parts"]) or None


PROTOCOLS: dict[str, Ask] = {
    "a2a": ask_a2a,
    "ag_ui": ask_ag_ui,
    "langgraph": ask_langgraph,
    "mcp": ask_mcp,
    "openai": ask_openai,
}
"""Clients of protocols."""
