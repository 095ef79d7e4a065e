"""Undo the effects of a run which was cancelled or rejected half-way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langgraph.types import StateSnapshot

from agent_factory import Flow, Invoke, arun, run
from agent_factory.middleware._shared.effects import recording_here
from agent_factory.middleware._shared.errors import is_async, outcome_unknown
from agent_factory.middleware._shared.invocable import Called

from .effects import Effect, EffectError, check_released, dump, stored
from .keys import run_id
from .middleware import OnceMiddleware


@dataclass(frozen=True, slots=True)
class Undone:
    """Results of undoing the effects of a run, the newest first.

    Effects with an error as the result are left out.

    Attributes:
        undone: Effects with a finished compensation, now or before.
        unknown: Effects with an unknown outcome, of the call or of the compensation. A person has
            to find out.
        kept: Effects without a compensation.
    """

    undone: tuple[Effect, ...] = ()
    unknown: tuple[Effect, ...] = ()
    kept: tuple[Effect, ...] = ()


def undo_effects(once: OnceMiddleware, run_or_state: str | StateSnapshot) -> Undone:
    """Run the compensations of the effects of a run, from the newest to the oldest.

    Each compensation runs once, recorded as an effect in the same store. An exception of a
    compensation propagates, and the next call of this function continues there. With an unknown
    outcome (a timeout, or the process died), a compensation runs again if the policy of the tool is
    "rerun", and is otherwise reported as unknown. Effects with an unknown outcome are only
    reported.

    The thread is not changed: name the undone effects in the next message. Stop the run before; a
    run does not notice an undo. A repeated call of an undone effect gives an error.

    Args:
        once: The middleware, with compensations and a store.
        run_or_state: The state of the thread, `agent.get_state(config)`, for the last run; or the
            name passed to `effects_of_run`.

    Raises:
        EffectError: There is no store, or the store failed; or a compensation is async.

    >>> from agent_factory.middleware import InMemoryEffects
    >>> def cancel_flight(flight: Effect) -> None:
    ...     print(f"cancel {flight.args['to']}, booked under {flight.key}")
    >>> once = OnceMiddleware(
    ...     {"book_flight": "ask"}, store=InMemoryEffects(), undo={"book_flight": cancel_flight}
    ... )
    >>> undo_effects(once, "order-17")
    Undone(undone=(), unknown=(), kept=())
    """
    for tool, compensation in once.undo.items():
        if is_async(compensation):
            raise EffectError(
                f"undo[{tool!r}]", "is a coroutine function.", "Use `await aundo_effects(...)`."
            )
    return run(_undo(once, run_or_state))


async def aundo_effects(once: OnceMiddleware, run_or_state: str | StateSnapshot) -> Undone:
    """Async variant of `undo_effects`; plain compensations are called in threads."""
    return await arun(_undo(once, run_or_state))


def _undo(once: OnceMiddleware, run_or_state: str | StateSnapshot) -> Flow[Undone]:
    recording = recording_here()
    store = once.store or (recording and recording.store)
    if store is None:
        raise EffectError(
            once.name,
            "has no store of effects.",
            f"Write {once.name}(..., store=...), or call this within effects_of_run(store).",
        )
    if isinstance(run_or_state, str):
        run_name = run_or_state
    else:
        thread = (run_or_state.config.get("configurable") or {})["thread_id"]
        run_name = run_id(thread, run_or_state.values)
    undone: list[Effect] = []
    uncertain: list[Effect] = []
    without_undo: list[Effect] = []
    records: Sequence[Effect] = yield from stored(store.of_run, run_name)
    for effect in reversed(records):
        if effect.is_undo or effect.failed:
            continue
        if not effect.is_done or effect.tool not in once.undo:
            (without_undo if effect.is_done else uncertain).append(effect)
            continue
        undo_effect = Effect.start(effect.undo_key, effect.run, effect.tool, effect.args_data)
        repeats = once.effects.get(effect.tool, once.default) == "rerun"
        attempt = ""
        while (earlier := (yield from stored(store.begin, undo_effect))) is not None:
            if earlier.is_done or not repeats:
                break
            # The process ended during an earlier compensation, which may be repeated.
            check_released(earlier, attempt)
            yield from stored(store.release, earlier)
            attempt = earlier.attempt
        if earlier is None:
            try:
                yield Invoke(Called(once.undo[effect.tool]), (effect,))
            except Exception as error:
                if not outcome_unknown(error):
                    yield from stored(store.release, undo_effect)
                raise
            yield from stored(store.finish, undo_effect, dump(None))
        (undone if earlier is None or earlier.is_done else uncertain).append(effect)
    return Undone(tuple(undone), tuple(uncertain), tuple(without_undo))
