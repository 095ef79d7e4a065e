"""Middleware of deepagents in plain agents, alone and next to built-in middleware."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deepagents import FilesystemMiddleware, MemoryMiddleware, SubAgentMiddleware
from deepagents.backends import FilesystemBackend, StateBackend
from deepagents.backends.utils import create_file_data
from deepagents.middleware import SkillsMiddleware, SummarizationMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from foreign.stories import Library, calls, lookup

NOTES = "/notes.txt"
WRITE = calls(("write_file", {"file_path": NOTES, "content": "Mail ada@example.com."}))
READ = calls(("read_file", {"file_path": NOTES}))


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


def test_files(alike: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        look = calls(("ls", {"path": "/"}), ("grep", {"pattern": "Mail"}))
        model = script(WRITE, READ, look, "Done.")
        return library.create_agent(
            model, [lookup], middleware=[files()], checkpointer=InMemorySaver()
        )

    story = alike(build, "Write.")
    assert NOTES in story.state["files"]


def test_files_of_some_tools_with_own_descriptions_and_prompt(alike: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        middleware = FilesystemMiddleware(
            tools=["read_file", "write_file"],
            custom_tool_descriptions={"write_file": "Write it down."},
            system_prompt="You have files.",
        )
        return library.create_agent(
            script(WRITE, "Done."), system_prompt="Be brief.", middleware=[middleware]
        )

    messages, tools, _ = alike(build).seen[0][0]
    assert "You have files." in str(messages[0])
    assert "Write it down." in str(tools)


def test_subagents(alike: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        helper = {
            "name": "helper",
            "description": "Looks things up.",
            "system_prompt": "You look things up.",
            "model": script(calls(("lookup", {"topic": "tea"})), "A drink."),
            "tools": [lookup],
        }
        middleware = SubAgentMiddleware(backend=StateBackend(), subagents=[helper])
        task = {"description": "What is tea?", "subagent_type": "helper"}
        return library.create_agent(
            script(calls(("task", task)), "Done."),
            middleware=[middleware],
            checkpointer=InMemorySaver(),
        )

    assert alike(build).results == ["A drink."]


def test_memory(alike: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        memory = MemoryMiddleware(backend=StateBackend(), sources=["/AGENTS.md"])
        return library.create_agent(
            script("Tea.", "Tea, still."),
            middleware=[files(), memory],
            checkpointer=InMemorySaver(),
        )

    given = {"messages": "What do I like?", "files": {"/AGENTS.md": create_file_data("Likes tea.")}}
    story = alike(build, given, "And now?")
    assert all("Likes tea." in str(messages) for messages, _, _ in story.seen[0])


def test_skills(alike: Any, tmp_path: Path) -> None:
    def build(library: Library, script: Any) -> Any:
        folder = tmp_path / "skills" / "brewing"
        folder.mkdir(parents=True, exist_ok=True)
        text = "---\nname: brewing\ndescription: How to brew tea.\n---\n\nBoil water.\n"
        (folder / "SKILL.md").write_text(text)
        backend = FilesystemBackend(tmp_path, virtual_mode=True)
        read = calls(("read_file", {"file_path": "/skills/brewing/SKILL.md", "limit": 1000}))
        stack = [
            FilesystemMiddleware(backend=backend),
            SkillsMiddleware(backend=backend, sources=["/skills/"]),
        ]
        return library.create_agent(script(read, "Boil it."), middleware=stack)

    story = alike(build)
    assert "How to brew tea." in str(story.seen)
    assert "Boil water." in story.results[0]


def test_summaries(alike: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        summarizer = script("SUMMARY")
        middleware = SummarizationMiddleware(
            summarizer, backend=StateBackend(), trigger=("messages", 4), keep=("messages", 2)
        )
        return library.create_agent(
            script("One.", "Two.", "Three."),
            middleware=[files(), middleware],
            checkpointer=InMemorySaver(),
        )

    # The tokens of a model that a layer calls are not streamed here.
    story = alike(build, "First", "Second", "Third", stream=False)
    assert "SUMMARY" in str(story.seen[1][-1])


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
        model = script(WRITE, READ, calls(call), WRITE, "Done.")
        return library.create_agent(
            model, [lookup, Flaky().tool()], middleware=stack, checkpointer=InMemorySaver()
        )

    approve: Any = Command(resume={"decisions": [{"type": "approve"}]})
    more = [approve, approve] if builtin is review else []
    # Our built-ins use other words and keys, and ContextEditing clears results in the thread too.
    story = alike(build, "Write to ada@example.com.", *more, parts=["course"])
    assert NOTES in story.state["files"]
    assert len(story.results) == 4


def test_all_together(alike: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        helper = {
            "name": "helper",
            "description": "Looks things up.",
            "system_prompt": "You look things up.",
            "model": script(calls(("lookup", {"topic": "tea"})), "A drink."),
            "tools": [lookup],
        }
        stack = [
            BUILTINS["call limit"](library),
            review(library),
            BUILTINS["personal data"](library),
            MemoryMiddleware(backend=StateBackend(), sources=["/AGENTS.md"]),
            files(),
            SubAgentMiddleware(backend=StateBackend(), subagents=[helper]),
            BUILTINS["retries"](library),
            BUILTINS["context editing"](library),
        ]
        task = {"description": "What is tea?", "subagent_type": "helper"}
        model = script(calls(("fetch", {}), ("task", task)), WRITE, READ, "Done.")
        return library.create_agent(
            model, [Flaky().tool()], middleware=stack, checkpointer=InMemorySaver()
        )

    approve: Any = Command(resume={"decisions": [{"type": "approve"}]})
    given = {
        "messages": "Mail ada@example.com.",
        "files": {"/AGENTS.md": create_file_data("Likes tea.")},
    }
    story = alike(build, given, approve, parts=["course"])
    assert "Likes tea." in str(story.seen)
    assert story.outcomes[-1]["messages"][-1]["content"] == "Done."
