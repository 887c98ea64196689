"""Slack: messages over the Events API or Socket Mode, answers and buttons by the Web API."""

from checkrail.channels.slack.channel import SlackChannel, SlackOptions

__all__ = ["SlackChannel", "SlackOptions"]
