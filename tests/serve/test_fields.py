"""Nothing is ignored silently: each field of a protocol is served, refused, or in its page."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from a2a.types import (
    ListTasksRequest,
    Message,
    SendMessageConfiguration,
    SendMessageRequest,
)
from ag_ui.core import RunAgentInput
from mcp_types import CallToolRequestParams
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

import agent_factory.serve.langgraph
from agent_factory.service import Service
from serve.forms import local_client
from tables import each

DOCS = Path(__file__).parents[2] / "docs" / "service"

FIELDS: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("langgraph_fields.json").read_text(encoding="utf-8")
)
"""Routes of langgraph-api 0.16.7, with the fields of bodies, and of queries after "?"."""


def named_in(page: str) -> set[str]:
    """The words of a page that are code."""
    text = re.sub(r"(?s)```.*?```", "", (DOCS / page).read_text(encoding="utf-8"))
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[\w-]+", code)}


def used_names() -> set[str]:
    """Names that the code of LangGraph's API reads: attributes, and texts."""
    names: set[str] = set()
    folder = Path(str(agent_factory.serve.langgraph.__file__)).parent
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)
    return names


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The description of our routes, by method and path without the names of parameters."""
    service = Service(f"sqlite:///{tmp_path_factory.mktemp('fields')}/desk.db")
    found = local_client(service).get("/openapi.json").json()
    return {
        f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}": (operation, found["components"])
        for path, operations in found["paths"].items()
        for method, operation in operations.items()
    }


@each("route", [*FIELDS])
def test_each_field_of_langgraphs_api_is_served_refused_or_documented(
    api: dict[str, Any], route: str
) -> None:
    words, used = named_in("http.md") | named_in("mcp.md"), used_names()
    method, path = route.split()
    ours = api.get(f"{method} {re.sub(r'{[^}]*}', '{}', path).rstrip('/')}")
    if ours is None:
        assert path.strip("/").split("/")[-1] in words, f"{route} is neither served nor refused"
        return
    operation, components = ours
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
    schema = components["schemas"].get(name, {})
    items = schema.get("items", {}).get("$ref", "").rpartition("/")[2]
    schema = components["schemas"].get(items, schema)
    for field in FIELDS[route]:
        if field.startswith("?"):
            assert field[1:] in used | words | {p["name"] for p in operation["parameters"]}, field
        elif field in schema.get("properties", {}):
            assert field in used | words, f"{field} of {route} is taken, and read by nobody"
        elif not path.startswith("/a2a"):  # see below
            # Others are refused by name.
            assert schema.get("additionalProperties") is False or field in used, field


@each(
    "page, fields",
    [
        ("ag_ui.md", [field.alias or name for name, field in RunAgentInput.model_fields.items()]),
        ("mcp.md", [f.alias or name for name, f in CallToolRequestParams.model_fields.items()]),
        ("openai.md", [*CompletionCreateParamsStreaming.__annotations__]),
        *(
            ("a2a.md", [field.json_name for field in kind.DESCRIPTOR.fields])
            for kind in (SendMessageRequest, Message, SendMessageConfiguration, ListTasksRequest)
        ),
    ],
)
def test_each_field_of_another_protocol_is_in_its_page(page: str, fields: list[str]) -> None:
    assert {*fields} - named_in(page) == set()
