"""Routes, by resource."""

from fastapi import APIRouter

from checkrail.server.routes import (
    agents,
    approvals,
    assistant_graphs,
    assistants,
    channels,
    coordinator,
    crons,
    docs,
    events,
    hooks,
    message_socket,
    messages,
    protocol,
    runner,
    runs,
    sessions,
    steps,
    store,
    system,
    thread_state,
    threads,
)

ROUTERS: tuple[tuple[str, APIRouter], ...] = (
    ("health", system.health),  # whoever watches a server asks for it, whatever is turned off
    ("meta", docs.router),
    ("meta", system.router),
    ("assistants", assistant_graphs.router),
    ("assistants", assistants.router),
    ("assistants", agents.router),
    ("assistants", hooks.router),
    ("crons", crons.router),  # before runs: both have paths below /runs
    ("runs", runs.router),
    ("runs", coordinator.router),
    ("runs", steps.router),
    ("runs", sessions.router),
    ("messages", messages.router),
    ("messages", message_socket.router),
    ("messages", channels.router),
    ("runs", events.router),
    ("runs", approvals.router),
    ("threads", threads.router),
    ("threads", thread_state.router),
    ("threads", protocol.router),
    ("store", store.router),
    ("runners", runner.router),
)
"""Each under the name by which a config turns it off."""
