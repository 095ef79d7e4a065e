"""The search of the documentation site finds the page that answers a question."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# The site is built once, in half a minute of a machine that does nothing else.
pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("search_site.mjs")

FIRST_TWO = {
    "require approval for a tool": {"review/", "middleware/human_in_the_loop/"},
    "approve tool call": {"review/", "middleware/human_in_the_loop/"},
    "use with FastAPI": {"howto/web_service/"},
    "custom state key": {"middleware/"},
    "stop after N model calls": {"middleware/model_call_limit/"},
    "stream tokens": {"streaming/"},
    "what does AF204 mean": {"checks/"},
    "deploy with Postgres": {"howto/deployment/", "service/saver_or_service/"},
    "memory": {"howto/memory/"},
    "RAG": {"howto/rag/"},
    "real model": {"howto/real_model/"},
    "which Postgres": {"service/saver_or_service/"},
    "Slack": {"howto/slack/"},
    "evaluation": {"howto/evaluation/"},
    "supported Python versions": {"versions/"},
}
"""What a newcomer types, and the pages of which one should be among the first two results."""

QUESTIONS = FIRST_TWO | {
    "hook never runs": {"checks/", "faq/"},
    "guarantee": {"guarantees/"},
    "what can never happen": {"guarantees/"},
    "unit-test middleware": {"testing/"},
    "snapshot": {"testing/"},
    "human in the loop": {"middleware/human_in_the_loop/"},
    "retry": {"middleware/model_retry/"},
    "migrate from langchain": {"migration/"},
    "API key": {"howto/real_model/", "howto/models/"},
    "cost": {"howto/real_model/", "middleware/budget/"},
    "vector store": {"howto/rag/", "howto/memory/"},
}
"""The same for the first three results."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    pages, site = folder / "pages", folder / "site"
    mkdocs = ["-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    mkdocs += ["--config-file", str(pages / "mkdocs.yml")]
    for words in (["scripts/docs_site.py", str(pages)], mkdocs):
        command = [sys.executable, *words]
        subprocess.run(command, cwd=ROOT, check=True, timeout=380, capture_output=True)
    return site


@pytest.fixture(scope="module")
def results(site: Path) -> dict[str, list[str]]:
    """The pages that each question finds with the theme's own search, best first."""
    (worker,) = site.glob("assets/javascripts/workers/search.*.min.js")
    done = subprocess.run(
        ["node", str(RUNNER), str(worker), str(site / "search" / "search_index.json")],
        input=json.dumps([*QUESTIONS]),
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return dict(zip(QUESTIONS, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_finds_its_page(results: dict[str, list[str]], question: str) -> None:
    count = 2 if question in FIRST_TWO else 3
    assert QUESTIONS[question] & set(results[question][:count]), results[question][:6]


def test_no_signature_is_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    (entry,) = (
        entry
        for entry in index["docs"]
        if entry["location"] == "reference/agent_factory/agents/#agent_factory.create_agent"
    )
    assert "Build" in entry["text"] or "graph" in entry["text"]
    assert "BaseCheckpointSaver | None = None" not in entry["text"]
