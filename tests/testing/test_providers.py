"""Fake providers: rules, streams, errors and scripts, by raw requests in the form of each."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import httpx
import pytest

from agent_factory.testing.providers import (
    AnthropicServer,
    OllamaServer,
    OpenAIResponsesServer,
    cut,
    error,
    pause,
    refusal,
    reply,
)
from tables import each
from testing.provider_requests import (
    ACCEPTED,
    CLIENT,
    DROP,
    KINDS,
    REFUSED,
    THOUGHT,
    Edit,
    Json,
    edited,
    post,
    refused_requests,
)

ERRORS = {  # the words of an overflow, and the status of each error, with a part of its code
    "anthropic": "prompt is too long: 401 authen, 404 not_f, 400, 529 overloaded_, 429 rate_l",
    "openai": "context_length_exceeded: 401 api_key, 404 model_n, 400, 503 server_, 429 rate_",
    "responses": "context_length_exceeded: 401 api_key, 404 model_n, 400, 503 server_, 429 rate_",
    "groq": "context_length_exceeded: 401, 404, 400, 503, 429",
    "deepseek": "maximum context length: 401, 400, 400, 503, 429",
    "xai": "maximum prompt length: 401, 404 not found, 400, 503, 429",
    "mistral": "3051: 401, 400 invalid_model, 400 too_long, 503 service_un, 429 rate_limited",
    "gemini": "exceeds the maximum number of tokens: 400, 404 NOT_F, 400, 503 UNAV, 429 RESOURCE",
    "bedrock": "Input is too long: 403 AccessD, 404 ResourceN, 400, 503 ServiceU, 429 Throttling",
    "ollama": "exceeds the context length: 401, 404, 400, 503, 429",
}


@each("kind, rule, edits", list(refused_requests()))
def test_a_request_that_breaks_a_rule_is_refused(kind: str, rule: str, edits: list[Edit]) -> None:
    provider = KINDS[kind]
    with provider.server() as server:
        body = provider.history(server)
        server.add("Done.")
        response = post(server, edited(body, edits), provider.path)
        names = [fault.rule.name for fault in server.faults]
        assert rule in names or not rule, server.faults
        rule = rule or names[0]
        assert server.codes.get(names[0], "") in response.text
        assert "Malformed" not in server.faults[0].message
        assert response.status_code == (400 if server.rules[rule].refused else 200)
        message = json.dumps(server.faults[0].message)[1:-1]
        assert message in response.text or not server.rules[rule].refused
        assert {fault.request for fault in server.faults} == {2}
        assert server.rules[rule].source.startswith("https://")
        if response.status_code == 400:  # the reply is left for a valid request
            assert post(server, body, provider.path).status_code == 200


def test_each_rule_has_a_request_that_breaks_it() -> None:
    classes = {kind: type(provider.server()) for kind, provider in KINDS.items()}
    broken: dict[type, set[str]] = {}
    for kind, cls in classes.items():
        for base in cls.__mro__:
            broken.setdefault(base, set()).update(REFUSED.get(kind, {}))
    missing = {
        cls.__name__: set(cls.rules) - set().union(*(broken[b] for b in cls.__mro__))
        for cls in classes.values()
    }
    # Variants inherit the rules of chat completions, whose requests are OpenAI's.
    assert {name: rules for name, rules in missing.items() if rules} == {}


SHAPES = [replace(THOUGHT, text=t, thinking=h) for t in ("", "Hi.") for h in ("", "Hm.")]
VALID = [*product(KINDS, [[]], SHAPES), *((kind, edits, THOUGHT) for kind, edits in ACCEPTED)]


@each("kind, edits, answer", VALID)
def test_a_valid_request_has_an_answer_and_no_faults(kind: str, edits: Any, answer: Any) -> None:
    provider = KINDS[kind]
    with provider.server() as server:
        body = edited(provider.history(server, answer), edits)
        server.add("Done.")
        post(server, body, provider.path).raise_for_status()
        assert server.faults == []
        assert [len(server.requests), server.requests[1].body] == [2, body]


class Parts(dict[str, str]):
    """Texts of a stream, and last numbers, by the name of their field."""

    def __init__(self, events: list[Json]) -> None:
        super().__init__()
        self.numbers: dict[str, int] = {}
        self.collect(events, "")

    def collect(self, value: Any, name: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                self.collect(item, key)
        elif isinstance(value, list):
            for item in value:
                self.collect(item, name)
        elif isinstance(value, str):
            self[name] = self.get(name, "") + value
        elif isinstance(value, int):
            self.numbers[name] = value


TOKENS = "prompt_tokens completion_tokens total_tokens"
DELTAS = {  # the fields of the thought, of the text, of the arguments and of usage in a stream
    "anthropic": ("thinking", "text", "partial_json", "input_tokens output_tokens"),
    "responses": ("delta", "delta", "delta", "input_tokens output_tokens total_tokens"),
    "gemini": ("text", "text", "city", "promptTokenCount candidatesTokenCount totalTokenCount"),
    "openai": ("", "content", "arguments", TOKENS),
    "groq": ("reasoning", "content", "arguments", TOKENS),
    "deepseek": ("reasoning_content", "content", "arguments", TOKENS),
    "xai": ("reasoning_content", "content", "arguments", TOKENS),
    "mistral": ("text", "content", "arguments", TOKENS),
    "bedrock": ("text", "text", "input", "inputTokens outputTokens totalTokens"),
    "ollama": ("thinking", "content", "city", "prompt_eval_count eval_count"),
}


@each("kind", DELTAS)
def test_the_deltas_of_a_stream_add_up(kind: str) -> None:
    provider = KINDS[kind]
    with provider.server([THOUGHT] * 2) as server:
        body = {**provider.body(None), **(provider.stream or {})}
        response = post(server, body, provider.stream_path or provider.path)
        whole = Parts([post(server, provider.body(None), provider.path).json()])
    thinking, text, arguments, usage = DELTAS[kind]
    parts = Parts(events := provider.events(response.content))
    for numbers in (parts.numbers, whole.numbers):
        assert [numbers[name] for name in usage.split()] == [70, 7, 77][: len(usage.split())]
    named = len(events) if kind in ("anthropic", "responses") else 0
    assert (response.content.count(b"event: "), "call00001" in str(events)) == (named, True)
    assert response.content.endswith(b"data: [DONE]\n\n") == (usage == TOKENS)
    assert parts[thinking].startswith("Bern?") if thinking else "Bern?" not in str(parts)
    assert "I look." in parts[text]
    assert response.headers["content-type"] == server.stream_type
    assert parts[arguments].endswith("Bern" if arguments == "city" else '{"city": "Bern"}')


@each("kind", ERRORS)
def test_an_error_is_answered_once_in_the_form_of_the_provider(kind: str) -> None:
    provider, (overflow, _, expected) = KINDS[kind], ERRORS[kind].partition(": ")
    kinds: Any = ("authentication", "not_found", "overflow", "overloaded")
    script = [*map(error, kinds), error("rate_limit", retry_after=2.5), "Hi."]
    with provider.server(script) as server:
        answers = [post(server, provider.body(None), provider.path) for _ in range(6)]
    assert overflow in answers[2].text
    for answer, values in zip(answers, [*expected.split(", "), "200"], strict=True):
        status, _, code = values.partition(" ")
        assert (str(answer.status_code), code in answer.text) == (status, True)
    assert "{model}" not in answers[1].text
    assert (answers[4].headers["retry-after"], server.faults) == ("2.5", [])


def test_an_error_may_have_another_status_and_body() -> None:
    provider = KINDS["anthropic"]
    with provider.server([error(502, {"error": "bad gateway"}), error(500)]) as server:
        first, second = (post(server, provider.body(None), provider.path) for _ in range(2))
    assert (first.status_code, first.json()) == (502, {"error": "bad gateway"})
    assert second.json()["error"]["type"] == "api_error"


ENDINGS = {  # the field, and its values for a cut answer, a refusal, a call and an answer
    "anthropic": "stop_reason max_tokens refusal tool_use end_turn",
    "openai": "finish_reason length stop tool_calls stop",
    "deepseek": "finish_reason length content_filter tool_calls stop",
    "mistral": "finish_reason length stop tool_calls stop",
    "responses": "status incomplete completed completed completed",
    "gemini": "finishReason MAX_TOKENS SAFETY STOP STOP",
    "bedrock": "stopReason max_tokens content_filtered tool_use end_turn",
    "ollama": "done_reason length stop stop stop",
}


@each("kind", ENDINGS)
def test_an_answer_is_cut_or_refused_in_the_form_of_the_provider(kind: str) -> None:
    provider, (field, *reasons) = KINDS[kind], ENDINGS[kind].split()
    calls = [{"city": "Basel"}, {"country": "CH", "city": "Bern", "days": 1}]
    end = cut(calls=[{"name": "look", "args": args} for args in calls])
    script = [cut("Half", thinking="Bern?"), refusal("No.", thinking="Bern?"), THOUGHT, "Hi.", end]
    with provider.server([*script, *script]) as server:
        whole = [[post(server, provider.body(None), provider.path).json()] for _ in script]
        body = {**provider.body(None), **(provider.stream or {})}
        parts = [post(server, body, provider.stream_path or provider.path) for _ in script]
    streams = [provider.events(response.content) for response in parts]
    for answers in (whole, streams):
        for events, reason in zip(answers, [*reasons, reasons[0]], strict=True):
            last = events[-1:] if field == "status" else events
            assert Parts(last)[field].startswith(reason)
            assert field != "status" or last[0].get("type", reason).endswith(reason)
        assert ("No." in str(answers[1])) == (kind != "gemini")
        assert ("Bern?" in str(answers[1])) == (kind != "openai")
        assert ("ignature" in str(answers[0])) == (kind in ("anthropic", "gemini", "bedrock"))
        assert ("No." in Parts(answers[1]).get("refusal", "")) == (kind in ("openai", "responses"))
        assert ("max_output_tokens" in str(answers[0])) == (kind == "responses")
    assert str(whole[1]).count("No.") < 2
    for key in ("signature", "thoughtSignature"):
        assert [Parts(e).get(key) for e in whole[:3]] == [Parts(e).get(key) for e in streams[:3]]
    assert "Bern" not in str([whole[-1], streams[-1]])
    arguments = Parts(streams[-1])[DELTAS[kind][2]]
    assert arguments.endswith(("BaselBe", '{"city": "Basel"}{"country": "CH", "city": "Be'))


@each("kind", [kind for kind in KINDS if "anthropic" not in kind and kind != "preserving"])
def test_a_pause_is_anthropic_s(kind: str) -> None:
    with pytest.raises(ValueError, match="has no pauses"):
        KINDS[kind].server([pause()])


def test_a_paused_turn_goes_on() -> None:
    provider = KINDS["preserving"]
    with provider.server([pause("I search.", thinking="Where?"), "It rains."]) as server:
        body = provider.body(None)
        answer = post(server, body, provider.path).json()
        assert (answer["stop_reason"], answer["content"][0]["type"]) == ("pause_turn", "thinking")
        turn = {"role": "assistant", "content": answer["content"]}
        post(server, edited(body, [("messages.1", turn)]), provider.path).raise_for_status()
        server.add("Never.")
        over = [("messages.1", turn), ("messages.2", {"role": "user", "content": "Well?"})]
        assert post(server, edited(body, over), provider.path).status_code == 400


def test_thoughts_may_be_taken_out_from_the_first_on_but_not_between_others() -> None:
    provider = KINDS["preserving"]
    with provider.server([THOUGHT]) as server:
        body = edited(provider.body(None), [("tools.1", {"name": "other"})])
        body["messages"] *= 2
        for number in range(3):
            answer = post(server, body, provider.path).json()
            answer["content"][-1]["id"] = f"toolu_{number}"
            history = provider.body(answer)["messages"][1:]
            history[1]["content"][0]["tool_use_id"] = f"toolu_{number}"
            body = {**body, "messages": [*body["messages"], *history]}
            server.add(THOUGHT)
        first, second, result = (f"messages.{n}.content.0" for n in (2, 4, 3))
        joined = {"role": "user", "content": [{"type": "text", "text": "Warm?"}] * 2}
        same = [(f"{result}.is_error", False), (f"{result}.content", "21 degrees")]
        same += [("messages", lambda m: [joined, *m[2:]]), ("tools", lambda tools: tools[::-1])]
        for edits in ([], [(first, ...)], [(first, ...), (second, ...)], same):
            server.add("Done.")
            post(server, edited(body, edits), provider.path).raise_for_status()
        changes = {"thinking": (second, ...), "tools": ("tools.1", ...)}
        for part, edit in {**changes, "messages": (f"{result}.is_error", True)}.items():
            refused = post(server, edited(body, [edit]), provider.path)
            assert f"Changed before the block: {part}" in refused.json()["error"]["message"]


def test_a_provider_drops_thoughts_whose_prefix_has_changed_if_the_request_says_so() -> None:
    provider = KINDS["preserving"]
    beta = {"Anthropic-Beta": "thinking-binding-controls-2026-08-01"}
    with provider.server() as server:
        body = edited(provider.history(server), [("system.0.text", "Short."), ("thinking", DROP)])
        server.add("Done.")
        assert "beta header" in post(server, body, provider.path).text
        answer = post(server, body, provider.path, **beta).json()
    (dropped,) = answer["input_transformations"]
    assert (dropped["type"], dropped["path"]) == ("thinking_dropped", "messages.1.content.0")


@each("kind", ["anthropic", "preserving", "responses", "gemini", "bedrock"])
def test_a_thread_goes_on_with_another_server(kind: str) -> None:
    provider = KINDS[kind]
    with provider.server() as server:
        body = provider.history(server)
    with provider.server(["Done."]) as server:
        post(server, body, provider.path).raise_for_status()
        assert server.faults == []


def test_a_response_continues_a_stored_one() -> None:
    output = {"type": "function_call_output", "call_id": "call00001", "output": "21 degrees"}
    with OpenAIResponsesServer([THOUGHT, "Warm."]) as server:
        first = post(server, {"model": "m", "input": "Warm?"}, "/responses").json()
        assert "encrypted_content" not in str(first)
        body = {"model": "m", "previous_response_id": first["id"]}
        question = {"role": "user", "content": "And?"}
        assert "No tool output" in post(server, {**body, "input": [question]}, "/responses").text
        assert post(server, {**body, "input": [output]}, "/responses").status_code == 200


def test_a_dict_replaces_fields_and_its_thoughts_are_signed() -> None:
    thought = {"type": "redacted_thinking"}
    content = [{"type": "text", "text": "Hi."}, thought, {"type": "text", "text": "Ho."}]
    provider = KINDS["preserving"]
    with provider.server([{"content": content, "stop_reason": "stop_sequence"}, "Bye."]) as server:
        body = provider.body(None)
        answer = post(server, body, provider.path).json()
        assert (answer["stop_reason"], answer["role"]) == ("stop_sequence", "assistant")
        turn = {"role": "assistant", "content": answer["content"]}
        again = [("messages.1", turn), ("messages.2", {"role": "user", "content": "Bye?"})]
        post(server, edited(body, again), provider.path).raise_for_status()


def test_a_server_that_is_not_strict_notes_faults_and_answers() -> None:
    with OllamaServer(["Hi."] * 2, strict=False) as server:
        response = post(server, {"messages": [{"role": "critic"}], "stream": False}, "/api/chat")
        assert post(server, {"messages": []}, "/api/chat").content.count(b"\n") == 2
    assert response.json()["message"]["content"] == "Hi."
    names = " ".join(fault.rule.name for fault in server.faults)
    assert names == "required_fields messages required_fields"
    assert repr(server.faults[0]) == (
        "request 1: model is required [required_fields: https://docs.ollama.com/api/chat]"
    )


def test_a_request_after_the_script_and_one_to_another_path_are_refused() -> None:
    provider = KINDS["anthropic"]
    with AnthropicServer() as server:
        assert "The script has 0 replies" in post(server, provider.body(None), provider.path).text
        assert post(server, {}, "/v1/complete").status_code == 404
        malformed = {**provider.body(None), "messages": ["Hi"]}
        assert "Malformed request" in post(server, malformed, provider.path).text
        assert (len(server.requests), len(server.faults)) == (3, 1)
        raw = CLIENT.post(server.url + provider.path, content=b"{")
        assert "not valid JSON" in raw.text
        assert json.loads(raw.text)["type"] == "error"


def test_a_server_has_a_url_only_while_it_runs() -> None:
    server = AnthropicServer()
    with server:
        url = server.url
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.url
    with pytest.raises(httpx.ConnectError):
        CLIENT.post(url)


@each("call", [{"args": {}}, {"name": "look", "args": "Bern"}, {"name": "look", "arguments": {}}])
def test_a_call_in_another_form_is_refused(call: Any) -> None:
    with pytest.raises(ValueError, match="Expected a call as"):
        reply(calls=[call])
    with pytest.raises(TypeError, match="object is not JSON serializable"):
        reply(calls=[{"name": "look", "args": {"city": object()}}])
