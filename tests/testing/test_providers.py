"""Fake providers: rules, streams, errors and scripts, by raw requests in the form of each."""

from __future__ import annotations

import json
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

ERRORS = {
    "anthropic": ("prompt is too long", "529"),
    "openai": ("context_length_exceeded", "503"),
    "responses": ("context_length_exceeded", "503"),
    "groq": ("context_length_exceeded", "503"),
    "deepseek": ("maximum context length", "503"),
    "xai": ("maximum prompt length", "503"),
    "mistral": ("3051", "503"),
    "gemini": ("exceeds the maximum number of tokens", "503"),
    "bedrock": ("Input is too long", "503"),
    "ollama": ("exceeds the context length", "503"),
}


@each("kind, rule, edits", list(refused_requests()))
def test_a_request_that_breaks_a_rule_is_refused(kind: str, rule: str, edits: list[Edit]) -> None:
    provider = KINDS[kind]
    with provider.server() as server:
        body = provider.history(server)
        server.add("Done.")
        response = post(server, edited(body, edits), provider.path)
        names = [fault.rule.name for fault in server.faults]
        assert rule in names, server.faults
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


@each("kind, edits", [*((kind, []) for kind in KINDS), *ACCEPTED])
def test_a_valid_request_has_an_answer_and_no_faults(kind: str, edits: list[Edit]) -> None:
    provider = KINDS[kind]
    with provider.server() as server:
        body = edited(provider.history(server), edits)
        server.add("Done.")
        post(server, body, provider.path).raise_for_status()
        assert server.faults == []
        assert [len(server.requests), server.requests[1].body] == [2, body]


class Parts(dict[str, str]):
    """Texts of a stream by the name of their field."""

    def __init__(self, events: list[Json]) -> None:
        super().__init__()
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


DELTAS = {  # the fields of the thought, of the text and of the arguments in a stream
    "anthropic": ("thinking", "text", "partial_json"),
    "responses": ("delta", "delta", "delta"),
    "gemini": ("text", "text", "city"),
    "openai": ("", "content", "arguments"),
    "groq": ("reasoning", "content", "arguments"),
    "deepseek": ("reasoning_content", "content", "arguments"),
    "xai": ("reasoning_content", "content", "arguments"),
    "mistral": ("text", "content", "arguments"),
    "bedrock": ("text", "text", "input"),
    "ollama": ("thinking", "content", "city"),
}


@each("kind", DELTAS)
def test_the_deltas_of_a_stream_add_up(kind: str) -> None:
    provider = KINDS[kind]
    with provider.server([THOUGHT]) as server:
        body = {**provider.body(None), **(provider.stream or {})}
        response = post(server, body, provider.stream_path or provider.path)
    thinking, text, arguments = DELTAS[kind]
    parts = Parts(provider.events(response.content))
    assert parts[thinking].startswith("Bern?") if thinking else "Bern?" not in str(parts)
    assert "I look." in parts[text]
    assert response.headers["content-type"] == server.stream_type
    assert parts[arguments].endswith("Bern" if arguments == "city" else '{"city": "Bern"}')


@each("kind", ERRORS)
def test_an_error_is_answered_once_in_the_form_of_the_provider(kind: str) -> None:
    provider, (overflow, overloaded) = KINDS[kind], ERRORS[kind]
    kinds: Any = ["authentication", "not_found", "overflow", "overloaded"]
    with provider.server([*map(error, kinds), error("rate_limit", retry_after=2), "Hi."]) as server:
        answers = [post(server, provider.body(None), provider.path) for _ in range(6)]
    assert overflow in answers[2].text
    assert str(answers[3].status_code) == overloaded
    assert (answers[4].status_code, answers[4].headers["retry-after"]) == (429, "2")
    assert (answers[5].status_code, server.faults) == (200, [])


def test_an_error_may_have_another_status_and_body() -> None:
    provider = KINDS["anthropic"]
    with provider.server([error(502, {"error": "bad gateway"}), error(500)]) as server:
        first, second = (post(server, provider.body(None), provider.path) for _ in range(2))
    assert (first.status_code, first.json()) == (502, {"error": "bad gateway"})
    assert second.json()["error"]["type"] == "api_error"


ENDINGS = {  # a cut answer, and a refusal
    "anthropic": ("max_tokens", "refusal"),
    "openai": ("length", "refusal"),
    "deepseek": ("length", "content_filter"),
    "mistral": ("length", "stop"),
    "responses": ("max_output_tokens", "refusal"),
    "gemini": ("MAX_TOKENS", "SAFETY"),
    "bedrock": ("max_tokens", "content_filtered"),
    "ollama": ("length", "stop"),
}


@each("kind", ENDINGS)
def test_an_answer_is_cut_or_refused_in_the_form_of_the_provider(kind: str) -> None:
    provider = KINDS[kind]
    script = [cut("Half"), refusal("No."), cut(calls=[{"name": "look", "args": {"city": "Bern"}}])]
    with provider.server(script) as server:
        half, no = (post(server, provider.body(None), provider.path).text for _ in range(2))
        body = {**provider.body(None), **(provider.stream or {})}
        call = post(server, body, provider.stream_path or provider.path).content
    assert [word in text for word, text in zip(ENDINGS[kind], (half, no), strict=True)] == [
        True,
        True,
    ]
    assert "Bern" not in str(provider.events(call))


@each("kind", [kind for kind in KINDS if "anthropic" not in kind and kind != "preserving"])
def test_a_pause_is_anthropic_s(kind: str) -> None:
    with pytest.raises(ValueError, match="has no pauses"):
        KINDS[kind].server([pause()])


def test_a_paused_turn_goes_on() -> None:
    provider = KINDS["preserving"]
    with provider.server([pause("I search.", thinking="Where?"), "It rains."]) as server:
        body = provider.body(None)
        answer = post(server, body, provider.path).json()
        assert answer["stop_reason"] == "pause_turn"
        turn = {"role": "assistant", "content": answer["content"]}
        post(server, edited(body, [("messages.1", turn)]), provider.path).raise_for_status()
        server.add("Never.")
        over = [("messages.1", turn), ("messages.2", {"role": "user", "content": "Well?"})]
        assert post(server, edited(body, over), provider.path).status_code == 400


def test_thoughts_may_be_taken_out_from_the_first_on_but_not_between_others() -> None:
    provider = KINDS["preserving"]
    with provider.server([THOUGHT]) as server:
        body = provider.body(None)
        for number in range(3):
            answer = post(server, body, provider.path).json()
            answer["content"][-1]["id"] = f"toolu_{number}"
            history = provider.body(answer)["messages"][1:]
            history[1]["content"][0]["tool_use_id"] = f"toolu_{number}"
            body = {**body, "messages": [*body["messages"], *history]}
            server.add(THOUGHT)
        first, second = "messages.1.content.0", "messages.3.content.0"
        for edits in ([], [(first, ...)], [(first, ...), (second, ...)]):
            server.add("Done.")
            post(server, edited(body, edits), provider.path).raise_for_status()
        refused = post(server, edited(body, [(second, ...)]), provider.path)
        assert "Changed before the block: thinking" in refused.json()["error"]["message"]


def test_a_provider_drops_thoughts_whose_prefix_has_changed_if_the_request_says_so() -> None:
    provider = KINDS["preserving"]
    beta = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
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
        body = {"model": "m", "previous_response_id": first["id"]}
        question = {"role": "user", "content": "And?"}
        assert "No tool output" in post(server, {**body, "input": [question]}, "/responses").text
        assert post(server, {**body, "input": [output]}, "/responses").status_code == 200


def test_a_dict_replaces_fields_and_its_thoughts_are_signed() -> None:
    thought = {"type": "redacted_thinking"}
    content = [thought, {"type": "text", "text": "Hi."}]
    provider = KINDS["preserving"]
    with provider.server([{"content": content, "stop_reason": "stop_sequence"}, "Bye."]) as server:
        body = provider.body(None)
        answer = post(server, body, provider.path).json()
        assert (answer["stop_reason"], answer["role"]) == ("stop_sequence", "assistant")
        turn = {"role": "assistant", "content": answer["content"]}
        again = [("messages.1", turn), ("messages.2", {"role": "user", "content": "Bye?"})]
        post(server, edited(body, again), provider.path).raise_for_status()


def test_a_server_that_is_not_strict_notes_faults_and_answers() -> None:
    with OllamaServer(["Hi."], strict=False) as server:
        response = post(server, {"messages": [{"role": "critic"}], "stream": False}, "/api/chat")
    assert response.json()["message"]["content"] == "Hi."
    assert [fault.rule.name for fault in server.faults] == ["required_fields", "messages"]
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
