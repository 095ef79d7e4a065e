"""Two tools that find files by name and by content, in one folder and never outside it."""

from .middleware import FilesystemFileSearchMiddleware

__all__ = ["FilesystemFileSearchMiddleware"]
