"""Two tools that find files by name and by content, in one folder and never outside of it.

The middleware has no hooks and no layers: it brings its tools and the folder they may read. What
the model writes is a pattern or a path below a root of its own, "/"; it can't name anything else.
"""

from .middleware import (
    FilesystemFileSearchMiddleware,
)

__all__ = ["FilesystemFileSearchMiddleware"]
