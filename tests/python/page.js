// Runs the script of the server's page with stand-ins for the document and the server:
// node page.js page.html. After "New" is pressed during an answer, the next chat must have no part
// of that answer.
"use strict";
const assert = require("node:assert");
const vm = require("node:vm");

const page = require("node:fs").readFileSync(process.argv[2], "utf8");
const script = /<script>(.*)<\/script>/s.exec(page)[1];

function element() {
  const listeners = {};
  return {
    textContent: "", value: "", disabled: false, children: [],
    append(child) { this.children.push(child); },
    after() {}, scrollIntoView() {},
    replaceChildren(...children) { this.children = children; },
    addEventListener(name, listener) { listeners[name] = listener; },
    requestSubmit() { this.fire("submit"); },
    fire(name) { listeners[name]({ preventDefault() {} }); },
  };
}

const elements = {}, asked = [];
const byId = (id) => elements[id] ??= element();

/// An answer with a piece, which ends when its client leaves or says so.
function fetch(url, request) {
  if (url === "/v1/models") return new Promise(() => {});
  let stream;
  const body = new ReadableStream({ start(controller) { stream = controller; } });
  const event = JSON.stringify({ choices: [{ delta: { content: "piece" } }] });
  stream.enqueue(new TextEncoder().encode(`data: ${event}\n`));
  request.signal.addEventListener("abort", () => stream.error(request.signal.reason));
  asked.push({ messages: JSON.parse(request.body).messages, end: () => stream.close() });
  return Promise.resolve({ ok: true, body });
}

vm.runInNewContext(script, {
  document: { getElementById: byId, createElement: element },
  location: { search: "" },
  fetch, performance, AbortController, TextDecoderStream, URLSearchParams,
});

async function until(condition) {
  for (let i = 0; i < 1000 && !condition(); ++i) await new Promise((done) => setTimeout(done, 5));
  assert.ok(condition(), String(condition));
}

async function say(text) {
  const turns = byId("talk").children.length;
  byId("text").value = text;
  byId("form").fire("submit");
  await until(() => byId("talk").children[turns + 1]?.textContent === "piece");
}

(async () => {
  await say("first");
  byId("fresh").fire("click");
  await until(() => !byId("send").disabled);
  assert.deepStrictEqual(byId("talk").children, []);
  await say("second");
  assert.deepStrictEqual(asked[1].messages, [{ role: "user", content: "second" }]);
  asked[1].end();
  await until(() => !byId("send").disabled);
  await say("third");
  assert.deepStrictEqual(asked[2].messages, [
    { role: "user", content: "second" },
    { role: "assistant", content: "piece" },
    { role: "user", content: "third" },
  ]);
  asked[2].end();
})();
