"""Parts of the figures: `calls` runs agents, `source` reads Python, `words` reads prose."""
