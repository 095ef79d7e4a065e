"""A model that works in a shell: in a sandbox if possible, and never in your home folder.

Run: python examples/workspace.py [--model local | provider:name]

With bubblewrap (Linux; Debian's package bubblewrap) the commands can use this machine's programs,
one folder, and no network. Without it they run on the host and are not confined.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from _models import chosen_model

from agent_factory import create_agent
from agent_factory.middleware import (
    BubblewrapExecutionPolicy,
    HostExecutionPolicy,
    RedactionRule,
    ShellToolMiddleware,
)

QUESTION = "What came back? Look with cat A-1001.txt"
SCRIPT = [
    [{"name": "shell", "args": {"command": "cat A-1001.txt; mkdir done; cd done"}}],
    [{"name": "shell", "args": {"command": "mv ../A-1001.txt .; pwd; ls /home"}}],
    "A lamp came back on Monday; I have filed the report.",
]
HINTS = {"shell": ["Look with cat C-12.txt"]}


def can_sandbox() -> bool:
    """Return whether bubblewrap is installed and may create namespaces here."""
    if shutil.which("bwrap") is None:
        return False
    tried = subprocess.run(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], check=False)
    return tried.returncode == 0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "A-1001.txt").write_text("On Monday ada@example.com returned a lamp.\n")
        policy = BubblewrapExecutionPolicy() if can_sandbox() else HostExecutionPolicy()
        print(f"commands run under {type(policy).__name__}")
        shell = ShellToolMiddleware(
            folder,
            execution_policy=policy,
            redaction_rules=[RedactionRule("email")],
            tool_description="Run a command in a shell.",  # a small model reads slowly
        )
        agent = create_agent(chosen_model(SCRIPT, HINTS), middleware=[shell])
        for message in agent.invoke({"messages": QUESTION})["messages"]:
            message.pretty_print()


if __name__ == "__main__":
    main()
