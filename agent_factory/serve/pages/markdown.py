"""Markdown: text of a model as HTML that can neither run nor load anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
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


def markdown(text: str) -> Markup:
    """A text in Markdown as HTML.

    HTML is shown as text. Images are not loaded, since an address of a model could learn of the
    conversation. Links lead to http, https and mailto alone.

    >>> markdown("**No** <b>")
    Markup('<p><strong>No</strong> &lt;b&gt;</p>\\n')
    >>> markdown("[a](javascript:alert())")
    Markup('<p>[a](javascript:alert())</p>\\n')
    """
    tokens = [*_shown(_MARKDOWN.parse(text))]
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))


def plain_words(text: str) -> str:
    """A text in Markdown as words, for a place without room.

    >>> plain_words("## Paid\\n**120 euros** for `A-1`.")
    'Paid 120 euros for A-1.'
    """
    inline = (child for token in _MARKDOWN.parse(text) for child in token.children or [token])
    return " ".join("".join(f"{part.content or ' '}" for part in inline).split())


def leads_elsewhere(url: str) -> bool:
    """Return True if a link to an address leads to another site or a mailbox."""
    try:
        parts = urlsplit(url)
    except ValueError:  # such as "http://["
        return False
    # Without a host, an address is within this site.
    return parts.scheme == "mailto" or (parts.scheme in ("http", "https") and bool(parts.netloc))


def _shown(tokens: Iterable[Token]) -> Iterator[Token]:
    """Tokens with links to new windows, headings below the title, boxed tables and colored code."""
    level = 1
    for token in tokens:
        if token.type == "inline":
            token.children = [*_shown(token.children or ())]
        elif token.type == "link_open":
            # `validateLink` does not see empty addresses, which lead to the page.
            if not token.attrs.get("href"):
                token.attrs.pop("href", None)
            # The new window cannot reach this window.
            token.attrs |= {"rel": "noopener noreferrer", "target": "_blank"}
        elif token.type in ("heading_open", "heading_close"):
            # No level is left out, for people who go from heading to heading.
            if token.nesting == 1:
                level = min(int(token.tag[1]) + 1, level + 1, 6)
            token.tag = f"h{level}"
        elif token.type in ("th_open", "td_open"):
            # A class: the policy of the page allows no style in HTML.
            if style := token.attrs.pop("style", None):
                token.attrs["class"] = str(style).partition(":")[2]
        elif token.type in ("fence", "code_block"):
            token = _html(_code(token.content, token.info.strip().split(" ")[0]))
        elif token.type == "table_open":  # for scrolling
            yield _html('<div class="table-box" tabindex="0" role="group" aria-label="Table">')
        yield token
        if token.type == "table_close":
            yield _html("</div>")


def _html(text: str) -> Token:
    return Token("html_block", "", 0, content=text)


def _code(code: str, language: str) -> str:
    """A block of code, with its language and a button for a copy."""
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


# No HTML: models are not trusted. No images: see `markdown`.
_MARKDOWN = MarkdownIt("commonmark", {"html": False})
_MARKDOWN.enable(["table", "strikethrough"]).disable("image")
_MARKDOWN.validateLink = leads_elsewhere  # type: ignore[method-assign]
