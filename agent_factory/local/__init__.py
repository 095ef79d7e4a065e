"""The parts of the embedded model; `agent_factory.local_model` is the door to them."""
