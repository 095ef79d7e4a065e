"""Find private data in text, and replace it: what guards of conversations and shells share."""
