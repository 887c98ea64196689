"""The public forms of a run's stored events: server-sent events, and the event protocol."""
