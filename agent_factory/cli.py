"""The command `agent-factory`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without its extra, say what to install."""
    try:
        from agent_factory.commands import app
    except ImportError as error:
        sys.exit(f"agent-factory: {error}. Install it with: pip install 'agent-factory[cli]'")
    app()


if __name__ == "__main__":
    main()
