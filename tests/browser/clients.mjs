// Loads a merged trace in real readers of Chrome traces and compares what they saw with the file.
//
//   node clients.mjs engine TRACE             the trace engine of Chrome's developer tools
//   node clients.mjs speedscope TRACE [PNG]   speedscope in headless Chromium
//
// speedscope complains in its console where slices of one track overlap without nesting: a strict
// judge of lanes. Exit status 0 = loaded without complaint, 77 = no Chromium.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import zlib from 'node:zlib';
import { createRequire } from 'node:module';

const require = createRequire(path.join(process.cwd(), 'x.js'));

function fail(text) {
  console.error(`FAILED: ${text}`);
  process.exit(1);
}

function load(file) {
  let bytes = fs.readFileSync(file);
  if (file.endsWith('.gz')) bytes = zlib.gunzipSync(bytes);
  return JSON.parse(bytes.toString('utf8'));
}

async function engine(file) {
  globalThis.DOMRect ??= class {
    constructor(x = 0, y = 0, width = 0, height = 0) {
      Object.assign(this, { x, y, width, height });
    }
  };
  const entry = require.resolve('@paulirish/trace_engine/models/trace/trace.js');
  const Trace = await import(entry);
  const trace = load(file);
  const model = Trace.TraceModel.Model.createWithAllHandlers();
  await model.parse(trace.traceEvents, { metadata: {}, isFreshRecording: false });
  const parsed = model.parsedTrace?.(0) ?? model.parsedTrace();
  const data = parsed?.data ?? parsed;
  if (!data) fail('trace engine: nothing parsed');
  const meta = data.Meta;
  const want = new Map(); // pid:tid -> number of slices
  const names = new Map();
  for (const e of trace.traceEvents) {
    if (e.ph === 'X') want.set(`${e.pid}:${e.tid}`, (want.get(`${e.pid}:${e.tid}`) ?? 0) + 1);
    if (e.ph === 'M' && e.name === 'thread_name') names.set(`${e.pid}:${e.tid}`, e.args.name);
  }
  if (!meta.traceIsGeneric) fail('trace engine: not taken as a generic trace');
  let seen = 0;
  for (const [pid, process] of data.Renderer.processes)
    for (const [tid, thread] of process.threads) {
      const key = `${pid}:${tid}`;
      const n = thread.entries.filter(e => e.ph === 'X').length;
      if (n !== (want.get(key) ?? 0)) fail(`trace engine: ${key} has ${n} slices, the file ${want.get(key)}`);
      if (want.has(key)) {
        seen += 1;
        const name = meta.threadsInProcess?.get(pid)?.get(tid)?.args?.name ?? thread.name;
        if (name !== names.get(key)) fail(`trace engine: ${key} is named ${name}, in the file ${names.get(key)}`);
      }
    }
  if (seen !== want.size) fail(`trace engine: ${seen} tracks of ${want.size}`);
  console.log(`trace engine: ${seen} tracks, ${[...want.values()].reduce((a, b) => a + b, 0)} slices`);
}

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm' };

function serve(root) {
  const server = http.createServer((req, res) => {
    const file = path.join(root, path.normalize(new URL(req.url, 'http://localhost').pathname));
    if (!file.startsWith(root) || !fs.existsSync(file) || fs.statSync(file).isDirectory()) {
      res.writeHead(404).end();
      return;
    }
    res.writeHead(200, { 'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream' });
    fs.createReadStream(file).pipe(res);
  });
  return new Promise(done => server.listen(0, '127.0.0.1', () => done(server)));
}

function find_chromium() {
  const dirs = (process.env.PATH ?? '').split(':');
  for (const name of ['chromium', 'chromium-browser', 'google-chrome'])
    for (const dir of dirs) {
      const file = path.join(dir, name);
      if (fs.existsSync(file)) return file;
    }
  return null;
}

async function speedscope(file, png) {
  const executablePath = find_chromium();
  if (!executablePath) {
    console.log('skipped: no chromium');
    process.exit(77);
  }
  const { chromium } = require('playwright-core');
  const root = path.join(path.dirname(require.resolve('speedscope/package.json')), 'dist', 'release');
  const server = await serve(root);
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  const complaints = [];
  try {
    const page = await browser.newPage({ viewport: { width: 1400, height: 800 } });
    page.on('console', m => {
      const text = m.text();
      if (m.type() === 'error' || m.type() === 'warning' || /Tried to end|mismatch|invalid/i.test(text))
        if (!/favicon|404|GL Driver Message/.test(text)) complaints.push(text);
    });
    page.on('pageerror', e => complaints.push(String(e)));
    await page.goto(`http://127.0.0.1:${server.address().port}/index.html`);
    await page.setInputFiles('input[type=file]', file);
    await page.waitForFunction(() => /rank \d/.test(document.body.innerText) || /rank \d/.test(document.title), null, { timeout: 60000 });
    const title = await page.title();
    const text = await page.evaluate(() => document.body.innerText);
    if (png) await page.screenshot({ path: png });
    console.log(`speedscope: "${title}"; ${text.split('\n')[0]}`);
  } finally {
    await browser.close();
    server.close();
  }
  if (complaints.length) fail(`speedscope: ${complaints.slice(0, 5).join(' | ')}`);
}

const [mode, file, png] = process.argv.slice(2);
await (mode === 'engine' ? engine(file) : speedscope(file, png));
