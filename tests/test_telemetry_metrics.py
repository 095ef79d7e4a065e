"""Telemetry: what is measured."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from spans import ANSWER, ASK, CALL, Broken, Named, Spans, adding, watched

from agent_factory import create_agent
from agent_factory.telemetry import Telemetry, meter
from samples import add

# Metrics


def points(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    """The points of each metric: attributes, and the number of values and their sum."""
    data: Any = reader.get_metrics_data()
    (scope,) = data.resource_metrics[0].scope_metrics
    assert scope.scope.name == "agent_factory"
    return {
        metric.name: [(dict(point.attributes), point) for point in metric.data.data_points]
        for metric in scope.metrics
    }


def test_tokens_and_durations_are_measured(call: Any, spans: Spans) -> None:
    reader = InMemoryMetricReader()
    config = watched(spans, meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    agent = create_agent(Named(steps=[CALL, ANSWER]), [add], name="desk")
    call(agent, ASK, config)
    found = points(reader)
    asked = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "azure.ai.openai",
        "gen_ai.request.model": "gpt-9",
    }
    answered = {**asked, "gen_ai.response.model": "gpt-9-may"}
    tokens = [(said, point.sum) for said, point in found["gen_ai.client.token.usage"]]
    assert tokens == [
        ({**answered, "gen_ai.token.type": "input"}, 7),
        ({**answered, "gen_ai.token.type": "output"}, 2),
    ]
    durations = {
        "gen_ai.client.operation.duration": [asked, answered],
        "gen_ai.execute_tool.duration": [{"gen_ai.tool.name": "add", "gen_ai.agent.name": "desk"}],
        "gen_ai.invoke_agent.duration": [{"gen_ai.agent.name": "desk"}],
    }
    for name, expected in durations.items():
        assert [said for said, _ in found[name]] == expected
        assert all(point.count == 1 and 0 < point.sum < 60 for _, point in found[name])
    (exemplar,) = found["gen_ai.execute_tool.duration"][0][1].exemplars
    assert exemplar.span_id == spans.of("execute_tool add").context.span_id
    assert found["gen_ai.invoke_agent.duration"][0][1].explicit_bounds[0] == 0.1


def test_failures_are_measured_by_their_type(call: Any, spans: Spans) -> None:
    reader = InMemoryMetricReader()
    config = watched(spans, meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    with pytest.raises(Broken):
        call(create_agent(Named(steps=[Broken()])), ASK, config)
    for name in ("gen_ai.client.operation.duration", "gen_ai.invoke_agent.duration"):
        ((said, _),) = points(reader)[name]
        assert said["error.type"] == "spans.Broken"


def test_the_first_chunk_of_a_stream_is_measured(collect: Any, spans: Spans) -> None:
    reader = InMemoryMetricReader()
    config = watched(spans, meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    collect(create_agent(Named(steps=["Hi there."])), ASK, config, stream_mode="messages")
    ((said, point),) = points(reader)["gen_ai.client.operation.time_to_first_chunk"]
    assert said["gen_ai.request.model"] == "gpt-9"
    assert point.count == 1


def test_runs_that_are_not_sampled_are_measured(call: Any) -> None:
    reader = InMemoryMetricReader()
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    handler = Telemetry(provider, MeterProvider([reader], shutdown_on_exit=False), contents=True)
    call(create_agent(adding(), [add], name="desk"), ASK, {"callbacks": [handler]})
    assert points(reader)["gen_ai.invoke_agent.duration"][0][1].count == 1


def test_the_meter_is_that_of_the_library() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    meter(provider).create_counter("shop.orders").add(2)
    assert points(reader)["shop.orders"][0][1].value == 2
