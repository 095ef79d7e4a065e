"""A model that searches a folder, and nothing outside it.

Run: python examples/workspace_search.py [--model local | provider:name]

The folder has a link that leads out of it; the search does not follow it.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from _models import chosen_model
from langchain_core.language_models import BaseChatModel

from agent_factory import create_agent
from agent_factory.middleware import FilesystemFileSearchMiddleware

SCRIPT = [
    [{"name": "glob_search", "args": {"pattern": "**/*.toml"}}],
    [
        {
            "name": "grep_search",
            "args": {"pattern": "port", "path": "/shop", "output_mode": "content"},
        }
    ],
    "The shop listens on port 8080.",
]
HINTS = {
    "grep_search": ["Which files contain the word E-7?"],
    "glob_search": ["List all files."],
}
FILES = {
    "shop/settings.toml": 'name = "shop"\nport = 8080\n',
    "shop/orders.csv": "A-1001,lamp,90\nA-1002,chair,120\n",
    "notes.md": "Order A-1001 arrived broken.\n",
}


def fill(folder: Path) -> None:
    """Write the files, and a link to the folder above."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (folder / "way_out").symlink_to("..")


def main(model: BaseChatModel) -> None:
    with TemporaryDirectory() as folder:
        fill(Path(folder))
        agent = create_agent(model, middleware=[FilesystemFileSearchMiddleware(root_path=folder)])
        question = "Search for order A-1001: which files contain it?"
        result = agent.invoke({"messages": [{"role": "user", "content": question}]})
    for message in result["messages"]:
        message.pretty_print()


if __name__ == "__main__":
    main(chosen_model(SCRIPT, HINTS))
