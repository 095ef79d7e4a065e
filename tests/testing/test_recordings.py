"""Answers of a model on a cassette: what is written, what is kept out, and what differs."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from langchain_core.language_models import SimpleChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import SecretStr

from agent_factory import AgentMiddleware, create_agent
from agent_factory.errors import ArgumentError
from agent_factory.middleware import ModelRetryMiddleware
from agent_factory.testing import (
    CassetteError,
    CassetteMismatch,
    ReplayedError,
    Reply,
    ScriptedChatModel,
    areplay_with,
    record,
    replay,
    replay_with,
)
from samples import Ends, add_tool
from tables import each

CALL = [{"name": "add", "args": {"a": 1, "b": 2}}]
ASKED: dict[str, Any] = {"messages": [("user", "1 + 2?")]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a cassette is written: in a folder that is not there yet."""
    return tmp_path / "cassettes" / "sum.jsonl"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def recorded(path: Path, sync_or_async: Any, steps: list[Any] | None = None) -> Any:
    """Record an agent that adds."""
    model = record(ScriptedChatModel(steps or [CALL, Reply("It is 3.", usage=(9, 4))]), path)
    return sync_or_async.invoke(create_agent(model, [add_tool]), ASKED)


def test_a_recording_is_replayed_without_the_metadata_of_its_requests(
    path: Path, sync_or_async: Any
) -> None:
    metadata = {"id": "resp_1", "headers": {"date": "today"}, "model_name": "large"}
    calls: Any = [{**CALL[0], "id": "1"}]
    calling = AIMessage("", tool_calls=calls, response_metadata=metadata)
    first = recorded(path, sync_or_async, [calling, Reply("It is 3.", usage=(9, 4))])
    assert "resp_1" not in path.read_text()
    with replay(path) as model:
        again = sync_or_async.invoke(create_agent(model, [add_tool]), ASKED)
    assert [m.text for m in again["messages"]] == [m.text for m in first["messages"]]
    assert again["messages"][-1].usage_metadata == first["messages"][-1].usage_metadata
    assert again["messages"][1].response_metadata == {"model_name": "large"}


def test_a_stream_is_recorded_and_replayed_and_without_one_in_one_piece(
    path: Path, sync_or_async: Any
) -> None:
    streamed = sync_or_async.stream(record(ScriptedChatModel(["It is 3."]), path), "1 + 2?")
    assert len(streamed) > 3
    played = sync_or_async.stream(replay(path), "1 + 2?")
    assert "".join(chunk.text for chunk in played) == "It is 3."

    class Whole(SimpleChatModel):
        @property
        def _llm_type(self) -> str:
            return "whole"

        def _call(self, *args: Any, **kwargs: Any) -> str:
            return "Hi there."

    model = record(Whole(), path)
    assert "".join(chunk.text for chunk in model.stream("Hi")) == "Hi there."
    assert replay(path).invoke("Hi").text == "Hi there."


def test_a_file_does_not_depend_on_when_it_is_written(tmp_path: Path, sync_or_async: Any) -> None:
    files = [tmp_path / name for name in ("one.jsonl", "two.jsonl")]
    for file in files:
        recorded(file, sync_or_async)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_an_old_file_stays_until_the_first_answer(path: Path) -> None:
    record(ScriptedChatModel(["One."]), path).invoke("Hi")
    before = path.read_text()
    model = record(ScriptedChatModel(["Two."]), path)
    assert path.read_text() == before
    model.invoke("Hi")
    assert [line["answer"]["content"] for line in lines(path)[1:]] == ["Two."]


def test_errors_are_recorded_and_raised_again(path: Path, sync_or_async: Any) -> None:
    class Odd(Exception):
        pass

    model = record(ScriptedChatModel([ConnectionError("down"), Odd("odd")]), path)
    for error in (ConnectionError, Odd):
        with pytest.raises(error):
            sync_or_async.invoke(model, "Hi")
    played = replay(path)
    with pytest.raises(ConnectionError, match="down"):
        sync_or_async.invoke(played, "Hi")
    with pytest.raises(ReplayedError, match="Odd: odd"):
        sync_or_async.invoke(played, "Hi")


def test_an_error_within_a_stream_is_recorded(path: Path, sync_or_async: Any) -> None:
    model = record(ScriptedChatModel([Reply(chunks=["a"], error=OSError("cut"))]), path)
    with pytest.raises(OSError, match="cut"):
        sync_or_async.stream(model, "Hi")
    with pytest.raises(OSError, match="cut"):
        sync_or_async.stream(replay(path), "Hi")


def test_requests_may_come_in_another_order(path: Path) -> None:
    model = record(ScriptedChatModel(["One.", "Two.", "Three."]), path)
    for text in ("1", "2", "2"):
        model.invoke(text)
    played = replay(path)
    assert [played.invoke(text).text for text in ("2", "1", "2")] == ["Two.", "One.", "Three."]


def test_the_profile_of_the_model_is_kept(path: Path) -> None:
    class Named(ScriptedChatModel):
        model_name: str = "gpt-5"

    record(Named(steps=["Hi"], profile={"structured_output": True}), path).invoke("Hi")
    played = replay(path)
    assert (played.model_name, played.profile) == ("gpt-5", {"structured_output": True})


@each("end", ["\u2028", "\u2029", "\u0085", "\x0b\x0c\x1c\x1d\x1e", "\r\n", "\ud83d"])
def test_a_text_with_any_line_break_is_replayed(path: Path, end: str) -> None:
    text = f"One{end}two"
    assert record(ScriptedChatModel([text]), path).invoke(text).text == text
    with replay(path) as model:
        assert model.invoke(text).text == text


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [200, 600, 100_000])
def test_what_is_nested_too_deeply_is_an_error_that_says_so(path: Path, levels: int) -> None:
    """On each version of Python at the same depth."""
    fits = HumanMessage("Hi", additional_kwargs={"data": deep(190)})
    record(ScriptedChatModel(["One."]), path.with_name("fits.jsonl")).invoke([fits])
    assert replay(path.with_name("fits.jsonl")).invoke([fits]).text == "One."
    asked = HumanMessage("Hi", additional_kwargs={"data": deep(levels)})
    with pytest.raises(CassetteError, match=r"sum.jsonl: a request or its answer is nested too"):
        record(ScriptedChatModel(["One."]), path).invoke([asked])
    assert not path.exists()

    record(ScriptedChatModel(["One."]), path).invoke("Hi")
    with pytest.raises(CassetteError, match=r"sum.jsonl: a request is nested too deeply"):
        replay(path).invoke([asked])
    path.write_text(path.read_text().replace('"Hi"', "[" * levels + "]" * levels))
    with pytest.raises(CassetteError, match=r"sum.jsonl:2: is nested too deeply"):
        replay(path)


@each(
    "ask, words",
    [
        (lambda m: m.invoke("Ho"), r"messages\[0\].content: 'Hi' was recorded, 'Ho' is asked now"),
        (lambda m: m.bind_tools([add_tool]).invoke("Hi"), r"tools: nothing was recorded, .*'add'"),
        (lambda m: m.bind(stop=["."]).invoke("Hi"), r"settings: nothing was recorded, .*stop"),
        (lambda m: m.invoke([HumanMessage("Hi"), AIMessage("?")]), r"messages\[1\]: nothing was"),
    ],
)
def test_the_first_request_that_differs_is_described(
    path: Path, ask: Callable[[Any], Any], words: str
) -> None:
    record(ScriptedChatModel(["Hi."]), path).invoke("Hi")
    model = replay(path)
    with pytest.raises(CassetteMismatch, match=f"request 1 differs: {words}"):
        ask(model)
    with pytest.raises(CassetteMismatch, match="request 1 differs"):
        model.assert_done()


def test_a_changed_tool_description_is_a_mismatch(path: Path, sync_or_async: Any) -> None:
    @tool("add")
    def plus(a: int, b: int) -> int:
        """Add, with care."""
        return a + b

    recorded(path, sync_or_async)
    with pytest.raises(CassetteMismatch, match=r"tools.add: '\w{8}' was recorded"):
        sync_or_async.invoke(create_agent(replay(path), [plus]), ASKED)


def test_too_many_and_too_few_requests_and_a_mismatch_that_a_layer_caught_are_reported(
    path: Path,
) -> None:
    record(ScriptedChatModel(["Hi."]), path).invoke("Hi")
    with pytest.raises(CassetteMismatch, match="requested: 1, the next is number 1"), replay(path):
        pass
    model = replay(path)
    model.invoke("Hi")
    with pytest.raises(CassetteMismatch, match="all answers were given"):
        model.invoke("Hi")
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False)
    with pytest.raises(CassetteMismatch, match="'Ho' is asked now"), replay(path) as model:
        create_agent(model, middleware=[retry]).invoke({"messages": ["Ho"]})


class Keyed(ScriptedChatModel):
    key: SecretStr = SecretStr("my-own-key")


def test_keys_are_never_written(path: Path) -> None:
    said = "Use sk-proj-abcdefghijklmnop or Bearer abcdefgh12345 or my-own-key."
    model = record(Keyed(steps=[AIMessage(said, additional_kwargs={"session_token": "t0"})]), path)
    model.bind(api_key="k1", headers={"Authorization": "a1"}, max_tokens=7).invoke("my-own-key?")
    text = path.read_text()
    for secret in ("sk-proj", "abcdefgh12345", "my-own-key", '"k1"', '"a1"', '"t0"'):
        assert secret not in text
    assert '"max_tokens": 7' in text


def test_texts_are_redacted_by_a_function_and_values_by_their_keys(path: Path) -> None:
    def hide(text: str) -> str:
        return text.replace("Ada", "X")

    model = record(ScriptedChatModel([CALL]), path, redact=hide, redact_keys=["^a$"])
    model.invoke("I am Ada")
    assert "Ada" not in path.read_text()
    with pytest.raises(CassetteError, match=r"was redacted by hide.*replay\(path, redact=hide\)"):
        replay(path)
    said = replay(path, redact=hide).invoke("I am Ada")
    assert said.tool_calls[0]["args"] == {"a": "[redacted]", "b": 2}


HEAD = '{"format": "agent_factory.cassette", "version": 1}\n'


@each(
    "content, words",
    [
        (b"", "is not a cassette"),
        (b"{}\n", "is not a cassette"),
        (b"[]\n", ":1: must be a JSON object, got list"),
        (b"hello\n", ":1: is not valid JSON"),
        (b"1" * 5_000, ":1: is not valid JSON: Exceeds the limit"),
        (b"\xff\xfe", "cannot be read"),
        (HEAD.replace("1}", "99}").encode(), "has version 99"),
        ((HEAD + "{}\n").encode(), ":2: lacks a request or its answer"),
    ],
)
def test_a_file_that_is_not_a_cassette_is_refused(
    tmp_path: Path, content: bytes, words: str
) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(content)
    with pytest.raises(CassetteError, match=words):
        replay(file)


def test_a_missing_file_is_named_and_only_a_chat_model_itself_is_recorded(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"Record it again with record\(model, path\)"):
        replay(path)
    with pytest.raises(ArgumentError, match=r"bind tools or settings to what record\(\) returns"):
        record(ScriptedChatModel().bind(stop=["."]), path)  # type: ignore[arg-type]


class Brief(AgentMiddleware):
    def around_model(self, request: Any) -> Any:
        return (yield request.override(system_prompt="Be brief."))


class Idle(AgentMiddleware):
    def before_model(self, state: Any, runtime: Any) -> None: ...


class Shouting(AgentMiddleware):
    def around_tool(self, request: Any) -> Any:
        answer = yield request
        return answer.model_copy(update={"content": f"{answer.content}!"})


class Failing(AgentMiddleware):
    def after_agent(self, state: Any, runtime: Any) -> None:
        raise ValueError("mine")


def build(model: Any, stack: list[Any]) -> Any:
    return create_agent(model, [add_tool], middleware=stack)


@pytest.fixture
def compare(sync_or_async: Any, path: Path) -> Any:
    """Run a recorded agent without middleware again with some."""
    build(record(ScriptedChatModel([CALL, "It is 3."]), path), []).invoke(ASKED)
    both = partial(sync_or_async.call, replay_with, areplay_with, path, build, ASKED)
    return lambda stack, old=(): both(recorded=old, middleware=stack)


@pytest.mark.parametrize("stack", [[], [Idle()]])
def test_a_stack_that_decides_the_same_does_not_differ(compare: Any, stack: list[Any]) -> None:
    assert compare(stack) is None


@each(
    "member, step, node, words",
    [
        (Brief(), 1, "model", "asked something else: .*'1 \\+ 2?' was rec|'Be brief.' is asked"),
        (Ends(), 2, "Ends.after_model", "tools writes messages.* in the recorded run, Ends"),
        (Shouting(), 2, "tools", r"content: '3' in the recorded run, '3!' in this one"),
        (Failing(), 4, "Failing.after_agent", "the run ends in the recorded run, .*ValueError"),
    ],
)
def test_the_first_decision_that_differs_is_returned(
    compare: Any, member: Any, step: int, node: str, words: str
) -> None:
    found = compare([member])
    assert (found.step, found.node) == (step, node)
    assert re.search(words, str(found)), str(found)


def test_a_recorded_stack_with_other_requests_is_a_mismatch(compare: Any) -> None:
    with pytest.raises(CassetteMismatch, match=r"'Be brief\.' is asked now"):
        compare([], (Brief(),))
    with pytest.raises(ValueError, match="mine"):
        compare([], (Failing(),))


ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "w": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
    "c": string.ascii_letters,
    "d": string.digits,
    "h": string.digits + "abcdef",
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
}

FORMS = [
    *("sk-ant-api03-<w:93>AA", "sk-proj-<w:74>T3BlbkFJ<w:74>", "sk-or-v1-<h:64>", "gsk_<a:52>"),
    *("hf_<a:34>", "r8_<a:37>", "xai-<a:80>", "pplx-<a:48>", "fw_<a:24>", "csk-<l:48>"),
    *("nvapi-<w:64>", "tgp_v1_<w:43>", "tvly-dev-<a:32>", "pcsk_<a:5>_<a:63>"),
    *("lsv2_pt_<h:32>_<h:10>", "dapi<h:32>", "AIza<w:35>", "ya29.<w:120>", "1//0<w:60>"),
    *("api_org_<a:34>", "ASIA<u:16>", "rk_live_<a:99>", "authorization: basic <c:24>"),
    *("GOCSPX-<w:28>", "AKIA<u:16>", "aws_secret_access_key = <b:40>", "ABSK<b:128>"),
    "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=<b:86>==;",
    "SharedAccessKeyName=Root;SharedAccessKey=<b:43>=",
    *("https://me.blob.core.windows.net/c?sv=2024-11-04&sr=c&sig=<a:43>%3D", "<a:3>8Q~<w:34>"),
    *("ghp_<a:36>", "github_pat_<a:22>_<a:59>", "glpat-<w:20>", "npm_<a:36>"),
    *("pypi-AgEIcHlwaS5vcmc<w:150>", "dckr_pat_<w:27>", "xoxb-<d:12>-<d:13>-<a:24>"),
    *("xapp-1-A<u:10>-<d:13>-<h:64>", "https://hooks.slack.com/services/T<u:10>/B<u:10>/<a:24>"),
    *("sk_live_<a:99>", "whsec_<a:32>", "SG.<w:22>.<w:43>", "SK<h:32>", "key-<h:32>"),
    *("<h:32>-us19", "<d:10>:AA<w:33>", "M<a:25>.<w:6>.<w:38>", "pat<a:14>.<h:64>", "ntn_<a:46>"),
    *("lin_api_<a:40>", "shpat_<h:32>", "sq0atp-<w:22>", "dop_v1_<h:64>", "hvs.<w:95>"),
    *("<a:14>.atlasv1.<w:67>", "glsa_<a:32>_<h:8>", "NRAK-<u:27>", "ATATT3xFfGF0<w:180>=<u:8>"),
    *("sbp_<h:40>", "pscale_tkn_<w:43>", "Authorization: Bearer <w:40>"),
    *("Authorization: Basic <b:27>=", "Basic <b:13>4<b:13>=", "eyJ<w:33>.eyJ<w:100>.<w:43>"),
    *("eyJ<w:33>..<w:16>.<w:80>.<w:22>", "postgres://me:<a:20>@db.example.com:5432/app"),
    *("redis://:<a:20>@cache:6379/0", "eyJ<w:33>.eyJ<w:100>."),
    "mongodb+srv://me:<a:10>@<a:10>@cluster.mongodb.net/?w=majority",
    "Driver={x};Server=db;Uid=me;Pwd=<a:20>;",
    "-----BEGIN PRIVATE KEY-----\n<b:64>\n<b:60>\n-----END PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\\n<b:70>\\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n<b:64>\n-----END PGP PRIVATE KEY",
    "-----BEGIN EC PRIVATE KEY-----\n<b:64>\n<b:30>",
]
"""Each form, with `<alphabet:length>` for its random parts. No real key: they are made up here."""


def made_up(form: str) -> tuple[str, list[str]]:
    """A secret of a form, and its random parts."""
    random, parts = Random(form), list[str]()

    def draw(match: re.Match[str]) -> str:
        parts.append("".join(random.choices(ALPHABETS[match[1]], k=int(match[2]))))
        # A hyphen or a slash at an end would not be random: issuers encode whole bytes.
        parts[-1] = re.sub(r"^\W|\W$", "x", parts[-1])
        return parts[-1]

    return re.sub(r"<(\w):(\d+)>", draw, form), [part for part in parts if len(part) > 5]


@each("form", FORMS)
def test_a_secret_of_a_known_form_is_never_written(tmp_path: Path, form: str) -> None:
    secret, parts = made_up(form)
    path = tmp_path / "secrets.jsonl"
    dumped = json.dumps({"text": f"\n{secret}\n"})  # where \n stands right before the secret
    messages = [
        HumanMessage(f"Use {secret}\nfor it, or ({secret!r})."),
        HumanMessage([{"type": "text", "text": dumped}]),
        ToolMessage(f"KEY={secret}", tool_call_id="1"),
    ]
    call = {"x": [secret]}
    steps: list[Any] = [
        AIMessage(f"It was {secret}\n", tool_calls=[{"name": "use", "args": call, "id": "1"}]),
        ConnectionError(f"refused: {secret}"),
    ]
    model = record(ScriptedChatModel(steps), path)
    model.invoke(messages)
    with pytest.raises(ConnectionError):
        model.invoke(f"{secret} {secret}")
    assert [part for part in parts if part in path.read_text()] == []

    with replay(path) as played:
        answer = played.invoke(messages)
        with pytest.raises(ConnectionError, match=r"^refused: .*\[redacted\]"):
            played.invoke(f"{secret} {secret}")
    assert re.match(r"It was .*\[redacted\]", answer.text)
    assert "[redacted]" in answer.tool_calls[0]["args"]["x"][0]


TEXTS = [
    "A basic introduction, in Basic English; Basic understanding suffices.",
    "https://example.com:8080/a@b?sig=none, http://localhost:8000, mailto:ada@example.com",
    "postgres://db.example.com:5432/app",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b at 2026-11-23T10:00:00+00:00",
    "550e8400-e29b-41d4-a716-446655440000, arn:aws:iam::123456789012:role/reader",
    "hf_model_name_or_path_default = fw_update_controller_handler(npm_package_config_value)",
    "task-force-of-the-ministry, risk-averse-decision-making, desk-research-in-the-archive",
    "def login(user, password=None): return connect(user=user, password=password)",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----",
    "eyJ is how a JWT begins. 1//0 is infinity. SG.1 and SK1, AccountKey=yours",
    "the sk- prefix, AKIA, ghp_, xoxb-, Authorization: none, bearer of news",
    "[redacted] and [secret]",
]


def test_other_texts_are_written_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    model = record(ScriptedChatModel(TEXTS), path)
    for text in TEXTS:
        model.invoke(text)
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [line["request"]["messages"][0]["content"] for line in lines] == TEXTS
    assert [line["answer"]["content"] for line in lines] == TEXTS


def test_a_cassette_with_a_secret_is_replayed_though_none_is_written_today(tmp_path: Path) -> None:
    """Versions that knew fewer forms wrote it; a function may write what looks like it."""
    secret, _ = made_up("gsk_<a:52>")
    path = tmp_path / "old.jsonl"
    record(ScriptedChatModel(["Yes."]), path).invoke("Is it SECRET?")
    path.write_text(path.read_text().replace("SECRET", secret))
    assert replay(path).invoke(f"Is it {secret}?").text == "Yes."

    def hide(text: str) -> str:
        return text.replace("Ada", secret)

    record(ScriptedChatModel(["Yes."]), path, redact=hide).invoke("Is it Ada?")
    assert secret not in path.read_text()
    assert replay(path, redact=hide).invoke("Is it Ada?").text == "Yes."
