"""Guarantees about plans: sentences, verdicts, and the runs that prove them."""
