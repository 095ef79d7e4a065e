"""Two tools that find files by name and by content, in one folder and never outside it.

The middleware has no hooks and no layers: it provides its tools and the folder they may read. The
model writes patterns and paths in which "/" is that folder; it cannot name anything else.
"""

from .middleware import FilesystemFileSearchMiddleware

__all__ = ["FilesystemFileSearchMiddleware"]
