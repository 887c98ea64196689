"""A channel of one's own: an intercom that posts what it hears, signed by a shared secret."""

import hashlib
import hmac
import json

from pydantic import SecretStr

from checkrail.channels import (
    Address,
    Capabilities,
    Channel,
    ChannelOptions,
    Inbound,
    Outbound,
    Refused,
    Reply,
    RetryLater,
    Sent,
    WebRequest,
)


class IntercomOptions(ChannelOptions):
    """What checkrail.yaml says of an intercom."""

    secret: SecretStr
    speaker_url: str


class Intercom(Channel):
    """Rooms talk to the agent, and hear what it says."""

    Options = IntercomOptions
    capabilities = Capabilities(max_text=200)

    async def answer(self, request: WebRequest) -> Reply:
        """Take what a room said: first its signature, then its content."""
        secret = self.options.secret.get_secret_value().encode()
        wanted = hmac.new(secret, request.body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(
            request.headers.get("x-signature", "").encode(), wanted.encode()
        ):
            return Reply(401, b"bad signature")
        said = json.loads(request.body)
        room = Address(self.name, account="house", conversation=str(said["room"]))
        sender = f"room:{said['room']}"
        await self.accept([Inbound("message", str(said["id"]), room, sender, str(said["text"]))])
        return Reply(202)

    async def send(self, to: Address, part: Outbound, *, delivery_id: str) -> Sent:
        """Say something in a room."""
        body = json.dumps({"room": to.conversation, "text": part.text, "id": delivery_id})
        answer = await self.outbound.send("POST", self.options.speaker_url, content=body.encode())
        if answer.status in (429, 500, 502, 503, 504):
            raise RetryLater(f"the speaker answered {answer.status}")
        if answer.status >= 300:
            raise Refused(f"the speaker answered {answer.status}")
        return Sent(delivery_id)
