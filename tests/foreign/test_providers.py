"""Middleware of langchain-anthropic and langchain-openai, with models that they accept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_anthropic import ChatAnthropic
from langchain_anthropic.middleware import (
    AnthropicPromptCachingMiddleware,
    ClaudeBashToolMiddleware,
    StateClaudeMemoryMiddleware,
    StateClaudeTextEditorMiddleware,
    StateFileSearchMiddleware,
)
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_openai import AzureChatOpenAI, ChatOpenAI, OpenAIDecisions
from langchain_openai.decisions import ChoiceAnswer, DecisionResponse, PredicateAnswer
from langchain_openai.middleware import (
    ModelChoice,
    OpenAIAutoModeMiddleware,
    OpenAIModelRouterMiddleware,
    OpenAIModerationMiddleware,
)
from langgraph.checkpoint.memory import InMemorySaver
from openai.types import Moderation, ModerationCreateResponse
from openai.types.moderation import Categories, CategoryScores
from pydantic import BaseModel, PrivateAttr

from agent_factory import create_agent, wrap_model_call
from agent_factory.middleware import (
    ModelFallbackMiddleware,
    PromptCachingMiddleware,
    ProviderToolSearchMiddleware,
)
from foreign.stories import Library, RecordingModel, calls, lookup
from samples import add_tool as add


class Played(BaseModel):
    """A provider's chat model without its provider: a script answers."""

    _script: Any = PrivateAttr()

    def played_by(self, script: RecordingModel) -> Any:
        self._script = script
        return self

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        return self._script._generate(*args, **kwargs)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        return await self._script._agenerate(*args, **kwargs)


class Claude(Played, ChatAnthropic):  # type: ignore[misc]  # it may not be installed
    """ChatAnthropic, played by a script."""


def claude(script: RecordingModel) -> Any:
    model = Claude(model="claude-sonnet-4-5", api_key="none", disable_streaming=True)
    return model.played_by(script)


class Gpt(Played, ChatOpenAI):  # type: ignore[misc]  # it may not be installed
    """ChatOpenAI, played by a script."""


def gpt(script: RecordingModel) -> Any:
    return Gpt(model="gpt-5", api_key="none", disable_streaming=True).played_by(script)


class Azure(Played, AzureChatOpenAI):  # type: ignore[misc]  # it may not be installed
    """AzureChatOpenAI, played by a script."""


def azure(script: RecordingModel) -> Any:
    model = Azure(
        model="gpt-5",
        azure_deployment="shop",
        azure_endpoint="https://shop.example.com",
        api_key="none",
        api_version="2025-01-01",
        disable_streaming=True,
    )
    return model.played_by(script)


LOOKUP = calls(("lookup", {"topic": "tea"}))


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_prompts_and_tools_are_marked_for_the_cache(alike: Any, ttl: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        return library.create_agent(
            claude(script(LOOKUP, "Done.")),
            [add, lookup],
            system_prompt="Be brief.",
            middleware=[AnthropicPromptCachingMiddleware(ttl=ttl)],
        )

    messages, tools, settings = alike(build).seen[0][0]
    mark = {"type": "ephemeral", "ttl": ttl}
    assert messages[0]["content"][-1]["cache_control"] == mark
    assert [tool.get("cache_control") for tool in tools] == [None, mark]
    assert settings["cache_control"] == mark


def test_short_conversations_and_other_models_are_not_marked(alike: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        caching = AnthropicPromptCachingMiddleware(
            min_messages_to_cache=3, unsupported_model_behavior="ignore"
        )
        plain = library.create_agent(script("Hi."), middleware=[caching])
        plain.invoke({"messages": "Hi"})
        return library.create_agent(claude(script(LOOKUP, "Done.")), [lookup], middleware=[caching])

    other, (first, second) = alike(build).seen
    assert ["cache_control" in str(request) for request in (*other, first, second)] == [
        False,
        False,
        True,
    ]


EDITOR = "str_replace_based_edit_tool"


def edit(name: str, command: str, path: str, **args: Any) -> tuple[str, dict[str, Any]]:
    return name, {"command": command, "path": path, **args}


def work(name: str, folder: str) -> list[Any]:
    """Calls of a text editor, and of the memory, which has the same commands."""
    path = f"{folder}/notes.txt"
    commands = [
        edit(name, "create", path, file_text="one\ntwo\n"),
        edit(name, "view", path),
        edit(name, "str_replace", path, old_str="two", new_str="2"),
        edit(name, "insert", path, insert_line=1, new_str="between"),
        edit(name, "view", folder),
        edit(name, "view", path, view_range=[1, 2]),
        edit(name, "rename", path, new_path=f"{folder}/renamed.txt"),
        edit(name, "view", f"{folder}/missing.txt"),
    ]
    # Ids differ within the thread: a repeated id is renamed on the way to a provider.
    return [*([call] for call in calls(*commands)), "Done."]


@pytest.mark.parametrize("kind", ["editor", "memory"])
def test_files_in_the_state(alike: Any, kind: str) -> None:
    editor = kind == "editor"
    make = StateClaudeTextEditorMiddleware if editor else StateClaudeMemoryMiddleware
    steps = work(EDITOR if editor else "memory", "/project" if editor else "/memories")

    def build(library: Library, script: Any) -> Any:
        return library.create_agent(
            claude(script(*steps[:-2], "Done.")),
            [lookup],
            middleware=[make()],
            checkpointer=InMemorySaver(),
        )

    story = alike(build)
    files = story.state["text_editor_files" if editor else "memory_files"]
    assert [path.rpartition("/")[2] for path, data in files.items() if data != "None"] == [
        "renamed.txt"
    ]


@pytest.mark.parametrize("name", [EDITOR, "memory"])
def test_a_missing_file_is_reported_or_raised_alike(alike: Any, name: str) -> None:
    make = StateClaudeTextEditorMiddleware if name == EDITOR else StateClaudeMemoryMiddleware

    def build(library: Library, script: Any) -> Any:
        view = calls(edit(name, "view", "/memories/missing.txt"))
        return library.create_agent(claude(script(view, "Done.")), middleware=[make()])

    assert "not found" in str(alike(build).outcomes).lower()


def test_files_of_the_state_are_searched(alike: Any) -> None:
    def build(library: Library, script: Any) -> Any:
        write = calls(edit(EDITOR, "create", "/src/main.py", file_text="import os\n"))
        search = calls(
            ("glob_search", {"pattern": "**/*.py"}),
            ("grep_search", {"pattern": "import", "output_mode": "content"}),
        )
        stack = [StateClaudeTextEditorMiddleware(), StateFileSearchMiddleware()]
        return library.create_agent(claude(script(write, search, "Done.")), middleware=stack)

    assert all("/src/main.py" in result for result in alike(build).results[1:])


# langchain's shell, which the bash tool is made of, leaves the pipes of its process open.
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_all_of_anthropic_with_builtins(alike: Any, tmp_path: Path) -> None:
    def build(library: Library, script: Any) -> Any:
        stack = [
            library.middleware.ModelRetryMiddleware(initial_delay=0),
            StateClaudeTextEditorMiddleware(),
            StateClaudeMemoryMiddleware(),
            StateFileSearchMiddleware(),
            ClaudeBashToolMiddleware(str(tmp_path)),
            AnthropicPromptCachingMiddleware(),
        ]
        write = calls(edit(EDITOR, "create", "/src/main.py", file_text="import os\n"))
        keep = calls(edit("memory", "create", "/memories/a.txt", file_text="tea"))
        run = calls(("bash", {"command": "echo hello"}))
        model = claude(script(ConnectionError("once"), write, keep, run, "Done."))
        return library.create_agent(
            model, [lookup], middleware=stack, system_prompt="Work.", checkpointer=InMemorySaver()
        )

    story = alike(build)
    assert story.state["messages"][-1]["content"] == "Done."


# OpenAI


class Moderations:
    """The moderation endpoint of OpenAI's clients: it flags texts that mention poison."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.moderations = self

    def answer(self, text: str) -> Any:
        self.seen.append(text)
        flagged = "poison" in text
        verdict = Moderation.model_construct(
            flagged=flagged,
            categories=Categories.model_construct(illicit=flagged),
            category_scores=CategoryScores.model_construct(illicit=float(flagged)),
        )
        return ModerationCreateResponse.model_construct(
            id="1", model="omni-moderation-latest", results=[verdict]
        )

    def create(self, *, input: Any, model: str) -> Any:
        return self.answer(input)


class AsyncModerations(Moderations):
    """The same, awaited."""

    async def create(self, *, input: Any, model: str) -> Any:
        return self.answer(input)


@tool
def recipe() -> str:
    """Return a recipe."""
    return "Take some poison."


RECIPE = calls(("recipe", {}))
STAGES: dict[str, Any] = {  # what the user says, and the model if the run goes on, or ends there
    "input": ("Where is poison?", ["Nowhere."], []),
    "output": ("Hi", ["Buy poison."], ["Buy poison."]),
    "tool": ("Hi", [RECIPE, "Done."], [RECIPE]),
    "nothing": ("Hi", [LOOKUP, "Done."], [LOOKUP, "Done."]),
}


@pytest.mark.parametrize("exit_behavior", ["end", "replace", "error"])
@pytest.mark.parametrize("stage", STAGES)
def test_messages_are_moderated(alike: Any, stage: str, exit_behavior: Any) -> None:
    text, going_on, ending = STAGES[stage]
    steps = going_on if exit_behavior == "replace" else ending
    checked: list[list[str]] = []

    def build(library: Library, script: Any) -> Any:
        client, asynchronous = Moderations(), AsyncModerations()
        checked.append(client.seen)
        asynchronous.seen = client.seen
        moderation = OpenAIModerationMiddleware(
            check_tool_results=True,
            exit_behavior=exit_behavior,
            client=client,
            async_client=asynchronous,
        )
        return library.create_agent(gpt(script(*steps)), [lookup, recipe], middleware=[moderation])

    story = alike(build, text)
    assert checked[0] == checked[1] == checked[2] != []
    assert ("error" in story.outcomes[0]) == (stage != "nothing" and exit_behavior == "error")


class Decided(OpenAIDecisions):  # type: ignore[misc]  # it may not be installed
    """OpenAI's decisions without OpenAI: one answer for every question."""

    _answer: Any = PrivateAttr()

    def invoke(self, input: Any, config: Any = None, **_: Any) -> Any:
        answers = dict.fromkeys(input["questions"], self._answer)
        return DecisionResponse(model=self.model, answers=answers)

    async def ainvoke(self, input: Any, config: Any = None, **_: Any) -> Any:
        return self.invoke(input)

    def answering(self, answer: Any) -> Any:
        self._answer = answer
        return self


def decided(answer: Any) -> Any:
    return Decided(model="gpt-6-luna", api_key="none").answering(answer)


beta = pytest.mark.filterwarnings("ignore::langchain_core._api.LangChainBetaWarning")


@beta
@pytest.mark.parametrize("risk", [0.1, 0.9])
def test_risky_calls_are_blocked(alike: Any, risk: float) -> None:
    def build(library: Library, script: Any) -> Any:
        decisions = decided(PredicateAnswer(type="predicate", probability=risk))
        guard = OpenAIAutoModeMiddleware(tools=["lookup"], model=decisions)
        turn = calls(("lookup", {"topic": "tea"}), ("add", {"a": 2, "b": 3}))
        return library.create_agent(gpt(script(turn, "Done.")), [lookup, add], middleware=[guard])

    story = alike(build)
    assert (story.results[0] == "All about tea.") == (risk < 0.5)
    assert story.results[1] == "5"


@beta
@pytest.mark.parametrize("route", ["fast", "strong"])
def test_a_model_is_chosen_for_each_run(alike: Any, route: str) -> None:
    def build(library: Library, script: Any) -> Any:
        steps = [LOOKUP, "Done.", "Again."]
        fast, strong = (
            gpt(script(*(steps if name == route else ()))) for name in ("fast", "strong")
        )
        answer = ChoiceAnswer(
            type="choice", choice=route, probabilities={route: 1.0}, confidence=1.0
        )
        router = OpenAIModelRouterMiddleware(
            choices={
                "fast": ModelChoice(model=fast, criteria="Simple tasks."),
                "strong": ModelChoice(model=strong, criteria="Hard tasks."),
            },
            instructions="Choose.",
            model=decided(answer),
        )
        return library.create_agent(
            gpt(script()), [lookup], middleware=[router], checkpointer=InMemorySaver()
        )

    story = alike(build, "Hi", "Again?")
    assert [bool(requests) for requests in story.seen] == [
        route == "fast",
        route == "strong",
        False,
    ]


def test_our_marks_reach_the_payload_of_anthropic() -> None:
    """What the client of the provider would send, of our own middleware."""
    script = RecordingModel(
        steps=[calls(("lookup", {"topic": "tea"}), ("add", {"a": 1, "b": 2})), "Done."]
    )
    model = claude(script)
    caching = PromptCachingMiddleware(ttl="1h", min_tokens=0)
    agent = create_agent(model, [add, lookup], system_prompt="Be brief.", middleware=[caching])
    agent.invoke({"messages": "Hi"})
    messages, tools, _ = script.seen[1]
    payload = model._get_request_payload(messages, tools=tools)
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert [tool.get("cache_control") for tool in payload["tools"]] == [None, mark]
    assert payload["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    first, _, results = payload["messages"]
    assert first["content"] == [{"type": "text", "text": "Hi", "cache_control": mark}]
    assert [block.get("cache_control") for block in results["content"]] == [None, mark]


def test_our_key_reaches_the_payload_of_openai() -> None:
    script = RecordingModel(steps=["Hello."])
    model = gpt(script)
    caching = PromptCachingMiddleware(openai_cache_key=True)
    agent = create_agent(model, middleware=[caching], checkpointer=InMemorySaver())
    agent.invoke({"messages": "Hi"}, {"configurable": {"thread_id": "one"}})
    messages, _, settings = script.seen[0]
    payload = model._get_request_payload(messages, **settings)
    assert len(payload["prompt_cache_key"]) == 32


SETTINGS: Any = {
    "prompt_cache_key": "k",
    "extra_headers": {"X-Session-Affinity": "s", "A": "1"},
    "temperature": 1,
}


@pytest.mark.parametrize(
    ("make_first", "make_other", "sent"),
    [
        (gpt, azure, {**SETTINGS, "extra_headers": {"A": "1"}}),
        (azure, gpt, {**SETTINGS, "extra_headers": {"A": "1"}}),
        (gpt, gpt, {**SETTINGS, "extra_headers": {"A": "1"}}),
        (gpt, claude, {"temperature": 1}),
    ],
)
def test_a_fallback_gets_the_settings_of_its_family(
    make_first: Any, make_other: Any, sent: dict[str, Any]
) -> None:
    @wrap_model_call
    def settings(request: Any) -> Any:
        return (yield request.override(model_settings=SETTINGS))

    first, other = RecordingModel(steps=[ConnectionError("down")]), RecordingModel(steps=["Hi."])
    stack = [settings, ModelFallbackMiddleware(make_other(other))]
    create_agent(make_first(first), middleware=stack).invoke({"messages": "Hi"})
    kwargs = other.requests[0].kwargs
    assert {key: kwargs.get(key) for key in sent} == sent
    assert "prompt_cache_key" not in kwargs or make_other is not claude


@pytest.mark.parametrize("name", ["openai:gpt-5.5", "anthropic:claude-sonnet-4-5"])
def test_the_provider_of_a_configurable_model_is_recognised(name: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    model: Any = init_chat_model("openai:gpt-5.5", configurable_fields="any")
    seen: list[Any] = []

    @wrap_model_call
    def look(request: Any) -> Any:
        seen.append([tool.get("type") for tool in request.tools if isinstance(tool, dict)])
        yield from ()
        return AIMessage("ok")

    agent = create_agent(model, [lookup], middleware=[ProviderToolSearchMiddleware(), look])
    agent.invoke({"messages": "Hi"}, {"configurable": {"model": name}})
    (types,) = seen
    assert types[0].startswith("tool_search_tool" if "claude" in name else "tool_search")
