"""From where on a new stream is served."""

from __future__ import annotations

from dataclasses import dataclass

from checkrail.server.streams.channels import Subscription
from checkrail.server.streams.protocol import cursor_of


@dataclass(frozen=True, slots=True)
class ThreadFacts:
    """What is known of a thread when a stream of it is opened.

    `newest_base` is the `base_seq` of its newest run, None if there is none; `live` whether that
    run has not ended; `watched` whether a watcher was open when it ended, or was opened since.
    """

    last_seq: int = 0
    newest_base: int | None = None
    live: bool = False
    watched: bool = False


def replay_from(subscription: Subscription, thread: ThreadFacts) -> int:
    """Return the cursor after which a stream is served: what has a greater number is sent.

    A client that says what it has gets the rest. One that does not is either the first to hear
    of a quick run that it has just started, or comes back to a thread before it starts the next:
    the end of an earlier run would be taken for the end of the new one. So a run that is over
    is told again only if no watcher has learned of its end. The stream of a front end that shows
    what happens comes beside its watcher: it is told the newest run, whoever watched it.
    """
    if subscription.since is not None:
        return subscription.since
    unseen = thread.live or not thread.watched or subscription.comes_late
    if thread.newest_base is not None and unseen:
        return cursor_of(thread.newest_base)
    return cursor_of(thread.last_seq)


def marks_watched(subscription: Subscription, thread: ThreadFacts) -> bool:
    """Whether opening this stream has to be noted as the watching of the newest run's end."""
    return subscription.watches and thread.newest_base is not None and not thread.live
