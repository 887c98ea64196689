"""A channel whose calls are places, and a journal of what it sends and closes."""

import json
from pathlib import Path

from raising import pass_by

from checkrail.channels import (
    Address,
    Channel,
    ChannelOptions,
    Inbound,
    Outbound,
    Reply,
    Sent,
    WebRequest,
)


class IntercomOptions(ChannelOptions):
    journal: str
    place: str = ""
    way: str = ""


class Intercom(Channel):
    Options = IntercomOptions

    def note(self, *told):
        with Path(self.options.journal).open("a") as journal:
            journal.write(json.dumps([self.name, *told]) + "\n")

    def pass_by(self, place):
        pass_by(place, {"place": self.options.place, "way": self.options.way})

    async def open(self, accept):
        await super().open(accept)
        self.pass_by("open")

    async def answer(self, request: WebRequest) -> Reply:
        self.pass_by("answer")
        said = json.loads(request.body)
        room = Address(self.name, account="house", conversation="room")
        await self.accept([Inbound("message", said["id"], room, "somebody", said["text"])])
        return Reply(202)

    async def send(self, to: Address, part: Outbound, *, delivery_id: str) -> Sent:
        self.note("send", part.text)
        self.pass_by("send")
        return Sent(delivery_id)

    async def close(self):
        self.note("close")
        self.pass_by("close")
