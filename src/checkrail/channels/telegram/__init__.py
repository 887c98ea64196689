"""Telegram: a bot, by the Bot API."""

from checkrail.channels.telegram.channel import TelegramChannel, TelegramOptions

__all__ = ["TelegramChannel", "TelegramOptions"]
