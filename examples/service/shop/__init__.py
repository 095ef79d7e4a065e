"""A shop whose support desk runs as a service."""
