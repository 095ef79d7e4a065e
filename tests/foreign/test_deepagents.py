"""Deep agents and their middleware on langchain's factory and on ours, as they are documented."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from deepagents import (
    CompiledSubAgent,
    DeepAgentState,
    FilesystemMiddleware,
    FilesystemPermission,
    MemoryMiddleware,
    RubricMiddleware,
    SubAgentMiddleware,
    create_deep_agent,
)
from deepagents.backends import FilesystemBackend, StateBackend
from deepagents.backends.utils import create_file_data
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from agent_factory import topology_of
from foreign.stories import Library, RecordingModel, calls, libraries, lookup
from samples import decisions

NOTES = "/notes.txt"
WRITE = calls(("write_file", {"file_path": NOTES, "content": "one\ntwo\nthree"}))
READ = calls(("read_file", {"file_path": NOTES}))


class Place(BaseModel):
    """A place."""

    city: str


def ask(agent: str, text: str) -> tuple[str, dict[str, Any]]:
    """A call of the tool that runs a subagent."""
    return "task", {"description": text, "subagent_type": agent}


def helper(model: Any, **known: Any) -> dict[str, Any]:
    """A subagent as a dict."""
    return {
        "name": "helper",
        "description": "Looks things up.",
        "system_prompt": "You look things up.",
        "model": model,
        "tools": [lookup],
        **known,
    }


def deep(*steps: Any, tools: Any = (), **options: Any) -> Any:
    """A build of a deep agent that keeps its threads, and whose model plays these steps."""

    def build(_: Any, script: Any) -> Any:
        return create_deep_agent(script(*steps), tools, checkpointer=InMemorySaver(), **options)

    return build


def test_a_deep_agent_is_built_by_the_factory_in_its_place() -> None:
    """All tests here rely on it."""
    theirs, ours, _ = libraries()
    with ours.in_place():
        agent = create_deep_agent(RecordingModel(), subagents=[helper(RecordingModel())])
    plan = topology_of(agent)
    assert "FilesystemMiddleware" in [layer.owner for layer in plan.layers]
    assert "task" in [tool.name for tool in plan.tools]
    with theirs.in_place(), pytest.raises(Exception, match="create_agent"):
        topology_of(create_deep_agent(RecordingModel()))


# Files


def test_files_are_written_read_edited_and_searched(alike: Any) -> None:
    steps = [
        WRITE,
        READ,
        calls(("edit_file", {"file_path": NOTES, "old_string": "two", "new_string": "2"})),
        calls(
            ("ls", {"path": "/"}),
            ("glob", {"pattern": "*.txt"}),
            ("grep", {"pattern": "three"}),
            ("read_file", {"file_path": "/missing.txt"}),
        ),
        calls(("write_file", {"file_path": NOTES, "content": "again"})),
        "Done.",
    ]
    story = alike(deep(*steps, system_prompt="Take notes."))
    assert NOTES in story.state["files"]
    assert "three" in story.results[1]
    assert "not found" in story.results[-2]


@tool
def report() -> str:
    """Return a report that is too long for a conversation."""
    return "\n".join(f"line {n} of the report" for n in range(20_000))


def test_large_results_of_tools_go_to_files(alike: Any) -> None:
    path = "/large_tool_results/report_0"
    read = calls(("read_file", {"file_path": path, "limit": 2}))
    story = alike(deep(calls(("report", {})), read, "Done.", tools=[report]))
    assert len(story.results[0]) < 10_000
    assert "line 1 of the report" in story.results[1]
    assert path in story.state["files"]


@pytest.mark.parametrize("mode", ["allow", "deny", "interrupt"])
def test_permissions_decide_on_files(alike: Any, mode: Any) -> None:
    build = deep(WRITE, "Done.", permissions=[FilesystemPermission(["write"], ["/notes*"], mode)])
    story = alike(build, "Write.", *([decisions(APPROVE)] if mode == "interrupt" else []))
    assert (NOTES in story.state.get("files", {})) == (mode != "deny")
    assert ("interrupts" in story.outcomes[0]) == (mode == "interrupt")


# Backends


# Subagents


def test_a_subagent_answers_and_keeps_its_messages_to_itself(alike: Any) -> None:
    def build(_: Any, script: Any) -> Any:
        sub = script(calls(("lookup", {"topic": "tea"})), WRITE, "It is a drink.")
        model = script(calls(ask("helper", "What is tea?")), READ, "A drink.")
        return create_deep_agent(model, subagents=[helper(sub)], checkpointer=InMemorySaver())

    story = alike(build)
    assert story.results[0] == "It is a drink."
    assert "two" in story.results[1]
    assert "All about tea." not in str(story.outcomes)
    assert "All about tea." in str(story.stream)


def test_subagents_run_in_parallel(alike: Any) -> None:
    def build(_: Any, script: Any) -> Any:
        subs = []
        for name in ("tea", "milk", "sugar"):
            write = calls(("write_file", {"file_path": f"/{name}.txt", "content": name}))
            sub = script(calls(("lookup", {"topic": name})), write, f"On {name}.")
            subs.append(helper(sub, name=name))
        tasks = calls(*(ask(sub["name"], "Look it up.") for sub in subs))
        model = script(tasks, "Done.")
        return create_deep_agent(model, subagents=subs, checkpointer=InMemorySaver())

    story = alike(build)
    assert story.results == ["On tea.", "On milk.", "On sugar."]
    assert sorted(story.state["files"]) == ["/milk.txt", "/sugar.txt", "/tea.txt"]


def test_a_subagent_can_be_an_agent_that_was_built_before(alike: Any) -> None:
    def build(library: Any, script: Any) -> Any:
        model = script(calls(("lookup", {"topic": "tea"})), "It is a drink.")
        agent = library.create_agent(model, [lookup])
        return create_deep_agent(
            script(calls(ask("expert", "What is tea?")), "A drink."),
            subagents=[CompiledSubAgent(name="expert", description="Knows.", runnable=agent)],
            checkpointer=InMemorySaver(),
        )

    assert alike(build).results == ["It is a drink."]


def test_a_subagent_has_its_own_middleware(alike: Any) -> None:
    def build(_: Any, script: Any) -> Any:
        sub = script(*[calls(("lookup", {"topic": "tea"}))] * 2)
        middleware = [ModelCallLimitMiddleware(run_limit=2)]
        model = script(calls(ask("helper", "What is tea?")), "No idea.")
        return create_deep_agent(model, subagents=[helper(sub, middleware=middleware)])

    assert "limit" in alike(build).results[0]


@pytest.mark.parametrize("by_tool", [True, False])
def test_the_structured_answer_of_a_subagent_is_its_result(alike: Any, by_tool: bool) -> None:
    def build(_: Any, script: Any) -> Any:
        answer: Any = calls(("Place", {"city": "Delft"})) if by_tool else '{"city": "Delft"}'
        strategy = ToolStrategy(Place) if by_tool else ProviderStrategy(Place)
        sub = helper(script(answer), response_format=strategy)
        model = script(calls(ask("helper", "Where?")), "In Delft.")
        return create_deep_agent(model, subagents=[sub])

    assert '"city":"Delft"' in alike(build).results[0].replace(" ", "")


def test_a_subagent_that_fails_ends_the_run(alike: Any) -> None:
    def build(_: Any, script: Any) -> Any:
        sub = script(ValueError("out of tea"))
        return create_deep_agent(script(calls(ask("helper", "Where?"))), subagents=[helper(sub)])

    (outcome,) = alike(build).outcomes
    assert outcome["error"] == {"error": "ValueError", "text": "out of tea"}


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
@pytest.mark.parametrize("mode", ["isolated", "fork"])
def test_a_subagent_can_see_the_conversation(alike: Any, mode: str) -> None:
    def build(_: Any, script: Any) -> Any:
        sub = helper(script("You like tea."), mode=mode)
        model = script("Noted.", calls(ask("helper", "What do I like?")), "Tea.")
        return create_deep_agent(model, subagents=[sub], checkpointer=InMemorySaver())

    story = alike(build, "I like tea.", "What do I like?")
    assert ("I like tea." in str(story.seen[0])) == (mode == "fork")


# Skills, memory, summaries


READ_SKILL = calls(("read_file", {"file_path": "/skills/brewing/SKILL.md", "limit": 1000}))


def write_skill(folder: Path) -> None:
    """Write the file of a skill below a folder."""
    place = folder / "skills" / "brewing"
    place.mkdir(parents=True, exist_ok=True)
    text = "---\nname: brewing\ndescription: How to brew tea.\n---\n\nBoil water.\n"
    (place / "SKILL.md").write_text(text)


def test_skills_are_listed_in_the_prompt_and_read_on_demand(alike: Any, tmp_path: Path) -> None:
    def build(_: Any, script: Any) -> Any:
        write_skill(tmp_path)
        sub = script("Boil it.")
        return create_deep_agent(
            script(READ_SKILL, calls(ask("helper", "Brew.")), "Boil water."),
            skills=["/skills/"],
            subagents=[helper(sub, skills=["/skills/"])],
            backend=FilesystemBackend(tmp_path, virtual_mode=True),
            checkpointer=InMemorySaver(),
        )

    story = alike(build)
    assert all("How to brew tea." in str(requests[0]) for requests in story.seen)
    assert "Boil water." in story.results[0]


def test_a_long_history_is_summarized_and_kept_in_a_file(alike: Any) -> None:
    def build(_: Any, script: Any) -> Any:
        model = script("One.", "Two.", "SUMMARY", "Three.")
        model.profile = {"max_input_tokens": 40_000}
        return create_deep_agent(model, checkpointer=InMemorySaver())

    # The tokens of a model that a layer calls are not streamed here.
    story = alike(build, "word " * 20_000, "word " * 20_000, "And?", stream=False)
    assert "SUMMARY" in str(story.seen[0][-1])
    assert any("conversation_history" in path for path in story.state["files"])


# Review


APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "message": "Not now."}
EDITED = {"name": "write_file", "args": {"file_path": NOTES, "content": "edited"}}
DECISIONS = {
    "approve": APPROVE,
    "edit": {"type": "edit", "edited_action": EDITED},
    "reject": REJECT,
    "respond": {"type": "respond", "message": "I did it."},
}


@pytest.mark.parametrize("decision", DECISIONS.values(), ids=DECISIONS)
@pytest.mark.parametrize("inside", [False, True], ids=["agent", "subagent"])
def test_calls_are_reviewed(alike: Any, decision: Any, inside: bool) -> None:
    def build(_: Any, script: Any) -> Any:
        known: Any = {"interrupt_on": {"write_file": True}}
        if not inside:
            return create_deep_agent(script(WRITE, "Done."), checkpointer=InMemorySaver(), **known)
        sub = script(WRITE, "Wrote it.")
        return create_deep_agent(
            script(calls(ask("helper", "Write.")), "Done."),
            subagents=[helper(sub, **known)],
            checkpointer=InMemorySaver(),
        )

    story = alike(build, "Write.", decisions(decision))
    (request,) = story.outcomes[0]["interrupts"]
    assert request["action_requests"][0]["name"] == "write_file"
    written = decision["type"] in ("approve", "edit")
    assert (NOTES in story.state.get("files", {})) == written


def test_two_subagents_pause_in_one_turn(alike: Any) -> None:
    def build(_: Any, script: Any) -> Any:
        subs = [
            helper(script(WRITE, f"{name} wrote."), name=name, interrupt_on={"write_file": True})
            for name in ("one", "two")
        ]
        return create_deep_agent(
            script(calls(ask("one", "Write."), ask("two", "Write.")), "Done."),
            subagents=subs,
            checkpointer=InMemorySaver(),
        )

    def answers(agent: Any) -> Any:
        state = agent.get_state({"configurable": {"thread_id": "1"}})
        return Command(resume={one.id: {"decisions": [APPROVE]} for one in state.interrupts})

    # A fused run calls the subagents again before it pauses: tests/runtime/test_fused_runs.py.
    story = alike(build, "Write.", answers, quiet=False)
    assert len(story.outcomes[0]["interrupts"]) == 2
    assert story.results == ["one wrote.", "two wrote."]


# State, context, answers, layers


class Reader(BaseModel):
    name: str


@tool
def who(runtime: ToolRuntime[Reader]) -> str:
    """Say who reads."""
    return runtime.context.name


def test_context_reaches_tools_and_subagents(alike: Any) -> None:
    def build(_: Any, script: Any) -> Any:
        return create_deep_agent(
            script(calls(("who", {}), ask("helper", "Who?")), "Ada."),
            [who],
            subagents=[helper(script(calls(("who", {})), "Ada, too."), tools=[who])],
            context_schema=Reader,
        )

    story = alike(build, context=Reader(name="Ada"))
    assert story.results == ["Ada", "Ada, too."]
    assert "Ada" in str(story.seen[0][1])


BY_TOOL = calls(("Place", {"city": "Delft"}))
FORMATS = {
    "schema": (Place, BY_TOOL),
    "tool": (ToolStrategy(Place), BY_TOOL),
    "provider": (ProviderStrategy(Place), '{"city": "Delft"}'),
}


@pytest.mark.parametrize(("response_format", "answer"), FORMATS.values(), ids=FORMATS)
def test_an_answer_is_structured(alike: Any, response_format: Any, answer: Any) -> None:
    look = calls(("lookup", {"topic": "tea"}))
    build = deep(look, answer, tools=[lookup], response_format=response_format)
    assert alike(build).state["structured_response"] == {"Place": {"city": "Delft"}}


class Counting(DeepAgentState):  # type: ignore[misc]  # deepagents may not be installed
    seen: Annotated[list[str], lambda old, new: [*(old or []), *new]]


@tool
def note(text: str, runtime: ToolRuntime) -> Any:
    """Note something."""
    result = ToolMessage(text, tool_call_id=runtime.tool_call_id)
    return Command(update={"seen": [text], "messages": [result]})


def test_a_schema_adds_keys_to_the_state(alike: Any) -> None:
    notes = calls(("note", {"text": "a"}), ("note", {"text": "b"}))
    build = deep(notes, "Done.", tools=[note], state_schema=Counting)
    story = alike(build, {"messages": [("user", "Go.")], "seen": ["start"]})
    assert story.state["seen"] == ["start", "a", "b"]


def test_a_user_may_write_on_while_a_review_is_open(each: Any) -> None:
    """deepagents does not know whether the call ran; here its result says before: it did not."""
    build = deep(WRITE, "As you like.", interrupt_on={"write_file": True})
    theirs, *ours = each(build, "Write.", "No, wait.")
    assert {str(story.course) for story in ours} <= {str(theirs.course)}
    assert "did not complete" in theirs.results[0]
    assert all("did not run: the user sent a new message" in s.results[0] for s in ours)


@pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")
def test_a_grader_sends_the_agent_back(alike: Any) -> None:
    def verdict(result: str, **criterion: Any) -> Any:
        criteria = [{"name": "three lines", **criterion}]
        args = {"result": result, "explanation": "Lines were counted.", "criteria": criteria}
        return calls(("GraderResponse", args))

    def build(_: Any, script: Any) -> Any:
        grader = script(
            verdict("needs_revision", passed=False, gap="It has two."),
            verdict("satisfied", passed=True),
        )
        rubric = RubricMiddleware(model=grader, max_iterations=3)
        model = script("A haiku.", "A longer haiku.")
        return create_deep_agent(model, middleware=[rubric], checkpointer=InMemorySaver())

    given = {"messages": [("user", "Write.")], "rubric": "- It has three lines."}
    story = alike(build, given, stream=False)
    assert "It has two." in str(story.seen[1][-1])


MAIL = calls(("write_file", {"file_path": NOTES, "content": "Mail ada@example.com."}))


class Flaky:
    """A tool that fails once."""

    def __init__(self) -> None:
        self.failed = False

    def tool(self) -> Any:
        @tool
        def fetch() -> str:
            """Fetch a page."""
            self.failed = not self.failed
            if self.failed:
                raise ConnectionError("try again")
            return "the page"

        return fetch


def files() -> Any:
    return FilesystemMiddleware(backend=StateBackend())


# Its middleware in plain agents, alone and next to built-in middleware


def review(library: Library) -> Any:
    return library.middleware.HumanInTheLoopMiddleware({"write_file": True})


BUILTINS: dict[str, Any] = {
    "review": review,
    "retries": lambda library: library.middleware.ToolRetryMiddleware(initial_delay=0),
    "model retries": lambda library: library.middleware.ModelRetryMiddleware(initial_delay=0),
    "call limit": lambda library: library.middleware.ModelCallLimitMiddleware(run_limit=10),
    "tool call limit": lambda library: library.middleware.ToolCallLimitMiddleware(
        tool_name="write_file", run_limit=1
    ),
    "personal data": lambda library: library.middleware.PIIMiddleware(
        "email", apply_to_tool_results=True
    ),
    "context editing": lambda library: library.middleware.ContextEditingMiddleware(
        edits=[library.middleware.ClearToolUsesEdit(trigger=10, keep=1)]
    ),
}


@pytest.mark.parametrize("first", [True, False], ids=["outside", "inside"])
@pytest.mark.parametrize("builtin", BUILTINS.values(), ids=BUILTINS)
def test_files_next_to_a_builtin(alike: Any, builtin: Any, first: bool) -> None:
    def build(library: Library, script: Any) -> Any:
        stack = [builtin(library), files()] if first else [files(), builtin(library)]
        call: Any = ("lookup", {"topic": "tea"})
        if builtin is BUILTINS["retries"]:
            call = ("fetch", {})
        model = script(MAIL, READ, calls(call), MAIL, "Done.")
        return library.create_agent(
            model, [lookup, Flaky().tool()], middleware=stack, checkpointer=InMemorySaver()
        )

    approve = decisions(APPROVE)
    more = [approve, approve] if builtin is review else []
    # Our built-ins use other words and keys, and ContextEditing clears results in the thread too.
    story = alike(build, "Write to ada@example.com.", *more, parts=["course"])
    assert NOTES in story.state["files"]
    assert len(story.results) == 4


def test_all_together(alike: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        sub = helper(script(calls(("lookup", {"topic": "tea"})), "A drink."))
        stack = [
            BUILTINS["call limit"](library),
            review(library),
            BUILTINS["personal data"](library),
            MemoryMiddleware(backend=StateBackend(), sources=["/AGENTS.md"]),
            files(),
            SubAgentMiddleware(backend=StateBackend(), subagents=[sub]),
            BUILTINS["retries"](library),
            BUILTINS["context editing"](library),
        ]
        task = ask("helper", "What is tea?")
        model = script(calls(("fetch", {}), task), MAIL, READ, "Done.")
        return library.create_agent(
            model, [Flaky().tool()], middleware=stack, checkpointer=InMemorySaver()
        )

    given = {
        "messages": "Mail ada@example.com.",
        "files": {"/AGENTS.md": create_file_data("Likes tea.")},
    }
    story = alike(build, given, decisions(APPROVE), parts=["course"])
    assert "Likes tea." in str(story.seen)
    assert story.outcomes[-1]["messages"][-1]["content"] == "Done."
