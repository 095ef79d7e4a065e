"""Code that several built-in middleware share."""
