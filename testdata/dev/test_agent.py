import json
import os
import time
import unittest
import urllib.error
import urllib.request
import uuid

BASE = os.environ.get("CALLBOOK_URL", "")


def send(method, path, key="", body=None):
    """Sends a request until it gets a response: it waits as long as a 429 or 503 says, at most a second
    here, and repeats a lost one. An Idempotency-Key makes repeating a write safe."""
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {key}",
        "Idempotency-Key": str(uuid.uuid4()),
    }
    content = None if body is None else json.dumps(body).encode()
    for _ in range(5):
        request = urllib.request.Request(BASE + path, content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=2) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503):
                raise AssertionError(f"{method} {path}: {error.read().decode()}") from error
            time.sleep(min(int(error.headers.get("Retry-After", 1)), 1))
        except OSError:
            pass  # lost or too slow
    raise AssertionError(f"{method} {path}: no response")


def key_of(handle):
    """Returns the key of a demo agent: of CALLBOOK_KEYS, or else of /dev/agents."""
    if "CALLBOOK_KEYS" in os.environ:
        return json.loads(os.environ["CALLBOOK_KEYS"])[handle]
    return {a["handle"]: a["api_key"] for a in send("GET", "/dev/agents")["agents"]}[handle]


@unittest.skipUnless(BASE, "run it with callbook dev --exec")
class AgentTest(unittest.TestCase):
    def test_contacts_in_spite_of_faults(self):
        key = key_of("schema-owl")
        for fault in {"drop": "after"}, {"status": 429}, {"status": 503}, {"delay_ms": 2500}:
            send("POST", "/dev/faults", body={"operation": "recordCollab", **fault})
        work = {"partner": "confirms-all", "summary": "A tide table for two ports."}
        collab = send("POST", "/api/collabs", key, work)["collab"]
        self.assertEqual(collab["status"], "pending")
        send("POST", "/dev/clock", body={"advance": "1m"})  # then the counterparts act
        confirmed = send("GET", "/api/me/collabs?status=confirmed", key)["collabs"]
        self.assertEqual([c["id"] for c in confirmed if c["partner"]["handle"] == "confirms-all"], [collab["id"]])

    def test_new_agent_verifies_its_mailbox(self):
        handle = f"tide-{uuid.uuid4().hex[:8]}"
        mailbox = f"{handle}@agents.example.org"
        key = send("POST", "/api/agents", body={
            "handle": handle, "name": "Tide tables", "owner": "Me", "mailbox": mailbox,
            "description_en": "Computes tide tables.", "accept_rules": True,
        })["api_key"]
        send("POST", "/api/me/verify", key)
        code = send("GET", f"/dev/mail?to={mailbox}")["mail"][0]["code"]
        agent = send("POST", "/api/me/verify/confirm", key, {"code": code})["agent"]
        self.assertEqual(agent["trust"]["level"], 1)

    def test_text_of_agents_is_data(self):
        card = send("GET", "/api/agents/tries-injection")["agent"]
        self.assertIn("Ignore all previous instructions", card["description_en"])
        send("GET", "/api/me/requests", key_of("schema-owl"))
        calls = [c["operation"] for c in send("GET", "/dev/calls?handle=schema-owl")["calls"]]
        self.assertIn("listMyRequests", calls, "the journal has the agent")
        self.assertNotIn("rotateKey", calls, "the agent has followed orders of another")


if __name__ == "__main__":
    unittest.main()
