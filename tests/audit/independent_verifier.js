// Verifies an audit log from docs/audit.md alone, sharing no code with the gateway. Usage: node FILE DIR
const fs = require("fs"), path = require("path"), crypto = require("crypto");

function canonical(value) {
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const byCodePoint = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b));
  return "{" + Object.keys(value).sort(byCodePoint).map((key) => JSON.stringify(key) + ":" + canonical(value[key])).join(",") + "}";
}

let seq = 0, prev = "0".repeat(64), chain = null;
const fail = (file, line, reason) => { console.log(`FAIL ${file}:${line} seq ${seq + 1} ${reason}`); process.exit(1); };

for (const file of fs.readdirSync(process.argv[2]).filter((name) => /^[0-9]{8}\.jsonl$/.test(name)).sort()) {
  const lines = fs.readFileSync(path.join(process.argv[2], file), "utf8").split("\n");
  lines.pop();
  lines.forEach((text, index) => {
    const record = JSON.parse(text), { hash, ...body } = record;
    if (canonical(record) !== text) fail(file, index + 1, "not canonical");
    if (crypto.createHash("sha256").update("mcp-gateway-audit-v1\n" + canonical(body)).digest("hex") !== hash) fail(file, index + 1, "hash");
    if (body.seq !== seq + 1) fail(file, index + 1, "seq");
    if (body.prev !== prev) fail(file, index + 1, "prev");
    if (chain !== null && body.chain !== chain) fail(file, index + 1, "chain");
    [seq, prev, chain] = [body.seq, hash, body.chain];
  });
}
console.log(`OK ${seq} records`);
