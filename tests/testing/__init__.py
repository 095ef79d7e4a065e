"""Tools for tests of agents: models, layers, laws, recordings, fake providers."""
