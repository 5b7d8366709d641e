// Verifies an audit log from docs/audit.md alone, sharing no code with the gateway. Usage: node FILE DIR
const fs = require("fs"), path = require("path"), crypto = require("crypto");

const ZEROS = "0".repeat(64);
const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), crypto.createHash("sha256")).digest();

function canonical(value) {
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const byCodePoint = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b));
  return "{" + Object.keys(value).sort(byCodePoint).map((key) => JSON.stringify(key) + ":" + canonical(value[key])).join(",") + "}";
}

function merkle(leaves) {
  if (leaves.length === 0) return sha256("");
  if (leaves.length === 1) return sha256(Buffer.from([0]), leaves[0]);
  let split = 1;
  while (split * 2 < leaves.length) split *= 2;
  return sha256(Buffer.from([1]), merkle(leaves.slice(0, split)), merkle(leaves.slice(split)));
}

const folder = process.argv[2], pem = path.join(folder, "public.pem"), keys = {};
const add = (key) => {
  const raw = Buffer.from(key.export({ format: "jwk" }).x, "base64url").toString("base64");
  keys["s" + sha256("mcp-gateway-audit-signing-key\n" + raw).toString("hex").slice(0, 16)] = key;
};
const signed = fs.existsSync(pem);
if (signed) for (const part of fs.readFileSync(pem, "utf8").match(/-----BEGIN[^]*?-----END PUBLIC KEY-----/g)) add(crypto.createPublicKey(part));

let seq = 0, prev = ZEROS, chain = null, leaves = [], last = ZEROS, checkpoints = 0;
const fail = (file, line, reason) => { console.log(`FAIL ${file}:${line} seq ${seq + 1} ${reason}`); process.exit(1); };

function checkpoint(record, file, line) {
  const { signature, ...block } = record.checkpoint;
  const data = "mcp-gateway-audit-checkpoint-v1\n" + canonical({ ...block, chain: record.chain, ts: record.ts });
  if (!keys[block.key] || !crypto.verify(null, Buffer.from(data), keys[block.key], Buffer.from(signature, "base64"))) fail(file, line, "signature");
  if (block.seq !== seq || block.head !== prev || block.prev_checkpoint !== last) fail(file, line, "place");
  if (block.records !== leaves.length || block.merkle_root !== merkle(leaves).toString("hex")) fail(file, line, "Merkle root");
  if (block.next_key) add(crypto.createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: Buffer.from(block.next_key, "base64").toString("base64url") }, format: "jwk" }));
  checkpoints += 1;
}

for (const file of fs.readdirSync(folder).filter((name) => /^[0-9]{8}\.jsonl$/.test(name)).sort()) {
  const lines = fs.readFileSync(path.join(folder, file), "utf8").split("\n");
  lines.pop();
  lines.forEach((text, index) => {
    const record = JSON.parse(text), { hash, ...body } = record;
    if (canonical(record) !== text) fail(file, index + 1, "not canonical");
    if (sha256("mcp-gateway-audit-v1\n" + canonical(body)).toString("hex") !== hash) fail(file, index + 1, "hash");
    if (body.seq !== seq + 1) fail(file, index + 1, "seq");
    if (body.prev !== prev) fail(file, index + 1, "prev");
    if (chain !== null && body.chain !== chain) fail(file, index + 1, "chain");
    const isCheckpoint = signed && body.event === "audit.checkpoint";
    if (isCheckpoint) checkpoint(record, file, index + 1);
    [seq, prev, chain] = [body.seq, hash, body.chain];
    [leaves, last] = isCheckpoint ? [[], hash] : [[...leaves, Buffer.from(hash, "hex")], last];
  });
}
console.log(`OK ${seq} records, ${checkpoints} checkpoints`);
