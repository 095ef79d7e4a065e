"""What the tokens of a model cost: by the user's prices, or by those that genai-prices brings.

Only the data that its package holds is asked, never its updater: a price is the same on every
machine that has the same version installed, and nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import isfinite
from typing import Any, NamedTuple

from langchain_core.messages.ai import UsageMetadata

from agent_factory import TurnError
from agent_factory.middleware._shared.validation import check_number

_PER_MILLION = 1_000_000
_HOUR = "ephemeral_1h_input_tokens"
_MISSING = (
    "A limit in USD needs the prices of models: pip install 'agent-factory[cost]', or give your "
    "own, prices={'model-name': Price(input=0.15, output=0.60)}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs, in US dollars for a million tokens, as price lists have it.

    Args:
        input: Tokens it reads.
        output: Tokens it writes.
        cache_read: Tokens it reads from its cache; None: as `input`.
        cache_write: Tokens it writes to its cache; None: as `input`.

    Raises:
        ValueError: One is no number of at least 0.

    >>> Price(input=2.0, output=8.0).of({"input_tokens": 500_000, "output_tokens": 0})
    1.0
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        if self.input is None or self.output is None:
            raise ValueError("A Price needs input and output, USD for a million tokens each.")
        for name in ("input", "output", "cache_read", "cache_write"):
            check_number(name, getattr(self, name), unit="US dollars for a million tokens")

    def of(self, usage: Mapping[str, Any]) -> float:
        """What some tokens cost, in US dollars."""
        details = usage.get("input_token_details") or {}
        read, written = tokens(details, "cache_read"), _written(details)
        fresh = max(tokens(usage, "input_tokens") - read - written, 0)
        total = (
            fresh * self.input
            + read * (self.input if self.cache_read is None else self.cache_read)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + tokens(usage, "output_tokens") * self.output
        )
        return total / _PER_MILLION


def tokens(counts: Mapping[str, Any], name: str) -> int:
    """A count as a model reports it; what makes no sense counts as none."""
    value = counts.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _written(details: Mapping[str, Any]) -> int:
    """Tokens written to a cache: some models report them by how long they are kept."""
    kept = tokens(details, "ephemeral_5m_input_tokens") + tokens(details, _HOUR)
    return max(tokens(details, "cache_creation"), kept)


PriceFunction = Callable[[str, UsageMetadata], float | None]
"""A model's name and its usage become US dollars; None for a model it does not know."""


class ModelName(NamedTuple):
    """What a model is called, and by whom."""

    name: str
    provider: str | None


class UnknownPriceError(TurnError, ValueError):
    """A limit in USD holds for a model whose price nobody knows. It was not asked.

    Attributes:
        model: The model's name.
        provider: Whose model it is, as far as it tells.
    """

    code = "AF359"

    def __init__(self, model: str, provider: str | None) -> None:
        self.model = model
        self.provider = provider
        whose = f" of {provider!r}" if provider else ""
        super().__init__(
            model,
            f"has no known price{whose}, and a limit in USD holds for it.",
            f"Give its price: prices={{{model!r}: Price(input=..., output=...)}}, USD for a "
            "million tokens each.",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model, self.provider)


class Prices:
    """Turns usage into money.

    Args:
        given: Prices by model name, before those of genai-prices; or a function that knows all.
        needed: Whether a limit depends on them.

    Raises:
        TypeError: `given` is neither.
        ImportError: Prices are needed, none are given, and genai-prices is not installed.
    """

    def __init__(self, given: Mapping[str, Price] | PriceFunction | None, *, needed: bool) -> None:
        if given is not None and not callable(given) and not _are_prices(given):
            raise TypeError(
                "prices must be a dict such as {'model-name': Price(input=0.15, output=0.60)}, or "
                f"a function of a model's name and its usage; got {given!r}."
            )
        if needed and given is None and find_spec("genai_prices") is None:
            raise ImportError(_MISSING)
        self._given: Mapping[str, Price] | PriceFunction = {} if given is None else given

    def of(self, model: ModelName, usage: UsageMetadata) -> float:
        """What the usage costs, in US dollars.

        Raises:
            UnknownPriceError: Nobody knows.
            ValueError: The user's function gives no amount.
        """
        cost = self._known(model, usage)
        if cost is None:
            raise UnknownPriceError(model.name, model.provider)
        return cost

    def first(self, models: tuple[ModelName, ...], usage: UsageMetadata) -> float:
        """What the usage costs by the first model whose price is known; 0 for none."""
        costs = (self._known(model, usage) for model in models if model.name)
        return next((cost for cost in costs if cost is not None), 0.0)

    def _known(self, model: ModelName, usage: UsageMetadata) -> float | None:
        if isinstance(self._given, Mapping):
            own = self._given.get(model.name)
            return own.of(usage) if own else _listed(model, usage)
        try:
            cost = self._given(model.name, usage)
        except LookupError:
            return None
        return cost if cost is None else _checked(cost)


def _are_prices(given: Any) -> bool:
    return isinstance(given, Mapping) and all(isinstance(p, Price) for p in given.values())


def _checked(cost: Any) -> float:
    if not isinstance(cost, int | float) or not isfinite(cost) or cost < 0:
        raise ValueError(f"prices: the function gave {cost!r}; it must give US dollars, or None.")
    return float(cost)


def _listed(model: ModelName, usage: UsageMetadata) -> float | None:
    """What genai-prices says; None where it is not installed or does not know."""
    if not model.name or (found := _find(model)) is None:
        return None
    try:
        return _calculated(found, usage)
    except ValueError:  # details that contradict the totals
        plain: Any = {"input_token_details": {}, "output_token_details": {}}
        return _calculated(found, {**usage, **plain})


@cache
def _snapshot() -> Any:
    if find_spec("genai_prices") is None:
        return None
    from genai_prices.data import providers
    from genai_prices.data_snapshot import DataSnapshot

    return DataSnapshot(providers=providers, from_auto_update=False)


def _find(model: ModelName) -> Any:
    """The entry of a model. A provider it does not know is not guessed: its prices are others."""
    snapshot = _snapshot()
    try:
        return snapshot and snapshot.find_provider_model(model.name, None, model.provider, None)
    except LookupError:
        return None


def _calculated(found: Any, usage: Mapping[str, Any]) -> float:
    from datetime import UTC, datetime

    from genai_prices import Usage

    provider, entry = found
    details = usage.get("input_token_details") or {}
    counts = Usage(
        input_tokens=tokens(usage, "input_tokens"),
        output_tokens=tokens(usage, "output_tokens"),
        cache_read_tokens=tokens(details, "cache_read"),
        cache_write_tokens=_written(details),
        cache_write_1h_tokens=tokens(details, _HOUR),
        input_audio_tokens=tokens(details, "audio"),
        output_audio_tokens=tokens(usage.get("output_token_details") or {}, "audio"),
    )
    now = datetime.now(tz=UTC)
    return float(entry.calc_price(counts, provider, genai_request_timestamp=now).total_price)


def name_of(model: Any, settings: Mapping[str, Any] | None = None) -> ModelName:
    """What a chat model calls itself; its class where it has no name.

    Args:
        model: A chat model, bound or not.
        settings: What it is called with; `model` in it chooses another one.
    """
    while hasattr(model, "bound"):
        settings = {**getattr(model, "kwargs", {}), **(settings or {})}
        model = model.bound
    chosen = {"model": settings["model"]} if settings and "model" in settings else {}
    ask = getattr(model, "_get_ls_params", None)
    about = ask(**chosen) if ask else {}
    return ModelName(about.get("ls_model_name") or type(model).__name__, about.get("ls_provider"))


def named_by(metadata: Mapping[str, Any], asked: ModelName) -> tuple[ModelName, ...]:
    """The models an answer may be from: the one it names itself, then the one that was asked."""
    name = metadata.get("model_name") or metadata.get("model")
    provider = metadata.get("model_provider") or asked.provider
    return (ModelName(name, provider), asked) if isinstance(name, str) else (asked,)
