"""LangGraph's own client for JavaScript, as it is, against a service on each kind of database."""

from __future__ import annotations

import pytest

from web.javascript import cases, run

SCRIPT = "langgraph_client.mjs"


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize("case", cases(SCRIPT))
def test_the_client_for_javascript(protocol_url: str, case: str) -> None:
    run(SCRIPT, protocol_url, case)
