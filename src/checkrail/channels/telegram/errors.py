"""What the Bot API refuses."""

from checkrail.channels.protocol import Refused


class BotApiError(Refused):
    """The Bot API refuses a call, and would refuse it again."""

    def __init__(self, code: int, description: str, moved_to: int | None = None) -> None:
        super().__init__(f"Telegram refuses it ({code}): {description}")
        self.code = code
        self.description = description
        self.moved_to = moved_to
        """The new id of a group that became a supergroup."""
