"""Recorded runs as data: loops that models get into, and repetitions that are right.

A run is a list of turns: a call, calls made at once, or a text. Each call comes with its result.
The loops imitate what users of agents report; their last turns are repeated for ever, until no
tools are offered any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, cycle
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import PrivateAttr

from agent_factory import AgentMiddleware, Flow, after_model, create_agent, wrap_model_call
from agent_factory.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from agent_factory.testing import ScriptedChatModel
from agent_factory.testing.fake_model import FakeChatModel, FakeResponse, tool_call

Member = AgentMiddleware[Any, Any]
STOPPED = "I stop here."


@dataclass(frozen=True)
class Call:
    """A tool call with its result; None: the agent answers it, because the tool does not exist."""

    name: str
    args: dict[str, Any]
    result: Any
    status: str = "success"


def c(name: str, result: Any = None, /, **args: Any) -> Call:
    return Call(name, args, result)


def failed(name: str, error: str, /, **args: Any) -> Call:
    return Call(name, args, error, "error")


def none(name: str, /, **args: Any) -> Call:
    """A call of a tool that does not exist."""
    return Call(name, args, None)


@dataclass(frozen=True)
class Said:
    """A turn with a text and calls."""

    text: str
    calls: Sequence[Call]


Turn = Call | Sequence[Call] | Said | str | Exception


@dataclass(frozen=True)
class Loop:
    """A loop: turns before it, turns that are repeated, and the turn at which it can be known."""

    name: str
    repeated: Sequence[Turn]
    mark: int
    before: Sequence[Turn] = ()
    guard: dict[str, Any] = field(default_factory=dict)
    stack: Callable[[], list[Member]] = list
    ends_with_error: bool = False


@dataclass(frozen=True)
class Repetition:
    """Runs of a thread that repeat something for good reason."""

    name: str
    runs: Sequence[Sequence[Turn]]
    guard: dict[str, Any] = field(default_factory=dict)
    stack: Callable[[], list[Member]] = list


class Player(FakeChatModel):
    """Plays turns; without tools it says that it stops."""

    _turns: Iterator[Turn] = PrivateAttr()
    _results: dict[str, Call] = PrivateAttr(default_factory=dict)
    _requests: list[Any] = PrivateAttr(default_factory=list)
    _played: int = PrivateAttr(default=0)

    def play(self, turns: Iterable[Turn]) -> None:
        self._turns = iter(turns)

    @property
    def _llm_type(self) -> str:
        return "player"

    def assert_done(self) -> None:
        assert next(self._turns, None) is None

    def _respond(self, messages: list[BaseMessage], stop: Any, kwargs: Any) -> FakeResponse:
        self._requests.append((list(messages), kwargs))
        if not kwargs.get("tools"):
            assert "tool_choice" not in kwargs
            return FakeResponse(AIMessage(STOPPED))
        self._played += 1
        turn = next(self._turns)
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, str):
            return FakeResponse(AIMessage(turn))
        said = (
            turn if isinstance(turn, Said) else Said("", [turn] if isinstance(turn, Call) else turn)
        )
        calls = []
        for call in said.calls:
            made = tool_call({"name": call.name, "args": call.args})
            self._results[str(made["id"])] = call
            calls.append(made)
        return FakeResponse(AIMessage(said.text, tool_calls=calls))


class Results(AgentMiddleware[Any, Any]):
    """Gives calls the results that were recorded, and counts what ran."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self.player = player
        self.ran = 0

    def around_tool(self, request: Any) -> Flow[Any]:
        call = self.player._results[request.tool_call["id"]]
        self.ran += 1
        if call.result is None:
            return (yield request)
        fields: Any = {"tool_call_id": request.tool_call["id"], "status": call.status}
        return ToolMessage(call.result, name=call.name, **fields)


def new_tool(name: str) -> BaseTool:
    schema = {"type": "object", "properties": {}}
    return StructuredTool.from_function(
        lambda **_: "", name=name, description=name, args_schema=schema
    )


def calls_of(turns: Iterable[Turn]) -> list[Call]:
    found: list[Call] = []
    for turn in turns:
        if isinstance(turn, Call):
            found.append(turn)
        elif isinstance(turn, Said):
            found += turn.calls
        elif not isinstance(turn, str | Exception):
            found += turn
    return found


class Stage:
    """An agent that plays a recorded run."""

    def __init__(
        self, turns: Sequence[Turn], stack: Sequence[Member], decisions: Any = None
    ) -> None:
        self.player = Player()
        self.results = Results(self.player)
        names = {call.name for call in calls_of(turns) if call.result is not None} | {"other"}
        self.agent: Any = create_agent(
            self.player,
            [new_tool(name) for name in sorted(names)],
            middleware=[*stack, self.results],
            checkpointer=InMemorySaver(),
            decisions=decisions,
            ignore=["AF204"],
        )
        self.config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 400}

    def run(self, call: Callable[..., Any], turns: Iterable[Turn], words: str = "Go") -> list[Any]:
        """Play a run, in which every review is approved, and return the messages."""
        self.player.play(turns)
        result = call(self.agent, {"messages": [("user", words)]}, self.config)
        while "__interrupt__" in result:
            (question,) = result["__interrupt__"]
            decisions = [{"type": "approve"}] * len(question.value["action_requests"])
            result = call(self.agent, Command(resume={"decisions": decisions}), self.config)
        messages: list[Any] = result["messages"]
        return messages

    @property
    def played(self) -> int:
        return self.player._played

    @property
    def requests(self) -> list[Any]:
        return self.player._requests


def play_loop(loop: Loop) -> Iterator[Turn]:
    return chain(loop.before, cycle(loop.repeated))


def insists() -> list[Member]:
    """A hook that refuses every answer, in the same words."""

    @after_model(can_jump_to=["model"])
    def insist(state: Any, runtime: Any) -> Any:
        if not state["messages"][-1].tool_calls:
            return {"jump_to": "model", "messages": [("user", "Not valid. Try again.")]}
        return None

    return [insist]


def sends_back() -> list[Member]:
    """A hook that refuses every answer without a word, as long as it is not the last."""

    @after_model(can_jump_to=["model"])
    def send_back(state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        return {"jump_to": "model"} if not last.tool_calls and last.text != STOPPED else None

    return [send_back]


def gives_tasks() -> list[Member]:
    """A hook that asks for one task after the other."""
    left = ["Classify: win a car", "Classify: win a house", "Classify: win", "Classify: won", "5"]

    @after_model(can_jump_to=["model"])
    def next_task(state: Any, runtime: Any) -> Any:
        if left and not state["messages"][-1].tool_calls:
            return {"jump_to": "model", "messages": [("user", left.pop(0))]}
        return None

    return [next_task]


def forces_calls() -> list[Member]:
    @wrap_model_call
    def force(request: Any) -> Flow[Any]:
        return (yield request.override(tool_choice="any"))

    return [force]


def reviews(*names: str) -> Callable[[], list[Member]]:
    return lambda: [HumanInTheLoopMiddleware(dict.fromkeys(names, True))]


def summarizes() -> list[Member]:
    summarizer = ScriptedChatModel(["So far: a search."] * 99)
    return [SummarizationMiddleware(summarizer, trigger=("messages", 21), keep=("messages", 20))]


SEARCH = c("search", "No results found.", query="acme revenue 2019")
LIST = c("list_files", "a.py\nb.py", path="src/components")
READ = c("read_file", "x = 1", path="src/a.py")
PENDING = c("job_status", '{"status": "pending"}', job="17")
MISSING = "Error: no such file or directory"

LOOPS = [
    Loop("a search without results", [SEARCH], 3),
    Loop(
        "two empty files are read in no order",
        [c("read_file", "(empty)", path=path) for path in "aabab"],
        5,
    ),
    Loop("a file to delete is missing", [failed("delete", MISSING, path="data.txt/")], 3),
    Loop("a tool that does not exist", [none("final_answer", text="42")], 3),
    Loop(
        "a new name for a tool that does not exist",
        [none("web_search", q="acme"), none("google", q="acme"), none("browse", q="acme")],
        3,
    ),
    Loop(
        "other arguments for a tool that does not exist",
        [none("run_python", code=f"print({number})") for number in range(9)],
        3,
    ),
    Loop("search, read, search, read", [SEARCH, READ], 4),
    Loop("list, search, read", [LIST, SEARCH, READ], 6),
    Loop("list, search, read, think", [LIST, SEARCH, READ, c("think", "", thought="Hm.")], 8),
    Loop("the same searches at once", [[SEARCH, LIST]], 3),
    Loop("the same searches at once, in another order", [[SEARCH, LIST], [LIST, SEARCH]], 3),
    Loop("searches at once, then one by one", [[SEARCH, LIST], SEARCH, LIST], 3),
    Loop(
        "arguments in another order",
        [c("mail", "Sent.", to="ann", text="Hi"), c("mail", "Sent.", text="Hi", to="ann")],
        3,
    ),
    Loop(
        "other words, the same call",
        [Said(f"Let me look once more, for the {n}th time.", [SEARCH]) for n in range(9)],
        3,
    ),
    Loop(
        "results in content blocks",
        [c("search", [{"type": "text", "text": "nothing"}], query="acme")],
        3,
    ),
    Loop("a loop after work", [READ], 6, before=[LIST, SEARCH, c("grep", "a.py:1", q="x")]),
    Loop(
        "a loop into which work leads",
        [SEARCH, READ],
        7,
        before=[LIST, SEARCH, c("read_file", "y = 2", path="src/b.py")],
    ),
    Loop("a job that never ends", [PENDING], 6, guard={"polling_tools": {"job_status": 5}}),
    Loop(
        "a job that never ends, with waits",
        [c("sleep", "ok", seconds=5), PENDING],
        8,
        guard={"polling_tools": {"job_status": 6}},
    ),
    Loop(
        "a handoff with another reason each time",
        [c("handoff", "Done.", to="mail", reason=f"reason {number}") for number in range(9)],
        3,
        guard={"ignore_arguments": ["reason"]},
    ),
    Loop(
        "results with the time",
        [c("search", f"[12:00:0{number}] nothing", query="acme") for number in range(9)],
        3,
        guard={"result_key": lambda result: result.text.partition("]")[2]},
    ),
    Loop(
        "another path, the same error",
        [failed("read_file", MISSING, path=f"src/{number}.py") for number in range(9)],
        5,
    ),
    Loop(
        "other queries at once, the same outage",
        [
            [
                failed("search", "503", query=f"a{number}"),
                failed("search", "503", query=f"b{number}"),
            ]
            for number in range(9)
        ],
        5,
    ),
    Loop("a call that is forced", [SEARCH], 3, stack=forces_calls),
    Loop("a call that people approve each time", [SEARCH], 3, stack=reviews("search")),
    Loop(
        "a loop while messages are summarized",
        [SEARCH, LIST],
        12,
        before=[c("read_file", "x", path=str(number)) for number in range(8)],
        stack=summarizes,
    ),
    Loop("an answer that is refused", ["It is 5."], 4, stack=insists, ends_with_error=True),
    Loop("a call and an answer that is sent back", [SEARCH, "Nothing."], 4, stack=sends_back),
]

PROGRESS = [c("job_status", f'{{"done": {number}}}', job="17") for number in range(0, 100, 10)]
DOWN = failed("search", "503 Service Unavailable", query="acme")

REPETITIONS = [
    Repetition("polling with progress", [PROGRESS]),
    Repetition("polling that is pending twice", [[PENDING, PENDING, PROGRESS[9]]]),
    Repetition(
        "polling that is pending often",
        [[*[PENDING] * 10, PROGRESS[9]]],
        {"polling_tools": {"job_status": 10}},
    ),
    Repetition(
        "waiting and polling",
        [[*[c("sleep", "ok", seconds=5), PENDING] * 5, PROGRESS[9]]],
        {"polling_tools": {"job_status": 9}},
    ),
    Repetition(
        "three tools that wait",
        [[*[[PENDING, c("mail_status", "queued"), c("build_status", "running")]] * 6, SEARCH]],
        {"polling_tools": {"job_status": 6}},
    ),
    Repetition("paging", [[c("orders", f"page {number}", page=number) for number in range(9)]]),
    Repetition("a retry that helps", [[DOWN, DOWN, c("search", "found", query="acme")]]),
    Repetition(
        "retries with other errors",
        [[failed("search", f"503, try in {n} s", query="acme") for n in range(6)]],
    ),
    Repetition(
        "reading again after each write",
        [list(chain(*([c("write_file", "ok", path="a", text=str(n)), READ] for n in range(6))))],
    ),
    Repetition("the same call for each message", [[SEARCH]] * 5),
    Repetition("the same message and answer", [["Hello!"]] * 6),
    Repetition("a counter", [[c("increment", str(number)) for number in range(8)]]),
    Repetition(
        "guessing a path", [[*[failed("read_file", MISSING, path=str(n)) for n in range(4)], READ]]
    ),
    Repetition("a wrong name of a tool, twice", [[none("web_search"), none("google"), SEARCH]]),
    Repetition(
        "a wrong name now and then",
        [[none("google"), SEARCH, none("google"), READ, none("google")]],
    ),
    Repetition("the same call many times at once", [[[SEARCH] * 6]]),
    Repetition(
        "a call again next to new ones",
        [[[LIST, c("read_file", "x", path=str(number))] for number in range(6)]],
    ),
    Repetition(
        "looking back between new calls",
        [[SEARCH, *chain(*([c("read_file", "x", path=str(n)), SEARCH] for n in range(6)))]],
    ),
    Repetition("twice", [[SEARCH, SEARCH]]),
    Repetition("a cycle that is left", [[LIST, SEARCH, READ, LIST, SEARCH, c("grep", "a")]]),
    Repetition(
        "keys pressed", [[c("press_key", "ok", key="Down")] * 10], {"ignore_tools": ["press_key"]}
    ),
    Repetition("numbers of other types", [[c("get", "x", id=v) for v in (1, 1.0, True, "1", [1])]]),
    Repetition(
        "arguments that differ inside",
        [[c("query", "[]", where={"age": {">": n}}) for n in range(6)]],
    ),
    Repetition(
        "lists in another order",
        [[c("sort", "ok", by=by) for by in (["a", "b"], ["b", "a"], ["b"])]],
    ),
    Repetition(
        "other spelling", [[c("search", "[]", q=q) for q in ("acme", "Acme", "ACME", "acme ")]]
    ),
    Repetition(
        "an error and a result of one text",
        [[c("get", "x"), failed("get", "x"), failed("get", "x"), c("get", "x")]],
    ),
    Repetition(
        "a cycle of more than four turns",
        [[c("read_file", "x", path=path) for path in "abcde"] * 3],
    ),
    Repetition(
        "blocks that differ", [[c("search", [{"type": "text", "text": str(n)}]) for n in range(6)]]
    ),
    Repetition(
        "the same report on other tasks",
        [[c("researcher", "Nothing.", task=str(n), reason="why") for n in range(6)]],
        {"ignore_arguments": ["reason"]},
    ),
    Repetition("the same answer to other tasks", [["spam"] * 6], stack=gives_tasks),
    Repetition(
        "reviewed calls", [[c("pay", "ok", euros=n) for n in range(4)]], stack=reviews("pay")
    ),
]
