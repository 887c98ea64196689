"""Agents that are functions: they get the parameters of their run, and return its result."""

import logging

log = logging.getLogger("pipeline.audit")

REPORTS = {"R123": "/data/reports/R123.csv", "R124": "/data/reports/R124.csv"}


def audit(told):
    """Write down how a run ended."""
    log.warning("%s %s: %s", told["agent_name"], told["run_id"], told["status"])
    return {}


def process_records(told):
    """Take up where the extractor ended."""
    if told["status"] != "completed":
        return {"stored": 0, "because": told["error"]}
    return {"stored": len(told["result_data"]["records"])}


def resolve_path(told):
    """Give a report's path for its id, or refuse an id that nobody knows."""
    wanted = told["parameters"]["report_id"]
    if wanted not in REPORTS:
        return {"action": "block", "block_reason": f"there is no report {wanted}"}
    enriched = {**told["parameters"], "resolved_path": REPORTS[wanted]}
    return {"action": "continue", "parameters": enriched}
