// MCP's newest client for TypeScript, which negotiates the version.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { run } from "./checks.mjs";
import { mcpChecks } from "./mcp_checks.mjs";

const connect = (mode) => async (url, answer) => {
  const capabilities = answer ? { elicitation: {} } : {};
  const versionNegotiation = mode ? { mode } : undefined;
  const client = new Client({ name: "bench", version: "2" }, { capabilities, versionNegotiation });
  if (answer) client.setRequestHandler("elicitation/create", answer);
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
  return client;
};

const call = (client, name, args, options) => client.callTool({ name, arguments: args }, options);

const newest = Object.entries(mcpChecks(connect("auto"), call)).map(([name, check]) => [`${name} (2026-07-28)`, check]);
await run({ ...mcpChecks(connect(), call), ...Object.fromEntries(newest) });
