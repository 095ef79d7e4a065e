"""`python -m agent_factory.cli`."""

from agent_factory.cli import main

if __name__ == "__main__":
    main()
