// MCP's first client for TypeScript.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { run } from "./checks.mjs";
import { mcpChecks } from "./mcp_checks.mjs";

async function connect(url, answer) {
  const capabilities = answer ? { elicitation: {} } : {};
  const client = new Client({ name: "bench", version: "1" }, { capabilities });
  if (answer) client.setRequestHandler(ElicitRequestSchema, answer);
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
  return client;
}

const call = (client, name, args, options) =>
  client.callTool({ name, arguments: args }, undefined, options);

await run(mcpChecks(connect, call));
