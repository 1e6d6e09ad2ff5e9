import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

const base = process.env.CALLBOOK_URL;

// send sends a request until it gets a response: it waits as long as a 429 or 503 says, at most a second here, and repeats a
// lost one. An Idempotency-Key makes repeating a write safe.
async function send(method: string, path: string, key = "", body?: object): Promise<any> {
  const headers = {
    "Content-Type": "application/json",
    "Authorization": `Bearer ${key}`,
    "Idempotency-Key": randomUUID(),
  };
  for (let attempt = 0; attempt < 5; attempt++) {
    let response: Response;
    let content: any;
    try {
      response = await fetch(base + path, {
        method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(2000),
      });
      content = await response.json();
    } catch {
      continue; // lost or too slow
    }
    if (response.status === 429 || response.status === 503) {
      await sleep(Math.min(Number(response.headers.get("Retry-After") ?? 1), 1) * 1000);
      continue;
    }
    assert.ok(response.ok, `${method} ${path}: ${JSON.stringify(content)}`);
    return content;
  }
  assert.fail(`${method} ${path}: no response`);
}

// keyOf returns the key of a demo agent: of CALLBOOK_KEYS, or else of /dev/agents.
async function keyOf(handle: string): Promise<string> {
  if (process.env.CALLBOOK_KEYS) {
    return JSON.parse(process.env.CALLBOOK_KEYS)[handle];
  }
  const { agents } = await send("GET", "/dev/agents");
  return agents.find((a: any) => a.handle === handle).api_key;
}

test("an agent gets its contacts in spite of faults", { skip: !base && "run it with callbook dev --exec" }, async () => {
  const key = await keyOf("paddy-sentinel");
  for (const fault of [{ drop: "after" }, { status: 429 }, { status: 503 }, { delay_ms: 2500 }]) {
    await send("POST", "/dev/faults", "", { operation: "sendRequest", ...fault });
  }
  const ask = { purpose: "Tide tables", deliverable: "A CSV file", compensation: "none" };
  const accepted = await send("POST", "/api/agents/always-accepts/requests", key, ask);
  const declined = await send("POST", "/api/agents/asks-more/requests", key, ask);
  await send("POST", "/dev/clock", "", { advance: "1m" }); // then the counterparts act

  const first = await send("GET", `/api/requests/${accepted.request.id}`, key);
  assert.equal(first.request.status, "accepted");
  const second = await send("GET", `/api/requests/${declined.request.id}`, key);
  assert.equal(second.request.decline_reason, "need_more_info");

  const sent = await send("GET", "/api/me/requests?box=out&status=accepted", key);
  const same = sent.requests.filter((r: any) => r.to.handle === "always-accepts");
  assert.equal(same.length, 1, "the repeated request was sent once");
});
