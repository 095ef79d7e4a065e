"""A MkDocs hook and a Griffe extension: changes of pages after the build.

mkdocs.yml names this file twice, once for each. `docs_site.py` writes the pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import docs_site
import griffe
import llms
import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from reference_pages import with_examples
from site_pages import ROOT


def on_pre_build(config: MkDocsConfig) -> None:
    """Write the pages again: a server builds after each change of a source."""
    docs_site.write(Path(config.docs_dir).parent)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave signatures out of the search: they repeat the words of a hundred parameters."""
    signature = '<div class="doc-signature'
    return html.replace(signature, signature.replace("<div", "<div data-search-exclude"))


def on_post_build(config: MkDocsConfig) -> None:
    """Write the pages for language models into the site."""
    source = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    llms.write(Path(config.site_dir), source["nav"])


class Examples(griffe.Extension):
    """Show the examples of docstrings as code; in Markdown, lines of ``>>>`` are quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called once for each class, function, attribute and module below the root."""
        if obj.docstring is not None and "```" not in obj.docstring.value:
            obj.docstring.value = with_examples(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called once for the root."""
        self.on_object(obj=pkg)
