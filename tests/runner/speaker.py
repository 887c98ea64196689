"""A runner that speaks the protocol word by word."""

ALL = {"tags": ["elsewhere"], "agents": ["where", "waits", "gpu"], "kinds": ["procedural"]}


class Speaker:
    """A runner that says only what a test has it say."""

    def __init__(self, place, **told):
        self.client = place.asking.client
        answer = self.client.post("/runner/register", json={"name": "test", **ALL, **told})
        self.told = answer.json()
        self.headers = {"X-Runner-Id": self.told["runner_id"]}

    def poll(self, room=1, **more):
        params = {"room": room, **more}
        return self.client.get("/runner/runs", params=params, headers=self.headers)

    def claim(self):
        """The next run."""
        [claim] = self.poll().json()["runs"]
        return claim["run"]

    def say(self, run, what, **body):
        path = f"/runner/runs/{run['run_id']}/{what}"
        told = {"attempt": run["attempt"], **body}
        return self.client.post(path, json=told, headers=self.headers)

    def leave(self):
        self.client.post("/runner/deregister", headers=self.headers)
