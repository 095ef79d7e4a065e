"""The prefix of requests, which providers cache: changes between model calls, and their authors.

A provider reads a request in the order tools, system prompt, messages. The part equal to the
request before is read from the cache. After a change, nothing is.
"""
