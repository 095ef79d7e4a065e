"""The calls of agent-chat-ui, which uses LangGraph's older hook for React."""

from __future__ import annotations

import pytest

from web.javascript import cases, run

SCRIPT = "agent_chat_ui.mjs"


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize("case", cases(SCRIPT))
def test_what_agent_chat_ui_does(protocol_url: str, case: str) -> None:
    run(SCRIPT, protocol_url, case)
