"""Effects of tools as records, and their stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import uuid4

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agent_factory import AgentFactoryError, Flow, Invoke, TurnError
from agent_factory.middleware._shared.effects import Recording
from agent_factory.middleware._shared.errors import format_error
from agent_factory.middleware._shared.invocable import Called
from agent_factory.types import providing

_SERIALIZER = JsonPlusSerializer()
_UNDO = "/undo"


class EffectError(TurnError):
    """An effect cannot be recorded. The run ends; once the cause is gone, it can be resumed."""

    code = "AF349"


def dump(value: object) -> bytes:
    """A value as bytes, in the format of checkpoints."""
    # The serializer has special formats for bytes and None, but not for a list with both.
    return _SERIALIZER.dumps_typed([value])[1]


def load(data: bytes) -> Any:
    """The value of the bytes of `dump`."""
    # The format of every list, with any items.
    return _SERIALIZER.loads_typed(("msgpack", data))[0]


@dataclass(frozen=True, slots=True)
class Effect:
    """Record of a tool call with an effect, or of the compensation of an effect.

    A store keeps the fields unchanged. `args` and `result` are read from the fields.

    Args:
        key: Key of the record, and idempotency key of the call: 32 hexadecimal digits. The key of a
            compensation ends with "/undo".
        run: The run of the call.
        tool: The name of the tool.
        args_data: The arguments of the call, serialized.
        attempt: A random name of this attempt to run the tool.
        started_at: Time of the start of the attempt: ISO 8601, UTC.
        result_data: The result, serialized; None while unknown.
    """

    key: str
    run: str
    tool: str
    args_data: bytes
    attempt: str
    started_at: str
    result_data: bytes | None = None

    @classmethod
    def start(cls, key: str, run: str, tool: str, args_data: bytes) -> Effect:
        """A new attempt."""
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(key, run, tool, args_data, uuid4().hex, started_at)

    @property
    def args(self) -> dict[str, Any]:
        """The arguments of the call, without injected arguments."""
        args: dict[str, Any] = load(self.args_data)
        return args

    @property
    def is_done(self) -> bool:
        """True if the result is known."""
        return self.result_data is not None

    @property
    def result(self) -> Any:
        """A ToolMessage, a Command, or a list of both; None while unknown."""
        return None if self.result_data is None else load(self.result_data)

    @property
    def failed(self) -> bool:
        """True if the result is an error of the tool, or of a layer inside."""
        result = self.result
        parts = result if isinstance(result, list) else [result]
        return any(isinstance(part, ToolMessage) and part.status == "error" for part in parts)

    @property
    def undo_key(self) -> str:
        """Key of the record of the compensation."""
        return self.key + _UNDO

    @property
    def is_undo(self) -> bool:
        """True for the record of a compensation."""
        return self.key.endswith(_UNDO)

    def __str__(self) -> str:
        """The call, and the time of the start."""
        args = ", ".join(f"{name}={value!r}" for name, value in self.args.items())
        return f"{self.tool}({args}), started at {self.started_at}"


class EffectStore(Protocol):
    """Store of effects: one record for each key, durable when a method returns.

    In async runs the methods are called in threads. To refuse the start of a tool, `begin` raises:
    an AgentFactoryError passes the built-in layers unchanged, and a BaseException outside of
    Exception passes all layers. Any other exception ends the run as the cause of an EffectError,
    because such a failure is not about the tool.
    """

    def begin(self, effect: Effect) -> Effect | None:
        """Insert a record with a new key, in an atomic step, or return the existing record."""

    def finish(self, effect: Effect, result: bytes) -> None:
        """Store the result, if the record is still of the same attempt."""

    def release(self, effect: Effect) -> None:
        """Delete the record, if still of the same attempt and without a result."""

    def of_run(self, run: str) -> Sequence[Effect]:
        """The records of a run, in the order of insertion."""


@contextmanager
def effects_of_run(store: EffectStore, run: str | None = None) -> Iterator[None]:
    """Record the effects of agents within the block.

    The store applies to each OnceMiddleware without a `store`, also in subagents, and in the
    threads and tasks of LangGraph.

    Args:
        store: The store of the effects.
        run: A name for the run, unique among all threads and the same for a resumed run. Default: a
            new run begins with each input of the thread.

    >>> from agent_factory.middleware import InMemoryEffects
    >>> with effects_of_run(InMemoryEffects(), run="order-17"):
    ...     pass  # agent.invoke(...)
    """
    with providing(effects=Recording(store, run)):
        yield


def check_released(earlier: Effect, attempt: str) -> None:
    """Raise an EffectError if a store still has the record of a released attempt."""
    if earlier.attempt == attempt and not earlier.is_done:
        raise EffectError(
            "the store of effects",
            f"has kept the record of {earlier}, which was released.",
            "Let `release` delete the record if its attempt is the same and it has no result.",
        )


def stored(operation: Callable[..., object], *args: object) -> Flow[Any]:
    """Call a method of a store; a failure of the store is not a failure of the tool."""
    try:
        return (yield Invoke(Called(operation), args))
    # By such an error, a store refuses the start of a tool.
    except AgentFactoryError:
        raise
    except Exception as error:
        raise EffectError(
            "the store of effects",
            f"failed with {format_error(error)}.",
            "Resume the run once the store can be reached.",
        ) from error
