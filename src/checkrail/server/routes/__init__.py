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

ROUTERS: dict[str, APIRouter] = {
    "system": system.router,
    "assistants": assistants.router,
    "crons": crons.router,  # before runs: both have paths below /runs
    "runs": runs.router,
    "coordinator": coordinator.router,
    "threads": threads.router,
    "thread_state": thread_state.router,
    "protocol": protocol.router,
    "store": store.router,
}
"""By the names under which a config turns some of them off."""
