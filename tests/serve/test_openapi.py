"""Description of the routes: all that are served, with the bodies that they take."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from agent_factory.serve import create_app
from agent_factory.serve.security import HEADERS
from agent_factory.service import Service
from serve.route_examples import EXAMPLES
from serve.test_routes import Page


@pytest.fixture
def http(tmp_path: Path) -> TestClient:
    app = create_app(Service(f"sqlite:///{tmp_path}/desk.db"))
    return TestClient(app, base_url="http://127.0.0.1:1", client=("127.0.0.1", 1))


def test_each_route_for_programs_is_described(http: TestClient) -> None:
    description = http.get("/openapi.json").json()
    described = {
        f"{method.upper()} {path}"
        for path, operations in description["paths"].items()
        for method in operations
    }
    pages = re.compile(r"\w+ (/$|/(studio|inbox|static|docs|openapi))")
    served = {key for key in EXAMPLES if not pages.match(key)}
    named = {key.replace("{model}", "{agent}") for key in described}
    assert named == served - {"POST /a2a/desk", "POST /a2a/{agent}/"}
    ids = [
        operation["operationId"]
        for operations in description["paths"].values()
        for operation in operations.values()
    ]
    assert len(ids) == len(set(ids))


def test_bodies_are_described_as_they_are_checked(http: TestClient) -> None:
    description = http.get("/openapi.json").json()
    schemas = description["components"]["schemas"]

    def check(operation: Any, body: Any) -> None:
        reference = operation["requestBody"]["content"]["application/json"]["schema"]
        jsonschema.validate(body, {**reference, "components": {"schemas": schemas}})

    count = 0
    for key, bodies in EXAMPLES.items():
        method, path = key.split()
        operation = description["paths"].get(path, {}).get(method.lower(), {})
        for body in bodies:
            if "requestBody" in operation and isinstance(body, dict | list):
                check(operation, body)
                count += 1
    assert count > 40
    run = description["paths"]["/runs"]["post"]
    with pytest.raises(jsonschema.ValidationError):
        check(run, {"assistant_id": "echo", "confg": {}})
    # Each reference leads to a form.
    references = set(re.findall(r"#/components/schemas/(\w+)", str(description)))
    assert references <= schemas.keys()


def test_queries_are_described(http: TestClient) -> None:
    listed = http.get("/openapi.json").json()["paths"]["/threads"]["get"]
    assert {"limit", "status", "select"} <= {part["name"] for part in listed["parameters"]}


def test_the_page_shows_all_routes_and_needs_no_other_host(http: TestClient) -> None:
    answer = http.get("/docs")
    assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
    assert Page(answer.text).wrong == []
    for path in http.get("/openapi.json").json()["paths"]:
        assert f"<code>{path}</code>" in answer.text
    assert not re.search(r"(src|href)=\"(https?:)?//", answer.text)
    assert "Begin a run and wait for its result." in answer.text
