"""Tests of the service; the modules in here are what they share."""
