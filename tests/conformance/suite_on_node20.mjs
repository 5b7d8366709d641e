// The suites import `globSync` of "fs", which Node 20 lacks, for commands that are never run here: so they get an
// "fs" that has it. Loaded with `node --import`; the packages stay as they were published.
import { register } from "node:module";

const fs = 'export * from "node:fs"; export const globSync = () => [];';
const hooks = `export async function resolve(specifier, context, next) {
  return specifier === "fs" && /\\/conformance-0\\.\\d\\/dist\\//.test(context.parentURL ?? "")
    ? { url: ${JSON.stringify(`data:text/javascript,${encodeURIComponent(fs)}`)}, shortCircuit: true }
    : next(specifier, context);
}`;

register(`data:text/javascript,${encodeURIComponent(hooks)}`);
