"""Routes, by resource."""

from fastapi import APIRouter

from checkrail.server.routes import (
    assistants,
    coordinator,
    crons,
    protocol,
    runs,
    store,
    system,
    thread_state,
    threads,
)

ROUTERS: tuple[tuple[str, APIRouter], ...] = (
    ("meta", system.router),
    ("assistants", assistants.router),
    ("crons", crons.router),  # before runs: both have paths below /runs
    ("runs", runs.router),
    ("runs", coordinator.router),
    ("threads", threads.router),
    ("threads", thread_state.router),
    ("threads", protocol.router),
    ("store", store.router),
)
"""Each under the name by which a config turns it off."""
