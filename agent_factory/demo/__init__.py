"""The demo: a support desk for a small shop, on a real model, with a real database."""
