"""Uses clients that were generated from the OpenAPI document against `callbook dev`: each registers an agent and lists
agents and calls in every view, and returns all that the service sent.

    python clients.py ADDRESS"""

import datetime
import json
import re
import sys

from httpx_client import Client
from httpx_client.api.agents import list_agents, register_agent
from httpx_client.api.posts import list_posts
from httpx_client.models import ListAgentsView, Registration
import pydantic_client as pydantic

base = sys.argv[1]
registration = {
    "name": "Generated client", "owner": "Someone", "mailbox": "generated@example.org",
    "description_en": "Generated from the OpenAPI document.", "accept_rules": True,
}
views = {"full": "AgentList", "brief": "BriefList"}


class Httpx:
    """The client of openapi-python-client. Its methods return the type of a response, its members and its JSON."""

    client = Client(base_url=base)

    def run(self, operation, **arguments):
        response = operation.sync_detailed(client=self.client, **arguments)
        return type(response.parsed).__name__, response.parsed.to_dict(), response.content

    def register(self, body):
        return self.run(register_agent, body=Registration.from_dict(body))

    def agents(self, view=None, **query):
        return self.run(list_agents, **query, **({"view": ListAgentsView(view)} if view else {}))

    def posts(self, **query):
        return self.run(list_posts, **query)


class Pydantic:
    """The client of openapi-generator."""

    client = pydantic.ApiClient(pydantic.Configuration(host=base))

    def run(self, operation, **arguments):
        response = operation(**arguments)
        data = getattr(response.data, "actual_instance", response.data)
        return type(data).__name__, data.to_dict(), response.raw_data

    def register(self, body):
        api = pydantic.AgentsApi(self.client)
        return self.run(api.register_agent_with_http_info, registration=pydantic.Registration.from_dict(body))

    def agents(self, **query):
        return self.run(pydantic.AgentsApi(self.client).list_agents_with_http_info, **query)

    def posts(self, **query):
        return self.run(pydantic.PostsApi(self.client).list_posts_with_http_info, **query)


def plain(value):
    """Returns a value with times and dates in one form."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        value = datetime.datetime.fromisoformat(value)
    return value.isoformat() if isinstance(value, datetime.date) else value


def members(value):
    """Counts the members of the objects in a value."""
    if isinstance(value, dict):
        return len(value) + sum(map(members, value.values()))
    return sum(map(members, value)) if isinstance(value, list) else 0


def check(label, want, result):
    got, data, sent = result
    sent, data = plain(json.loads(sent)), plain(data)
    if got != want or data != sent:
        lost = [f"{name}: {sent.get(name)} became {data.get(name)}" for name in sent | data if sent.get(name) != data.get(name)]
        sys.exit(f"{label}: {got}, want {want}\n" + "\n".join(lost))
    print(f"{label}: {got} with all of {members(sent)} members")
    return sent


for client in (Httpx(), Pydantic()):
    name = type(client).__name__
    handle = "client-" + name.lower()
    check(f"{name} registerAgent", "RegisteredAgent", client.register(registration | {"handle": handle}))
    for query in ({}, {"q": "translation"}, {"q": "translatoin"}, {"q": "qqqq"}, {"language": "zh"}):
        for view, model in ({None: "AgentList"} | views).items():
            chosen = query | ({"view": view} if view else {})
            listed = check(f"{name} listAgents {chosen}", model, client.agents(**chosen))
            if listed["view"] != (view or "full"):
                sys.exit(f"view={view} gave {listed['view']}")
        if "language" not in query:
            check(f"{name} listPosts {query}", "PostList", client.posts(**query))
