"""`LocalChatModel`: the chat model itself, and its answers as LangChain messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import (
    BaseChatModel,
    LangSmithParams,
    LanguageModelInput,
    ModelProfile,
)
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda, RunnableMap
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, TypeAdapter, field_validator

from agent_factory.local_model import requests
from agent_factory.local_model.engine import Engine, Reply, engine_for
from agent_factory.local_model.messages import read_turn
from agent_factory.local_model.tool_calling import ToolCaller, offered_tools, openai_tools
from agent_factory.local_model.weights import WEIGHTS_FILE

LONGEST_JSON = 512  # tokens of an answer in JSON, unless max_tokens is given for the call

SAMPLING = {
    "frequency_penalty", "max_tokens", "min_p", "presence_penalty", "repeat_penalty", "seed",
    "temperature", "top_k", "top_p",
}  # fmt: skip
# Settings of other models that have no effect here: a turn has one tool call, arguments always fit
# their schema, and stream() streams.
WITHOUT_EFFECT = {"parallel_tool_calls", "strict", "stream", "stream_usage"}
READ_ELSEWHERE = {"tools", "tool_choice", "response_format"}


class LocalChatModel(BaseChatModel):
    """A small chat model inside the process: no key, no network, no server to start.

    Loading takes 0.6 s and 280 MiB of memory; then it reads 180 and writes 75 tokens a second
    (measured on one core of an x86-64 server). At temperature 0 tools and arguments are the same
    in each run on the same kind of processor. In long prose, the contents of the prompt cache may
    decide between two likely words: tests should assert on tools, arguments and copied facts.

    Tools:
        A turn has one tool call at most: after a tool's result the model answers, unless
        `tool_choice` forces a call. Each tool costs 0.2 to 0.4 s in each turn, and half a second
        more in the first. Only required parameters are filled. Their numbers must be in the
        message, in digits, and so must keys (parameters named `id` or `..._id`: a word with a
        digit), addresses (`email`, `..._email`) and strings with a `pattern`; the answer
        asks for what is missing, and the user's reply completes the call. Where `tool_choice`
        forces a call, missing arguments are made up. One or two `examples` for each tool make
        the choice of the tool more reliable.

    Structured output:
        With a `response_format` of type json_schema, or with `with_structured_output`. The answer
        always has the form of the schema, unless `max_tokens` cuts it off. After a tool's result
        its required fields are copied from it; otherwise expect the contents of a very small
        model. With tools and a format, the model answers in JSON instead of asking back.

    Models with the same `model_path`, `n_ctx` and `n_threads` share an engine. Threads may share a
    model: calls run in sequence.

    Raises (in a call):
        ImportError: the engine or the weights are not installed; the message says what to do.
        ValueError: a message, tool or setting that this model can't take, named in the message.
        LocalContextOverflowError: the conversation has more than `n_ctx` tokens.
        LocalModelError: the engine failed.

    >>> model = LocalChatModel(examples={"find_order": ["Where is my order C-12?"]})
    >>> def find_order(order_id: str) -> str:
    ...     "Look up an order."
    >>> answer = model.bind_tools([find_order]).invoke("Where is my order A-1001?")
    >>> answer.tool_calls[0]["name"], answer.tool_calls[0]["args"]
    ('find_order', {'order_id': 'A-1001'})
    """

    model_config = ConfigDict(extra="forbid")

    model_path: Path | None = None
    """A GGUF file of a chat model; without one, the SmolLM2 weights of `find_weights`."""

    n_ctx: Annotated[int, Field(ge=256)] = 4096
    """Size of the context window, in tokens."""

    n_threads: PositiveInt = 1
    """Threads of the engine. More than one pays only where the cores are idle: on two busy cores
    two threads were 15 times slower than one, because they wait for each other at each step."""

    max_tokens: PositiveInt = 128
    """Longest answer in prose, in tokens."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    """Temperature of the prose; tools and their arguments are always the likeliest ones."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """Seed of the sampling at a temperature above 0."""

    grounded: bool = True
    """Whether an answer after a tool's result may only copy from that result."""

    examples: Mapping[str, Sequence[str]] = {}
    """Messages that belong to a tool, by its name."""

    reply_examples: Sequence[str] = ("Hello, how are you?", "Thanks, bye.")
    """Messages that are answered without any tool."""

    @field_validator("model_path")
    @classmethod
    def _is_gguf(cls, path: Path | None) -> Path | None:
        if path is None:
            return None
        if not path.is_file():
            raise ValueError(
                f"model_path={str(path)!r} does not exist. Pass the path of a GGUF file."
            )
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ValueError(f"{str(path)!r} is not a GGUF file: it does not start with GGUF.")
        return path

    def load(self) -> Self:
        """Load engine and weights now rather than in the first call.

        Returns:
            The model itself.

        Raises:
            ImportError: the engine or the weights are not installed.
            LocalModelError: the weights are damaged or can't be loaded.
        """
        self._engine.load()
        return self

    def close(self) -> None:
        """Release the memory. The next call loads again."""
        self._engine.close()

    def get_token_ids(self, text: str) -> list[int]:
        """The text as the ids of the model's own tokens."""
        return self._engine.tokenize(text)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | bool | dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools that it may call.

        Args:
            tools: functions, tools, classes or descriptions of functions.
            tool_choice: "auto" (or None), "none", "any" or "required" (or True), or the name of
                a tool, as a string or in the form of OpenAI or Anthropic.
            **kwargs: settings of each call, such as `response_format` or `max_tokens`.

        Raises:
            ValueError: a tool cannot be used, or `tool_choice` names none of them.
        """
        functions = openai_tools(tools)
        # Raises for an unknown `tool_choice`, before any call.
        offered_tools(functions, tool_choice)
        return self.bind(tools=functions, tool_choice=tool_choice, **kwargs)

    def with_structured_output(
        self,
        schema: dict[str, Any] | type,
        *,
        include_raw: bool = False,
        method: Literal["json_schema", "function_calling"] = "json_schema",
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """The model, answering with values of a schema.

        Args:
            schema: a pydantic model or a dataclass (the value is an instance), a TypedDict or a
                JSON schema with a title (the value is a dict).
            include_raw: return a dict of "raw" (the message), "parsed" and "parsing_error", and
                raise nothing where the answer can't be parsed.
            method: "json_schema" lets the model write; "function_calling" copies numbers and
                words from the user's message and leaves optional fields out.
            strict: has no effect: the answer always fits the schema. Other models take it.
            **kwargs: settings of each call, such as `max_tokens`.

        Raises:
            ValueError: the schema or the method is unknown.
            OutputParserException: in a call, the answer breaks a rule of the schema that no
                grammar can keep (a validator), or was cut off by `max_tokens`.
        """
        if method == "function_calling":
            return super().with_structured_output(schema, include_raw=include_raw)
        if method != "json_schema":
            raise ValueError(f"method must be 'json_schema' or 'function_calling', got {method!r}.")
        try:
            json_schema = convert_to_json_schema(schema)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"schema must be a class or a JSON schema, got {schema!r}: {error} Pass a "
                "pydantic model, a dataclass, a TypedDict or a JSON schema with a title."
            ) from error
        requests.bounded(json_schema)  # refuses an unknown type of JSON Schema
        name = str(json_schema.get("title", "answer"))
        model = self.bind(
            response_format={
                "type": "json_schema",
                "json_schema": {"name": name, "schema": json_schema},
            },
            # Only tracers read this option.
            ls_structured_output_format={"kwargs": {"method": method}, "schema": schema},
            **kwargs,
        )
        parse = Parser(schema)
        if not include_raw:
            return model | RunnableLambda(parse)
        return RunnableMap(raw=model) | RunnableLambda(parse.with_raw)

    @property
    def _llm_type(self) -> str:
        return "local-llama-cpp"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self._name, "n_ctx": self.n_ctx, "seed": self.seed}

    @property
    def _name(self) -> str:
        return self.model_path.name if self.model_path else WEIGHTS_FILE

    @property
    def _engine(self) -> Engine:
        return engine_for(self.model_path, self.n_ctx, self.n_threads)

    def _resolve_model_profile(self) -> ModelProfile:
        return ModelProfile(
            name=self._name,
            open_weights=True,
            max_input_tokens=self.n_ctx,
            max_output_tokens=self.n_ctx,
            text_inputs=True,
            text_outputs=True,
            image_inputs=False,
            audio_inputs=False,
            video_inputs=False,
            pdf_inputs=False,
            reasoning_output=False,
            tool_calling=True,
            tool_choice=True,
            tool_call_streaming=True,
            structured_output=True,
            attachment=False,
            temperature=True,
        )

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop, **kwargs)
        return {**params, "ls_provider": "local", "ls_model_name": self._name}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))

    # BaseChatModel reports each chunk to the run manager.
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        turn = read_turn(messages)
        schema = response_schema(kwargs.get("response_format"))
        grounded_request = requests.grounded_answer(turn, schema) if self.grounded else None
        request = grounded_request or requests.free_answer(messages, turn, schema)
        stops = [stop] if isinstance(stop, str) else list(stop or ())
        settings = {
            "temperature": self.temperature,
            "seed": self.seed,
            "max_tokens": self.max_tokens if schema is None else LONGEST_JSON,
            "stop": [*stops, *request.get("stop", ())],
            **sampling(kwargs),
        }
        caller = ToolCaller(self._engine, self.examples, self.reply_examples, self.seed)
        functions, must_call = offered_tools(kwargs.get("tools"), kwargs.get("tool_choice"))
        about = {"model_name": self._name, "model_provider": "local"}
        decision = None
        # After results, only a forced choice leads to another call.
        if functions and (must_call or not turn.results):
            decision = caller.decide(turn, functions, must_call)
        # With a response_format, an answer without a call must be JSON, not a question in prose.
        if decision is None or (schema is not None and not decision.tool_calls):
            pieces = self._engine.stream({**request, **settings})
            yield from chunks(pieces, caller.usage, about)
        else:
            decision.usage_metadata = caller.usage
            decision.response_metadata = {**about, **decision.response_metadata}
            yield last_chunk(decision)


def response_schema(response_format: object) -> Mapping[str, object] | None:
    """The JSON schema in a `response_format` setting; None for plain text."""
    if response_format is None or response_format == {"type": "text"}:
        return None
    match response_format:
        case {"json_schema": {"schema": Mapping() as schema}}:
            return schema
    raise ValueError(
        f"response_format={response_format!r} is not supported. Pass {{'type': 'json_schema', "
        "'json_schema': {'name': ..., 'schema': {...}}}, or use with_structured_output(schema)."
    )


def sampling(options: Mapping[str, object]) -> dict[str, object]:
    """The settings for the engine; refuse an unknown setting."""
    settings = SAMPLING | WITHOUT_EFFECT | READ_ELSEWHERE
    # LangChain passes options for traces along, whose names begin with ls_.
    for name in options:
        if name not in settings and not name.startswith("ls_"):
            raise ValueError(
                f"LocalChatModel does not know the setting {name!r}. It takes "
                f"{', '.join(sorted(SAMPLING | READ_ELSEWHERE))} and stop."
            )
    return {name: options[name] for name in SAMPLING & options.keys() if options[name] is not None}


def chunks(
    pieces: Iterator[Reply], usage: UsageMetadata, about: Mapping[str, object]
) -> Iterator[ChatGenerationChunk]:
    """The chunks of an answer in prose; together, the text of the whole answer, stripped."""
    pending_text, has_text, finish_reason = "", False, None
    for piece in pieces:
        finish_reason = piece.finish_reason or finish_reason
        usage = add_usage(usage, piece.usage)
        # White space waits until text follows, because the whole answer would be stripped.
        pending_text += piece.text if has_text else piece.text.lstrip()
        if text := pending_text.rstrip():
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))
            pending_text, has_text = pending_text[len(text) :], True
    metadata = {**about, "finish_reason": finish_reason or "stop"}
    yield last_chunk(AIMessage("", usage_metadata=usage, response_metadata=metadata))


def last_chunk(message: AIMessage) -> ChatGenerationChunk:
    """A message as the only chunk of a stream, or as the last."""
    calls = [
        tool_call_chunk(
            name=call["name"],
            args=json.dumps(call["args"], ensure_ascii=False),
            id=call["id"],
            index=at,
        )
        for at, call in enumerate(message.tool_calls)
    ]
    # By the position, LangChain knows that the message is whole, and parses its tool calls.
    return ChatGenerationChunk(
        message=AIMessageChunk(
            content=message.content,
            tool_call_chunks=calls,
            usage_metadata=message.usage_metadata,
            response_metadata=message.response_metadata,
            chunk_position="last",
        )
    )


class Parser:
    """Parses an answer in JSON to a value of a schema."""

    def __init__(self, schema: Any) -> None:
        # Other schemas, such as a TypedDict, describe a dict.
        typed = isinstance(schema, type) and (issubclass(schema, BaseModel) or is_dataclass(schema))
        self._adapter: TypeAdapter[object] = TypeAdapter(schema if typed else dict[str, Any])

    def __call__(self, message: AIMessage) -> Any:
        try:
            return self._adapter.validate_json(message.text)
        except ValueError as error:
            raise OutputParserException(
                f"The local model's answer does not fit the schema: {error}",
                llm_output=message.text,
            ) from error

    def with_raw(self, answer: Mapping[str, Any]) -> dict[str, object]:
        """The message with its value, or with the error."""
        try:
            return {**answer, "parsed": self(answer["raw"]), "parsing_error": None}
        except OutputParserException as error:
            return {**answer, "parsed": None, "parsing_error": error}
