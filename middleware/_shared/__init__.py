"""What several built-in middleware share."""
