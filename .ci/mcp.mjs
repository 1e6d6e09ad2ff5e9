// Other people's MCP clients against `callbook dev`: the inspector on the command
// line, and both lines of the official SDK, in every version of the protocol that
// they speak. The SDKs hold each structured answer against the tool's output schema
// themselves; here it is compared with what the REST API says. Then what a model pays for
// the tools and their pages, in tokens.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as Transport1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from "@modelcontextprotocol/client";

const [base, inspector] = process.argv.slice(2);
const endpoint = new URL("/mcp", base);
const me = { name: "callbook-ci", version: "1.0.0" };

async function get(path) {
  const response = await fetch(base + path, { signal: AbortSignal.timeout(10_000) });
  assert(response.ok, `${path}: ${response.status}`);
  return response;
}
const json = async (path) => (await get(path)).json();
const text = async (path) => (await get(path)).text();

const first = (await json("/api/posts?author=wrensong&limit=1")).posts[0];

// brief shortens a page of the API as a search tool does.
function brief(page) {
  for (const agent of page.agents ?? []) {
    delete agent.matched_offerings;
    agent.offerings = agent.offerings.map((offering) => offering.title);
  }
  for (const post of page.posts ?? []) {
    const body = [...post.body];
    Object.assign(post, { body: body.slice(0, 160).join(""), body_truncated: body.length > 160 });
  }
  return page;
}

// Each tool with arguments, and what it has to answer.
const calls = [
  ["search_agents", { q: "translation", limit: 3, min_level: 1 }, async () => brief(await json("/api/agents?view=brief&q=translation&limit=3&min_level=1"))],
  ["search_agents", { q: "港", new: false }, async () => brief(await json("/api/agents?view=brief&q=%E6%B8%AF&new=false&limit=10"))],
  ["get_agent", { handle: "twinscript" }, () => json("/api/agents/twinscript")],
  ["search_calls", { kind: "seeking", open: true, limit: 5 }, async () => brief(await json("/api/posts?kind=seeking&open=true&limit=5"))],
  ["get_call", { id: first.id }, () => json(`/api/posts/${first.id}?limit=10`)],
  ["list_collabs", { handle: "@Twinscript" }, () => json("/api/collabs?handle=twinscript&limit=10")],
  ["get_stats", {}, () => json("/api/stats")],
  ["get_guide", { lang: "en" }, async () => ({ lang: "en", guide: await text("/skill.md?lang=en") })],
  ["get_guide", { lang: "zh" }, async () => ({ lang: "zh", guide: await text("/skill.md?lang=zh") })],
];
const names = [...new Set(calls.map(([name]) => name))].sort();

const skill = "skill://callbook/SKILL.md";
const resources = {
  [skill]: () => text("/skill.md"),
  "callbook://guide": () => text("/skill.md?lang=en"),
  "callbook://guide/zh": () => text("/skill.md?lang=zh"),
  "callbook://agents/twinscript": () => text("/api/agents/twinscript"),
};

// check goes through all that a client of any kind can do.
async function check(client) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name).sort(), names);
  for (const tool of tools) {
    assert.equal(tool.annotations?.readOnlyHint, true, tool.name);
    assert.equal(tool.outputSchema?.type, "object", tool.name);
  }
  for (const [name, args, twin] of calls) {
    const answer = await client.callTool({ name, arguments: args });
    const [said, want] = [answer.structuredContent, await twin()];
    if (name === "get_stats") delete said.as_of, delete want.as_of;
    assert.deepEqual(said, want, name);
    assert.deepEqual(Object.keys(said), Object.keys(want), `${name}: the order of keys`);
    assert.equal(answer.content.length, 1, name);
    if (want.notice) assert.equal(answer.content[0].text.indexOf(want.notice.en), 0, `${name}: the text does not begin with the notice`);
    if (want.notice) assert.equal(answer.content[0].text.split(want.notice.en).length, 2, `${name}: not one notice`);
  }
  const listed = (await client.listResources()).resources.map((resource) => resource.uri);
  assert.deepEqual(listed.sort(), ["callbook://guide", "callbook://guide/zh", skill]);
  const templates = (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate);
  assert.deepEqual(templates, ["callbook://agents/{handle}"]);
  for (const [uri, twin] of Object.entries(resources)) {
    const { contents } = await client.readResource({ uri });
    assert.deepEqual(contents.map((content) => [content.uri, content.text]), [[uri, await twin()]]);
  }
}

// checkMore is for clients that show refusals as they came, and need no process for
// each call.
async function checkMore(client) {
  for (const [name, args, code] of [
    ["get_agent", { handle: "nobody-here" }, "not_found"],
    ["search_agents", { limit: 1000 }, "invalid_query"],
    ["search_agents", { colour: "red" }, "invalid_query"],
  ]) {
    const answer = await client.callTool({ name, arguments: args });
    assert(answer.isError, `${name} is not refused`);
    assert.equal(answer.structuredContent.error.code, code);
  }
  await assert.rejects(client.callTool({ name: "delete_agent", arguments: {} }));
  await assert.rejects(client.readResource({ uri: "callbook://agents/nobody-here" }));
  const seen = new Set();
  for (let cursor; ; ) {
    const { structuredContent: page } = await client.callTool({ name: "search_agents", arguments: cursor ? { cursor } : { limit: 20 } });
    for (const agent of page.agents) seen.add(agent.handle);
    if (page.next === null) break;
    cursor = page.next;
  }
  assert.equal(seen.size, (await json("/api/stats")).agents, "paging does not visit every agent");
}

// The inspector as a client: a process for each call.
function inspect(era) {
  const ask = async (method, ...more) => {
    const args = [inspector, "--cli", "--server-url", endpoint.href, "--transport", "http", "--protocol-era", era, "--format", "json", "--quiet", "--method", method, ...more];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 20_000, maxBuffer: 10e6 });
    return JSON.parse(stdout).result;
  };
  return {
    listTools: () => ask("tools/list", "--strict"),
    callTool: ({ name, arguments: args }) => ask("tools/call", "--tool-name", name, "--tool-args-json", JSON.stringify(args)),
    listResources: () => ask("resources/list"),
    listResourceTemplates: () => ask("resources/templates/list"),
    readResource: ({ uri }) => ask("resources/read", "--uri", uri),
  };
}

async function connected(client, transport, version) {
  await client.connect(transport);
  assert.equal(transport.protocolVersion ?? client.getNegotiatedProtocolVersion?.(), version);
  await check(client);
  await checkMore(client);
  await client.close();
}

const rounds = {
  "SDK 1, 2025-11-25": () => connected(new Client1(me), new Transport1(endpoint), "2025-11-25"),
  "SDK 2, 2026-07-28": () => connected(new Client2(me, { versionNegotiation: { mode: { pin: "2026-07-28" } } }), new Transport2(endpoint), "2026-07-28"),
};
for (const version of ["2025-06-18", "2025-03-26", "2024-11-05"]) {
  rounds[`SDK 2, ${version}`] = () => connected(new Client2(me, { supportedProtocolVersions: [version] }), new Transport2(endpoint), version);
}
for (const era of ["legacy", "modern"]) rounds[`inspector, ${era}`] = () => check(inspect(era));

await Promise.all(Object.entries(rounds).map(async ([name, round]) => {
  try {
    await round();
  } catch (error) {
    throw new Error(`${name}: ${error.message}`, { cause: error });
  }
  console.log(`${name}: passed`);
}));

async function call(method, params) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const response = await fetch(endpoint, { method: "POST", body, headers: { "Content-Type": "application/json" }, signal: AbortSignal.timeout(10_000) });
  return (await response.json()).result;
}

const { skills } = await call("skills/list");
const digest = createHash("sha256").update(await text("/skill.md")).digest("hex");
assert.deepEqual(skills[0].resources.map((file) => [file.uri, file.digest]), [[skill, `sha256:${digest}`]]);

const page = async (name, args) => (await call("tools/call", { name, arguments: args })).content[0].text;
for (const [what, most, said] of [
  ["tools/list", 3000, JSON.stringify(await call("tools/list"))],
  ["search_agents", 1500, await page("search_agents", {})],
  ["search_agents with q", 1500, await page("search_agents", { q: "writing data translation 数据" })],
  ["search_calls", 2500, await page("search_calls", {})],
]) {
  const tokens = countTokens(said);
  console.log(`${what}: ${tokens} tokens of at most ${most}`);
  assert(tokens <= most, `${what} costs too many tokens`);
}
