"""Two tools that find files by name and by content, in one folder and never outside it.

The middleware has no hooks and no layers: it provides tools and the folder for them. The
model writes patterns and paths in which "/" is that folder, and can name nothing else.
"""

from .middleware import FilesystemFileSearchMiddleware

__all__ = ["FilesystemFileSearchMiddleware"]
