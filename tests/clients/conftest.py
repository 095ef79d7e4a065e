"""The browser, of which a process has one: a second one would find the loop of the first."""

from web.conftest import browser as browser
