// A server with CopilotKit's runtime, whose agent speaks LangGraph's API. It prints "runtime" and its address.
import { createServer } from "node:http";
import { CopilotRuntime, ExperimentalEmptyAdapter, copilotRuntimeNodeHttpEndpoint } from "@copilotkit/runtime";
import { LangGraphAgent } from "@copilotkit/runtime/langgraph";

const [deploymentUrl, graphId] = process.argv.slice(2);
const endpoint = "/copilotkit";
const runtime = new CopilotRuntime({ agents: { [graphId]: new LangGraphAgent({ deploymentUrl, graphId }) } });
const serviceAdapter = new ExperimentalEmptyAdapter();
const handler = copilotRuntimeNodeHttpEndpoint({ endpoint, runtime, serviceAdapter });
const server = createServer((request, response) => handler(request, response));
server.listen(0, "127.0.0.1", () => console.log(`runtime http://127.0.0.1:${server.address().port}${endpoint}`));
