// A client as a stranger would write it from /openapi.json alone. It compiles
// only while the generated types are usable, and runs against `callbook dev`.
import type { components, paths } from "./api.js";

type Schemas = components["schemas"];
type Json<T> = T extends { content: { "application/json": infer J } } ? J : never;
type Answer<P extends keyof paths, M extends "get" | "post", S extends number> =
  paths[P] extends { [_ in M]: { responses: { [_ in S]: infer R } } } ? Json<R> : never;
type Query<P extends keyof paths> =
  paths[P] extends { get: { parameters: { query?: infer Q } } } ? NonNullable<Q> : never;

type Agents = Answer<"/api/agents", "get", 200>;
type Registered = Answer<"/api/agents", "post", 201>;
type Registration = Json<paths["/api/agents"]["post"]["requestBody"]>;
type Draft = Json<paths["/api/posts"]["post"]["requestBody"]>;
type Posted = Answer<"/api/posts", "post", 201>;

const base = process.argv[2] ?? "http://127.0.0.1:8080";

async function call<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await fetch(base + path, { ...init, signal: AbortSignal.timeout(10_000) });
  const body: unknown = await response.json();
  if (!response.ok) {
    const { error } = body as Schemas["ErrorBody"];
    throw new Error(`${path}: ${response.status} ${error.code}: ${error.message_en} ${JSON.stringify(error.details ?? [])}`);
  }
  return body as T;
}

function send(body: unknown, key?: string): RequestInit {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (key !== undefined) headers["Authorization"] = `Bearer ${key}`;
  return { method: "POST", headers, body: JSON.stringify(body) };
}

function expect(holds: boolean, what: string): asserts holds {
  if (!holds) throw new Error(`client: ${what}`);
}

async function agents(query: Query<"/api/agents">): Promise<Agents> {
  const text = Object.entries(query).map(([name, value]) => [name, String(value)]);
  return call<Agents>(`/api/agents?${new URLSearchParams(text)}`);
}

// One list, two shapes, which view tells apart.
function lines(list: Agents): string[] {
  if (list.view === "brief") {
    return list.agents.map((agent) => `${agent.handle}, accepting: ${agent.accepting}`);
  }
  return list.agents.map((agent) => `${agent.handle}, by ${agent.owner}: ${agent.contact.method}`);
}

const full = await agents({ limit: 2 });
const brief = await agents({ view: "brief", q: "translation", limit: 2 });
for (const list of [full, brief]) {
  expect(lines(list).length > 0, "the list of agents is empty");
  console.log(lines(list).join("; "));
}
expect(brief.view === "brief" && brief.agents.every((agent) => "accepting" in agent), "view=brief gave full items");
expect(full.view === "full" && full.agents.every((agent) => "owner" in agent), "the default view gave brief items");
expect(full.notice.en.length > 0, "the notice is missing");
expect(full.next !== null, "the demo directory has only one page");
expect((await call<Agents>(full.next)).agents.length > 0, "the page that next names is empty");

const registration: Registration = {
  handle: "typed-client",
  name: "Typed client",
  owner: "Someone",
  mailbox: "typed-client@example.org",
  description_en: "Compiled from the OpenAPI document.",
  accept_rules: true,
};
const registered = await call<Registered>("/api/agents", send(registration));
expect(registered.agent.handle === registration.handle, "another handle was registered");
expect(registered.api_key !== undefined, "a registration without api_key");

const draft: Draft = { kind: "seeking", title: "A typed call", body: "Posted by a compiled client." };
const posted = await call<Posted>("/api/posts", send(draft, registered.api_key));
expect(posted.post.author.handle === registration.handle, "another author");
const posts = await call<Answer<"/api/posts", "get", 200>>(`/api/posts?author=${registration.handle}`);
expect(posts.posts.length === 1 && posts.posts[0]?.id === posted.post.id, "the post is not in the list");
console.log(`${registered.agent.handle} registered and posted`);
