// A stock MCP client (the official TypeScript SDK) driven by JSON lines.
//
//   node client.mjs -- COMMAND ARGS...          an MCP server on stdio
//   node client.mjs --url URL [--bearer TOKEN]  one over streamable HTTP
//
// Standard input, one request a line:
//   {"id":1,"op":"list"}
//   {"id":2,"op":"call","tool":"read_file","args":{...},"timeoutMs":60000}
//   {"id":3,"op":"cancel","of":2}
//   {"id":4,"op":"request","method":"tools/list","params":{...}}
// Standard output, one event a line: {"event":"connected",...} first, then
// {"id":..,"progress":{..}}, {"id":..,"result":{..}} or {"id":..,"error":{..}}.
// The end of the input closes the connection.
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ResultSchema } from '@modelcontextprotocol/sdk/types.js';

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const problem = (e) => ({ name: e?.name ?? '', code: e?.code ?? null, message: String(e?.message ?? e), data: e?.data ?? null });

function transport(argv) {
  if (argv[0] === '--') {
    return new StdioClientTransport({ command: argv[1], args: argv.slice(2), env: { ...process.env }, stderr: 'inherit' });
  }
  const url = new URL(argv[argv.indexOf('--url') + 1]);
  const headers = argv.includes('--bearer') ? { Authorization: 'Bearer ' + argv[argv.indexOf('--bearer') + 1] } : {};
  return new StreamableHTTPClientTransport(url, { requestInit: { headers } });
}

const wire = transport(process.argv.slice(2));
let protocol = null;
const inner = wire.setProtocolVersion?.bind(wire);
wire.setProtocolVersion = (v) => { protocol = v; inner?.(v); };

const client = new Client({ name: 'weft-e2e', version: '1.0.0' }, { capabilities: {} });
try {
  await client.connect(wire);
} catch (e) {
  say({ event: 'refused', error: problem(e) });
  await client.close().catch(() => {});
  process.exit(1);
}
client.onclose = () => say({ event: 'closed' });
say({ event: 'connected', server: client.getServerVersion(), capabilities: client.getServerCapabilities(), protocol });

const running = new Map(); // id -> AbortController

async function perform(step) {
  const abort = new AbortController();
  running.set(step.id, abort);
  const options = { signal: abort.signal, timeout: step.timeoutMs ?? 120000, resetTimeoutOnProgress: true,
    onprogress: (p) => say({ id: step.id, progress: p }) };
  try {
    switch (step.op) {
      case 'list':
        say({ id: step.id, result: await client.listTools(step.params ?? {}, options) });
        break;
      case 'call':
        say({ id: step.id, result: await client.callTool({ name: step.tool, arguments: step.args ?? {} }, undefined, options) });
        break;
      case 'request':
        say({ id: step.id, result: await client.request({ method: step.method, params: step.params ?? {} }, ResultSchema.passthrough(), options) });
        break;
      default:
        throw new Error('unknown op ' + step.op);
    }
  } catch (e) {
    say({ id: step.id, error: problem(e) });
  } finally {
    running.delete(step.id);
  }
}

const pending = new Set();
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === '') continue;
  const step = JSON.parse(line);
  if (step.op === 'cancel') {
    running.get(step.of)?.abort('cancelled by the test');
    say({ id: step.id, result: {} });
    continue;
  }
  const p = perform(step).finally(() => pending.delete(p));
  pending.add(p);
}
await Promise.all(pending);
await client.close();
