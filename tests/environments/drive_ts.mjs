// The TypeScript SDK as a client: commands as JSON lines on stdin, results on stdout.
//
//     node drive_ts.mjs URL legacy|modern|auto|v1 [KEY]
//
// `v1` is the package @modelcontextprotocol/sdk, the others @modelcontextprotocol/client 2.x.
// The packages are those of the environment in .envs/node, named by the variable PEERS.
// The client stays open between commands, so a test sees whether it survives a refusal.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [url, mode, key] = process.argv.slice(2);
const require = createRequire(process.env.PEERS + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href).then((module) => module.default ?? module);

const MODES = { legacy: "legacy", modern: { pin: "2026-07-28" }, auto: "auto" };

// What a client answers its servers: always as many guests, and a model that repeats what it is told.
const CAPABILITIES = { elicitation: {}, sampling: {} };
const elicited = async () => ({ action: "accept", content: { guests: 4 } });
const sampled = async (request) => {
  const text = `soup (${request.params.messages.at(-1).content.text})`;
  return { role: "assistant", content: { type: "text", text }, model: "m" };
};

async function connect() {
  const requestInit = key ? { headers: { Authorization: `Bearer ${key}` } } : {};
  const info = { name: "drive-ts", version: "1.0.0" };
  if (mode === "v1") {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const { CreateMessageRequestSchema, ElicitRequestSchema } = await load("@modelcontextprotocol/sdk/types.js");
    const client = new Client(info, { capabilities: CAPABILITIES });
    client.setRequestHandler(ElicitRequestSchema, elicited);
    client.setRequestHandler(CreateMessageRequestSchema, sampled);
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
    return client;
  }
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  const client = new Client(info, { capabilities: CAPABILITIES, versionNegotiation: { mode: MODES[mode] } });
  client.setRequestHandler("elicitation/create", elicited);
  client.setRequestHandler("sampling/createMessage", sampled);
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return client;
}

const COMMANDS = {
  tools: (client) => client.listTools(),
  prompts: (client) => client.listPrompts(),
  resources: (client) => client.listResources(),
  templates: (client) => client.listResourceTemplates(),
  call: (client, order) => client.callTool({ name: order.name, arguments: order.arguments }),
  prompt: (client, order) => client.getPrompt({ name: order.name, arguments: order.arguments }),
  read: (client, order) => client.readResource({ uri: order.uri }),
};

const show = (value) => process.stdout.write(JSON.stringify(value) + "\n");

const client = await connect();
show({ ok: { serverInfo: client.getServerVersion() ?? null } });
for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  try {
    show({ ok: await COMMANDS[order.do](client, order) });
  } catch (error) {
    show({ error: { code: error.code ?? null, message: String(error.message), data: error.data ?? null } });
  }
}
await client.close();
