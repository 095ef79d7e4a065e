"""LangChain's newest hook for React, as it is, which speaks LangGraph's protocol v2."""

from __future__ import annotations

import pytest

from web.javascript import cases, run

SCRIPT = "react_client.mjs"


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize("case", cases(SCRIPT))
def test_the_hook_for_react(protocol_url: str, case: str) -> None:
    run(SCRIPT, protocol_url, case)
