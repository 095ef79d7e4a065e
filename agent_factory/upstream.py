"""What the package relies on in LangGraph and langchain-core that they do not publish.

Each reliance stands here once, with the reason and the version it was seen in, and has a canary in
``tests/test_upstream.py``: an upgrade that changes one fails there first.
"""

from __future__ import annotations
