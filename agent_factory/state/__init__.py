"""State of an agent: schemas, channels, histories, updates and values of JSON.

The modules are private; import the names from `agent_factory`.
"""

# For the service, which takes values from outside and hands outputs over.
from agent_factory.state.channels import has_stored_value as has_stored_value
from agent_factory.state.json_values import DEEPEST as DEEPEST
from agent_factory.state.json_values import check_json as check_json
from agent_factory.state.json_values import check_storable as check_storable
from agent_factory.state.json_values import json_fault as json_fault
from agent_factory.state.json_values import place_of as place_of
from agent_factory.state.json_values import storable_text as storable_text
from agent_factory.state.json_values import text_fault as text_fault
