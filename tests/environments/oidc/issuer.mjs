// A real authorization server on loopback: commands as JSON lines on stdin, answers on stdout.
//
//     PEERS=FOLDER node issuer.mjs PORT RESOURCE LIFETIME
//
// Clients register themselves; whoever signs in as NAME is NAME, in the group "staff". Tokens are JWTs for RESOURCE and
// what is below it, valid LIFETIME seconds. Commands: {"rotate": [keys]} takes other signing keys, {"requests": true}
// tells which paths were asked for so far.

import http from "node:http";
import path from "node:path";
import readline from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(path.join(process.env.PEERS, "package.json"));
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);

const [port, resource, lifetime] = process.argv.slice(2);
const origin = `http://127.0.0.1:${port}`;
const scopes = ["mcp", "notes.write", "notes.read"];
const asked = [];

function provider(keys) {
  const made = new Provider(origin, {
    jwks: { keys },
    scopes: ["openid", "offline_access", ...scopes],
    clientDefaults: { token_endpoint_auth_method: "none" },
    clients: [
      {
        client_id: "robot",
        client_secret: "robot-secret-of-the-tests",
        token_endpoint_auth_method: "client_secret_post",
        grant_types: ["client_credentials"],
        redirect_uris: [],
        response_types: [],
      },
    ],
    extraClientMetadata: {
      properties: ["any_scope"],
      // A client registers with the scopes of its first challenge, and may be asked for more later.
      validator: (_, key, value, metadata) => delete metadata.scope,
    },
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: true },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => resource,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, indicator) => ({
          scope: scopes.join(" "),
          audience: indicator,
          accessTokenFormat: "jwt",
          accessTokenTTL: Number(lifetime),
          jwt: { sign: { alg: keys[0].alg } },
        }),
      },
    },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    extraTokenClaims: () => ({ groups: ["staff"] }),
    pkce: { required: () => true },
    ttl: { AccessToken: Number(lifetime), Grant: 3600, Session: 3600, Interaction: 600, ClientCredentials: Number(lifetime) },
    cookies: { keys: ["a key of the tests"] },
  });
  return made.callback();
}

let serve = provider(JSON.parse(process.env.KEYS));
const server = http.createServer((request, response) => {
  asked.push(request.url.split("?")[0]);
  serve(request, response);
});
server.listen(Number(port), "127.0.0.1", () => process.stdout.write(JSON.stringify({ issuer: origin }) + "\n"));

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const order = JSON.parse(line);
  if (order.rotate) serve = provider(order.rotate);
  process.stdout.write(JSON.stringify({ requests: asked }) + "\n");
});
