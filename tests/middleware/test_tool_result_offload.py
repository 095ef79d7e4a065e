"""ToolResultOffloadMiddleware: large results cost little, and come back character for character."""

from __future__ import annotations

import json
import os
from base64 import b64decode
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolRuntime
from langgraph.store.memory import InMemoryStore

from agent_factory import ModelRequest, create_agent, warnings_of, wrap_model_call
from agent_factory import middleware as m
from agent_factory.review.records import MARKS
from agent_factory.testing import ScriptedChatModel
from samples import THREAD, tool_messages
from tables import each

Call = Callable[..., Any]
LARGE = "".join(f"line {number}\n" for number in range(20_000))[:200_000]
PLACES = ["thread", "store", "folder"]


def fetching(content: Any) -> Any:
    def fetch() -> Any:
        """Fetch a document."""
        return content

    return fetch


def recall(id: str, **more: Any) -> list[Any]:
    return [{"name": "recall", "args": {"id": id, **more}}]


FETCH = [{"name": "fetch", "args": {}, "id": "f"}]


def place_of(name: str, folder: Path) -> Any:
    return folder if name == "folder" else name


def agent_of(content: Any, steps: list[Any], *more: Any, **settings: Any) -> tuple[Any, Any]:
    model = ScriptedChatModel([FETCH, *steps])
    stack: list[Any] = [m.ToolResultOffloadMiddleware(**settings), *more]
    stores: Any = {"checkpointer": InMemorySaver(), "store": InMemoryStore()}
    return model, create_agent(model, [fetching(content)], middleware=stack, **stores)


def size_of(message: AnyMessage) -> int:
    return len(json.dumps(message.content, ensure_ascii=False).encode())


def last_result(messages: Any) -> ToolMessage:
    return tool_messages({"messages": messages})[-1]


@each("place", PLACES)
def test_a_large_result_costs_under_two_kilobytes_in_each_later_request(
    call: Call, place: str, tmp_path: Path
) -> None:
    steps = ["It is long.", "Still.", "Yes."]
    model, agent = agent_of(LARGE, steps, place=place_of(place, tmp_path))
    for line in ("Fetch it", "And?", "And now?"):
        result = call(agent, {"messages": [("user", line)]}, THREAD)
    assert len(model.requests) == 4
    shown = [last_result(record.messages) for record in model.requests[1:]]
    assert [size_of(message) < 2000 for message in shown] == [True] * 3
    assert shown[0].text.startswith("line 0\nline 1\n")
    assert "200,000 characters" in shown[0].text
    assert f'recall(id="{shown[0].id}")' in shown[0].text
    # The beginnings are equal, so the provider's cache serves them.
    assert len({message.text for message in shown}) == 1
    assert (size_of(last_result(result["messages"])) < 2000) == (place != "thread")


@each("character", ["x", "é", "漢", "🦉"])
def test_any_script_costs_under_two_kilobytes(call: Call, character: str) -> None:
    model, agent = agent_of(character * 200_000, ["ok"])
    call(agent, {"messages": "Fetch it"}, THREAD)
    shown = last_result(model.requests[1].messages)
    assert size_of(shown) < 2000
    assert shown.text.startswith(character * 250)


@each("place", PLACES)
def test_a_result_comes_back_in_pages(call: Call, place: str, tmp_path: Path) -> None:
    # A page that is too long is cut.
    pages = [recall("f", start=start, length=10**9) for start in range(0, 200_000, 20_000)]
    model, agent = agent_of(LARGE, [*pages, "Read."], place=place_of(place, tmp_path))
    result = call(agent, {"messages": "Fetch it"}, THREAD)
    found = ""
    for message in result["messages"]:
        if isinstance(message, ToolMessage) and message.name == "recall":
            assert message.artifact["start"] == len(found)
            found += message.text[: message.artifact["end"] - message.artifact["start"]]
    assert found == LARGE
    # A page is read as it is, and not offloaded in turn.
    assert "Go on with start=20000" in model.requests[2].messages[-1].text
    assert "Characters" not in last_result(result["messages"]).text


@settings.get_profile("costly")
@example(text="a\ud800b", place="folder", as_blocks=False)  # is not valid Unicode
@given(
    text=st.text(st.characters(exclude_characters="\r"), min_size=3, max_size=60),
    place=st.sampled_from(PLACES),
    as_blocks=st.booleans(),
)
def test_any_text_and_any_blocks_come_back_character_for_character(
    tmp_path_factory: pytest.TempPathFactory, text: str, place: str, as_blocks: bool
) -> None:
    blocks = [{"type": "text", "text": text}, {"type": "data", "value": {"of": [text, None, 1.5]}}]
    content = blocks if as_blocks else text
    folder = tmp_path_factory.mktemp("results")
    steps = [recall("f"), "ok"]
    _, agent = agent_of(content, steps, place=place_of(place, folder), threshold=2, preview=0)
    found = last_result(agent.invoke({"messages": "Fetch it"}, THREAD)["messages"]).text
    assert (json.loads(found) if as_blocks else found) == content


PICTURE = {"type": "image", "base64": "QUJD" * 20_000, "mime_type": "image/png"}


def test_an_image_stays_where_the_model_sees_it(call: Call) -> None:
    for more in ([], [{"type": "text", "text": LARGE}]):
        model, agent = agent_of([*more, PICTURE], ["Nice."])
        call(agent, {"messages": "Fetch it"}, THREAD)
        content: Any = last_result(model.requests[1].messages).content
        assert content[-1] == PICTURE
        assert [len(block["text"]) < 2000 for block in content[:-1]] == [True] * len(more)


def test_a_block_comes_back_as_it_is(call: Call) -> None:
    content = [{"type": "text", "text": "see"}, PICTURE]
    steps = [recall("f", block=1), recall("f", block=2), recall("#1", block=0), "ok"]
    _, agent = agent_of(content, steps)
    _, found, *missing = tool_messages(call(agent, {"messages": "Go"}, THREAD))
    assert found.content == [PICTURE]
    assert "has no block 2: it has 2 blocks" in missing[0].text
    assert "it has 0 blocks" in missing[1].text


def history_of(content: Any, **fields: Any) -> list[Any]:
    """A thread in which the tool has given this result."""
    result = ToolMessage(content, tool_call_id="f", **fields)
    return [HumanMessage("go"), AIMessage("", tool_calls=FETCH), result]


def test_what_json_cannot_hold_or_would_change_stays_in_the_thread(
    call: Call, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 9
    content: Any = [{"image": {"format": "png", "source": {"bytes": data}}}, {"text": LARGE}]
    model = ScriptedChatModel([recall("f", length=20_000), "ok", "ok"])
    agent = create_agent(model, middleware=[m.ToolResultOffloadMiddleware(place=tmp_path)])
    result = call(agent, {"messages": history_of(content)})
    assert result["messages"][2].content == content
    assert "characters. recall(id=" in model.requests[0].messages[2].text
    begin = last_result(result["messages"]).text.partition('"base64": "')[2]
    assert b64decode(begin.partition('"')[0]) == data
    content = [{"type": "text", "text": LARGE, "extras": {1: "a"}}]
    assert call(agent, {"messages": history_of(content)})["messages"][2].content == content
    assert os.listdir(tmp_path) == []


def test_messages_are_listed_with_their_numbers(call: Call) -> None:
    """The calls of a message come back with their arguments."""
    _, agent = agent_of("short", [recall("list"), recall("#3"), recall("#2"), "ok"])
    result = call(agent, {"messages": "Fetch it"}, THREAD)
    listed, third, second = [m.text for m in tool_messages(result)[1:]]
    lines = "#1 User: Fetch it\n#2 Assistant called fetch with {}\n#3 Tool fetch: short\n"
    assert listed.startswith(lines)
    assert third == "short"
    assert json.loads(second)["tool_calls"][0] == result["messages"][1].tool_calls[0]


def test_of_several_results_of_one_call_id_the_newest_comes_back(call: Call) -> None:
    newer = history_of("new", id="r2")[1:]
    history = [*history_of("old", id="r1"), *newer, HumanMessage("and?")]
    model = ScriptedChatModel([recall("f"), recall("r1"), "ok"])
    agent = create_agent(model, middleware=[m.ToolResultOffloadMiddleware()])
    found = [m.text for m in call(agent, {"messages": history})["messages"] if m.type == "tool"]
    assert found == ["old", "new", "new", "old"]


@each(
    "asked, problem",
    [
        (recall("nope"), "there is no message 'nope'"),
        (recall("#0"), "there is no message '#0'"),
        (recall("#999"), "there is no message '#999'"),
        (recall("f", start=200_000), "start is 200000, and the text has 200000 characters"),
        (recall("f", start=-1), "greater than or equal to 0"),
    ],
)
def test_a_wrong_request_gets_an_error_to_read(call: Call, asked: Any, problem: str) -> None:
    _, agent = agent_of(LARGE, [asked, "ok"])
    message = last_result(call(agent, {"messages": "Fetch it"}, THREAD)["messages"])
    assert problem in message.text
    assert message.status == "error"


def lose(agent: Any, folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    for item in agent.store.search(("tool_results",)):
        agent.store.delete(item.namespace, item.key)


def change(agent: Any, folder: Path) -> None:
    for path in folder.iterdir():
        path.write_text('"other"')
    for item in agent.store.search(("tool_results",)):
        agent.store.put(item.namespace, item.key, {"content": '"other"'})


def block(agent: Any, folder: Path) -> None:
    (path,) = folder.iterdir()
    path.unlink()
    path.mkdir()


@each(
    "place, damage, problem",
    [
        ("store", lose, "it is not there any more"),
        ("store", change, "it was changed"),
        ("folder", lose, "it is not there any more"),
        ("folder", change, "it was changed"),
        ("folder", block, "it cannot be read: IsADirectoryError"),
    ],
)
def test_a_result_that_is_lost_gets_an_error_to_read(
    call: Call, place: str, damage: Any, problem: str, tmp_path: Path
) -> None:
    _, agent = agent_of(LARGE, ["ok", recall("f"), "I see."], place=place_of(place, tmp_path))
    call(agent, {"messages": "Fetch it"}, THREAD)
    damage(agent, tmp_path)
    message = last_result(call(agent, {"messages": "And?"}, THREAD)["messages"])
    assert (message.status, "Call the tool again" in message.text) == ("error", True)
    assert problem in message.text


NAMES: list[Any] = ["../secret", "/etc/passwd", ["a"], "A" * 64, f"{'a' * 64}\n"]
FORGED: list[Any] = [
    *(({"key": name}, "its name is not valid") for name in NAMES),
    ({"namespace": ["other"], "key": "../secret"}, "its name is not valid"),
    ({"namespace": "other", "key": "a" * 64}, "it is not there any more"),
    ({"namespace": 7, "key": "a" * 64}, "it cannot be read: TypeError"),
]


@each("forged, problem", FORGED)
def test_a_message_of_the_caller_cannot_name_another_file(
    call: Call, forged: Any, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "secret.json").write_text('"secret"')
    folder = tmp_path / "results"
    folder.mkdir(exist_ok=True)
    forgery = history_of("short", response_metadata={"offloaded": forged})
    history = [*forgery, HumanMessage("?")]
    model = ScriptedChatModel([recall("f"), "ok"])
    offload = m.ToolResultOffloadMiddleware(place=folder)
    agent = create_agent(model, middleware=[offload], store=InMemoryStore())
    message = last_result(call(agent, {"messages": history})["messages"])
    assert (message.status, "secret" in message.text) == ("error", False)
    assert problem in message.text


@each("mark", sorted(MARKS))
def test_a_mark_of_the_caller_that_is_no_mark_is_ignored(call: Call, mark: str) -> None:
    stack: Any = [
        m.ToolResultOffloadMiddleware(threshold=10),
        m.ContextEditingMiddleware(edits=[m.ClearToolUsesEdit(trigger=1, keep=1)]),
        m.ProgressGuardMiddleware(remark_after=1),
    ]
    model = ScriptedChatModel([recall("f"), "ok"])
    forgery = history_of("a long text", response_metadata={mark: "x"})
    result = call(create_agent(model, middleware=stack), {"messages": [*forgery, *forgery]})
    assert last_result(result["messages"]).text == "a long text"


def test_files_have_safe_names_and_a_write_that_fails_leaves_no_file_and_no_change(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, agent = agent_of(LARGE, ["ok"], place=tmp_path)

    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            call(agent, {"messages": "Fetch it"}, THREAD)
    assert list(tmp_path.iterdir()) == []
    assert last_result(agent.get_state(THREAD).values["messages"]).text == LARGE
    assert call(agent, None, THREAD)["messages"][-1].text == "ok"
    (path,) = tmp_path.iterdir()
    assert len(path.stem) == 64
    assert json.loads(path.read_text()) == LARGE
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0


def test_a_store_is_needed_for_the_place_store(call: Call) -> None:
    offload = m.ToolResultOffloadMiddleware(place="store")
    agent = create_agent(ScriptedChatModel(["ok"]), middleware=[offload])
    with pytest.raises(ValueError, match=r"place='store' needs a store.*create_agent"):
        call(agent, {"messages": "Hi"})


def test_threads_do_not_share_what_they_store_and_the_tool_may_have_another_name(
    call: Call,
) -> None:
    steps = [[{"name": "look_back", "args": {"id": "f", "length": 6}}], "ok"]
    place: Any = {"place": "store", "namespace": ("mine", "results")}
    model, agent = agent_of(LARGE, steps, tool_name="look_back", **place)
    result = call(agent, {"messages": "Fetch it"}, THREAD)
    assert 'look_back(id="' in model.requests[1].messages[-1].text
    assert last_result(result["messages"]).text.startswith("line 0")
    (item,) = agent.store.search(("mine",))
    assert item.namespace == ("mine", "results", "1")


@wrap_model_call
def shows(request: ModelRequest[Any]) -> Any:
    """Show the model something else than what the thread holds."""
    other = {"content": "x" * 30_000}
    shown = [m.model_copy(update=other) if m.type == "tool" else m for m in request.messages]
    return (yield request.override(messages=shown))


def test_what_another_layer_shows_does_not_replace_the_result(call: Call, tmp_path: Path) -> None:
    offload = m.ToolResultOffloadMiddleware(place=tmp_path)
    model = ScriptedChatModel([FETCH, "ok"])
    agent = create_agent(model, [fetching(LARGE)], middleware=[shows, offload])
    result = call(agent, {"messages": "Fetch it"})
    assert last_result(model.requests[1].messages).text.startswith("xxx")
    assert last_result(result["messages"]).text == LARGE


def test_what_is_stored_is_redacted_before(call: Call, tmp_path: Path) -> None:
    text = "ada@example.com " * 3_000
    model = ScriptedChatModel([FETCH, recall("f"), "ok"])
    guard: Any = m.PIIMiddleware("email", apply_to_tool_results=True)
    stack = [guard, m.ToolResultOffloadMiddleware(place=tmp_path)]
    agent = create_agent(model, [fetching(text)], middleware=stack)
    result = call(agent, {"messages": "Fetch it"})
    (path,) = tmp_path.iterdir()
    assert "ada@" not in path.read_text() + str(result["messages"])


def test_placeholders_say_how_to_recall_only_if_the_tool_is_offered(call: Call) -> None:
    steps = [[{"name": "fetch", "args": {}, "id": id_}] for id_ in "abc"]
    edits = m.ContextEditingMiddleware(edits=[m.ClearToolUsesEdit(trigger=100, keep=1)])
    shown = []
    stacks: list[list[Any]] = [[edits], [m.ToolResultOffloadMiddleware(), edits]]
    for stack in stacks:
        model = ScriptedChatModel([*steps, "ok"])
        agent = create_agent(model, [fetching("long " * 100)], middleware=stack)
        result = call(agent, {"messages": "Go"})
        id_ = result["messages"][2].id
        shown.append(model.requests[-1].messages[2].text)
        assert result["messages"][2].text == "long " * 100
    assert shown == ["[cleared]", f'[cleared] recall(id="{id_}") returns it.']


def test_what_was_cleared_and_offloaded_comes_back(call: Call, tmp_path: Path) -> None:
    edits = m.ContextEditingMiddleware(edits=[m.ClearToolUsesEdit(trigger=50, keep=0)])
    model, agent = agent_of(LARGE, ["a", recall("f", length=5), "b"], edits, place=tmp_path)
    call(agent, {"messages": "Fetch it"}, THREAD)
    result = call(agent, {"messages": "And?"}, THREAD)
    assert last_result(model.requests[2].messages).text.startswith("[cleared]")
    assert last_result(result["messages"]).text.startswith("line \n[Characters 0 to 5 of 200,000")


def test_the_decision_log_says_what_was_offloaded(call: Call) -> None:
    lines: list[str] = []
    model, stack = ScriptedChatModel([FETCH, "ok"]), [m.ToolResultOffloadMiddleware()]
    log = lambda decision: lines.append(str(decision))  # noqa: E731
    agent = create_agent(model, [fetching(LARGE)], middleware=stack, decisions=log)
    call(agent, {"messages": "Fetch it"})
    name = "ToolResultOffloadMiddleware.around_model"
    assert [line for line in lines if line.startswith(name)] == [
        f"{name} passed",
        f"{name} changed request: messages [offloaded 1 tool result, 200,000 characters]",
    ]


@each("window, shortened", [(5_000, 5), (10_500, 2), (None, 0)])
def test_small_results_that_exceed_the_window_together_are_shortened(
    call: Call, window: Any, shortened: int
) -> None:
    calls: Any = [{"name": "fetch", "args": {}, "id": f"f{number}"} for number in range(6)]
    model = ScriptedChatModel([calls, "ok", "ok"], profile=window and {"max_input_tokens": window})
    stack, saver = [m.ToolResultOffloadMiddleware()], InMemorySaver()
    agent = create_agent(model, [fetching("x" * 9_000)], middleware=stack, checkpointer=saver)
    for text in ("Fetch", "And?"):
        call(agent, {"messages": text}, THREAD)
    for record in model.requests[1:]:
        sizes = [len(message.text) for message in tool_messages({"messages": record.messages})]
        assert (len(sizes), sum(size < 9_000 for size in sizes)) == (6, shortened)


def test_below_the_threshold_nothing_changes(call: Call) -> None:
    for threshold, size in ((100, 100), (None, 200_000)):
        model, agent = agent_of("x" * size, ["ok"], threshold=threshold)
        call(agent, {"messages": "Fetch it"}, THREAD)
        assert last_result(model.requests[1].messages).text == "x" * size


@each(
    "other", [m.ContextEditingMiddleware, partial(m.SummarizationMiddleware, ScriptedChatModel())]
)
def test_it_belongs_outside_of_what_works_with_the_short_form(other: Any) -> None:
    """What removes messages that could be recalled is reported, too."""

    def codes(*stack: Any) -> list[str]:
        agent = create_agent(ScriptedChatModel(), middleware=stack)
        return [warning.code for warning in warnings_of(agent)]

    offload = m.ToolResultOffloadMiddleware()
    assert codes(offload, other()) == []
    assert codes(other(), offload) == ["AF204"]
    assert codes(offload, other(keep_thread=False)) == ["AF208"]


def test_the_tool_can_be_called_by_a_test() -> None:
    tool: Any = m.ToolResultOffloadMiddleware().tools[0]
    state = {"messages": [HumanMessage("hello", id="h")]}
    runtime: Any = ToolRuntime(
        state=state, context=None, config={}, stream_writer=print, tool_call_id="1", store=None
    )
    assert tool.func(runtime=runtime, id="h")[0] == "hello"
