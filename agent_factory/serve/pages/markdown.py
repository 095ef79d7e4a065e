"""Markdown: text of a model as HTML that can neither run nor load anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

LONGEST_CODE = 20_000
"""Most characters of code with colors: more takes too long."""

# A hostile text could take much time with another language.
_LANGUAGES = re.compile(
    "bash|console|css|diff|go|html|http|ini|java|javascript|js|json|jsx|kotlin|php|py|python|ruby|"
    "rust|scss|sh|shell|sql|toml|ts|tsx|typescript|xml|ya?ml"
)
_COLORS: Any = HtmlFormatter(nowrap=True)
_BOX = '<div class="table-box" tabindex="0" role="group" aria-label="Table">'


def markdown(text: str) -> Markup:
    """A text in Markdown as HTML.

    HTML is shown as text. Images are not loaded, since an address of a model could learn of the
    conversation. Links lead to http, https and mailto alone.

    >>> markdown("**No** <b>")
    Markup('<p><strong>No</strong> &lt;b&gt;</p>\\n')
    >>> markdown("[a](javascript:alert())")
    Markup('<p>[a](javascript:alert())</p>\\n')
    """
    return Markup(_MARKDOWN.render(text))


def plain_words(text: str) -> str:
    """A text in Markdown as words, for a place without room.

    >>> plain_words("## Paid\\n**120 euros** for `A-1`.")
    'Paid 120 euros for A-1.'
    """
    inline = (child for token in _MARKDOWN.parse(text) for child in token.children or [token])
    return " ".join("".join(f"{part.content or ' '}" for part in inline).split())


class _Markdown(MarkdownIt):
    """Markdown whose links lead to other sites and to mailboxes alone."""

    def validateLink(self, url: str) -> bool:
        """Return True if a link may lead to an address."""
        try:
            parts = urlsplit(url)
        except ValueError:  # such as "http://["
            return False
        # Without a host, an address is within this site.
        return parts.scheme == "mailto" or (
            parts.scheme in ("http", "https") and bool(parts.netloc)
        )


class _Renderer(RendererHTML):
    """Sets links, tables and code."""

    def link_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        """A link to a new window, which cannot reach this window."""
        # `validateLink` does not see empty addresses, which lead to the page.
        if not tokens[idx].attrs.get("href"):
            tokens[idx].attrs.pop("href", None)
        tokens[idx].attrs |= {"rel": "noopener noreferrer", "target": "_blank"}
        return self.renderToken(tokens, idx, options, env)

    def heading_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        """The beginning of a heading, below the title of the page."""
        # No level is left out, for people who go from heading to heading.
        env["heading"] = min(int(tokens[idx].tag[1]) + 1, env.get("heading", 1) + 1, 6)
        tokens[idx].tag = f"h{env['heading']}"
        return self.renderToken(tokens, idx, options, env)

    def heading_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        """The end of a heading, of the same level."""
        tokens[idx].tag = f"h{env['heading']}"
        return self.renderToken(tokens, idx, options, env)

    def table_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        """A table in a box, for scrolling."""
        return _BOX + self.renderToken(tokens, idx, options, env)

    def table_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        """The end of a table."""
        return self.renderToken(tokens, idx, options, env) + "</div>"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A cell, whose alignment is a class: the policy of the page allows no style in HTML."""
        if style := tokens[idx].attrs.pop("style", None):
            tokens[idx].attrs["class"] = str(style).partition(":")[2]
        return self.renderToken(tokens, idx, options, env)

    td_open = th_open

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A block of code, with its language and a button for a copy."""
        code, language = tokens[idx].content, tokens[idx].info.strip().split(" ")[0]
        content = escape(code)
        if _LANGUAGES.fullmatch(language.lower()) and len(code) <= LONGEST_CODE:
            # Older versions of Pygments know fewer languages.
            with suppress(ClassNotFound):
                lexer = get_lexer_by_name(language.lower(), stripnl=False)
                content = Markup(highlight(code, lexer, _COLORS))
        return Markup(
            '<div class="code-block"><p class="language"><span>{}</span>'
            '<button type="button" class="quiet script" data-copy-code>Copy code</button></p>'
            '<pre tabindex="0"><code>{}</code></pre></div>\n'
        ).format(language[:30] or "text", content)

    code_block = fence


# No HTML: models are not trusted. No images: see `markdown`.
_MARKDOWN = _Markdown("commonmark", {"html": False}, renderer_cls=_Renderer)
_MARKDOWN.enable(["table", "strikethrough"]).disable("image")
