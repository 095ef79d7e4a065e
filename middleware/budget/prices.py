"""Prices of model calls: from the user, or else from the data inside of genai-prices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from math import isfinite
from typing import Any, NamedTuple

from langchain_core.messages.ai import UsageMetadata

from agent_factory import TurnError
from agent_factory.errors import require
from agent_factory.middleware._shared.validation import check_number
from agent_factory.types import ModelWrapper, configured, model_params, unbound

_PER_MILLION = 1_000_000
_WRITTEN_FOR_1H = "ephemeral_1h_input_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a model in US dollars for a million tokens, as in price lists.

    Args:
        input: Tokens in requests.
        output: Tokens in answers.
        cache_read: Tokens from the cache; None means the same as `input`.
        cache_write: Tokens into the cache; None means the same as `input`.

    Raises:
        ValueError: A price is not a number of at least 0.

    >>> Price(input=2.0, output=8.0).of({"input_tokens": 500_000, "output_tokens": 0})
    1.0
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        if self.input is None or self.output is None:
            raise ValueError("Price needs input and output, in US dollars for a million tokens.")
        for name in ("input", "output", "cache_read", "cache_write"):
            check_number(name, getattr(self, name), unit="US dollars for a million tokens")

    def of(self, usage: Mapping[str, Any]) -> float:
        """The cost of a usage, in US dollars."""
        details = usage.get("input_token_details") or {}
        cache_reads, cache_writes = tokens(details, "cache_read"), _cache_writes(details)
        # LangChain counts tokens from the cache, and into the cache, among the input tokens.
        fresh_tokens = max(tokens(usage, "input_tokens") - cache_reads - cache_writes, 0)
        total = (
            fresh_tokens * self.input
            + cache_reads * (self.input if self.cache_read is None else self.cache_read)
            + cache_writes * (self.input if self.cache_write is None else self.cache_write)
            + tokens(usage, "output_tokens") * self.output
        )
        return total / _PER_MILLION


def tokens(counts: Mapping[str, object], name: str) -> int:
    """A token count from a model; 0 for anything but a positive integer."""
    value = counts.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _cache_writes(details: Mapping[str, object]) -> int:
    # Some models report tokens written to the cache by how long they are kept.
    by_lifetime = tokens(details, "ephemeral_5m_input_tokens") + tokens(details, _WRITTEN_FOR_1H)
    return max(tokens(details, "cache_creation"), by_lifetime)


PriceFunction = Callable[[str, UsageMetadata], float | None]
"""Takes a model's name and its usage, returns US dollars; None for a model it does not know."""


class ModelName(NamedTuple):
    """The name of a model, and its provider if known."""

    name: str
    provider: str | None


class UnknownPriceError(TurnError, ValueError):
    """A limit in USD applies to a model without a known price. The model was not called.

    Attributes:
        model: The name of the model.
        provider: The provider, if known.
    """

    code = "AF359"

    def __init__(self, model: str, provider: str | None) -> None:
        self.model, self.provider = model, provider
        whose = f" at {provider!r}" if provider else ""
        super().__init__(
            model,
            f"has no known price{whose}, and a limit in USD applies to it.",
            f"Pass its price: prices={{{model!r}: Price(input=..., output=...)}}, in US dollars "
            "for a million tokens.",
        )


class Prices:
    """Price list from usage to US dollars; prices of the user come first."""

    def __init__(self, prices: Mapping[str, Price] | PriceFunction | None, *, needed: bool) -> None:
        is_list = isinstance(prices, Mapping) and all(isinstance(p, Price) for p in prices.values())
        if prices is not None and not callable(prices) and not is_list:
            raise TypeError(
                f"prices must be a dict or a function, got {prices!r}. Pass "
                "prices={'model-name': Price(input=0.15, output=0.60)}, or a function of a "
                "model's name and its usage."
            )
        # Not imported yet: the import is slow, and a run may end before a price is needed.
        if needed and prices is None:
            otherwise = "prices={'model-name': Price(input=0.15, output=0.60)} needs none."
            require("cost", "A limit in USD without `prices`", otherwise=otherwise)
        self._prices: Mapping[str, Price] | PriceFunction = {} if prices is None else prices

    @property
    def argument(self) -> Mapping[str, Price] | PriceFunction | None:
        """The price of the user; None without one."""
        return self._prices or None

    def cost(self, model: ModelName, usage: UsageMetadata) -> float:
        """The cost of a usage in US dollars, or UnknownPriceError."""
        cost = self._known_cost(model, usage)
        if cost is None:
            raise UnknownPriceError(model.name, model.provider)
        return cost

    def cost_of_response(
        self, metadata: Mapping[str, Any], requested_model: ModelName, usage: UsageMetadata
    ) -> float:
        """The cost by the model in the metadata, or else the requested model; 0 if unknown."""
        models = [requested_model]
        # Integrations use either key for the answering model.
        name = metadata.get("model_name") or metadata.get("model")
        if isinstance(name, str):
            provider = metadata.get("model_provider") or requested_model.provider
            models.insert(0, ModelName(name, provider))
        costs = (self._known_cost(model, usage) for model in models if model.name)
        return next((cost for cost in costs if cost is not None), 0.0)

    def _known_cost(self, model: ModelName, usage: UsageMetadata) -> float | None:
        if isinstance(self._prices, Mapping):
            price = self._prices.get(model.name)
            return price.of(usage) if price else _listed_cost(model, usage)
        try:
            cost: object = self._prices(model.name, usage)
        except LookupError:
            return None
        if cost is None:
            return None
        if not isinstance(cost, int | float) or not isfinite(cost) or cost < 0:
            raise ValueError(
                f"The prices function must return US dollars or None, got {cost!r} for "
                f"{model.name!r}."
            )
        return float(cost)


@cache
def _snapshot() -> Any:
    """The data of genai-prices; None if not installed. The import is slow."""
    if find_spec("genai_prices") is None:
        return None
    from genai_prices.data import providers
    from genai_prices.data_snapshot import DataSnapshot

    return DataSnapshot(providers=providers, from_auto_update=False)


def _listed_cost(model: ModelName, usage: UsageMetadata) -> float | None:
    """The cost by genai-prices; None if not installed, or if the model is missing."""
    snapshot = _snapshot()
    if snapshot is None or not model.name:
        return None
    try:
        # A missing provider is not replaced by another provider, with other prices.
        provider, model_info = snapshot.find_provider_model(model.name, None, model.provider, None)
    except LookupError:
        return None
    from datetime import UTC, datetime

    from genai_prices import Usage

    details: Mapping[str, object] = usage.get("input_token_details") or {}
    totals = {name: tokens(usage, name) for name in ("input_tokens", "output_tokens")}
    parts = {
        "cache_read_tokens": tokens(details, "cache_read"),
        "cache_write_tokens": _cache_writes(details),
        "cache_write_1h_tokens": tokens(details, _WRITTEN_FOR_1H),
        "input_audio_tokens": tokens(details, "audio"),
        "output_audio_tokens": tokens(usage.get("output_token_details") or {}, "audio"),
    }
    now = datetime.now(tz=UTC)
    try:
        whole = Usage(**totals, **parts)
        cost = model_info.calc_price(whole, provider, genai_request_timestamp=now)
    except ValueError:  # The parts contradict the totals.
        cost = model_info.calc_price(Usage(**totals), provider, genai_request_timestamp=now)
    return float(cost.total_price)


def listed_price(name: str, usage: UsageMetadata) -> float | None:
    """The cost of a usage by a model's name; None if the model is not listed, or free."""
    return _listed_cost(ModelName(name, None), usage) or None


def name_of(model: object, settings: Mapping[str, object] | None = None) -> ModelName:
    """The name from a chat model, or from settings of the call; else the name of the class."""
    model = configured(model)
    # Arguments bound to a model may name another model.
    while isinstance(model, ModelWrapper) or hasattr(model, "bound"):
        if isinstance(model, ModelWrapper):
            model = model.inner
            continue
        settings = {**getattr(model, "kwargs", {}), **(settings or {})}
        model = model.bound
    model_option = {"model": settings["model"]} if settings and "model" in settings else {}
    params = model_params(model, **model_option)
    name = params.get("ls_model_name") or type(unbound(model)).__name__
    return ModelName(name, params.get("ls_provider"))


def usage_of(input_tokens: int, output_tokens: int) -> UsageMetadata:
    """The usage of a call that reads and writes so many tokens."""
    total = input_tokens + output_tokens
    return UsageMetadata(input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=total)


def completed(
    usage: UsageMetadata | None, count_input: Callable[[], int], count_output: Callable[[], int]
) -> UsageMetadata:
    """The usage from a model; missing counts are estimated and are at least 1."""
    fields: Any = usage or {}
    input_tokens = tokens(fields, "input_tokens") or max(count_input(), 1)
    output_tokens = tokens(fields, "output_tokens") or max(count_output(), 1)
    complete: UsageMetadata = {**fields, **usage_of(input_tokens, output_tokens)}
    return complete
