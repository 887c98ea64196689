"""Models that need no network: each answers by a rule instead of by thought."""

import asyncio
import json

from checkrail.testing import ScriptedModel


def _told(request):
    """Read the parameters, which an agent with a schema gets as JSON."""
    return json.loads(request.messages[-1]["content"])


async def _validate(request):
    told = _told(request)["parameters"]
    source = told["data_source"]
    if source.startswith("secret"):
        return json.dumps({"action": "block", "block_reason": f"{source} is not for everybody"})
    if source == "broken.csv":
        raise ConnectionError("the validator's model is down")
    if source == "slow.csv":
        await asyncio.sleep(3600)
    if source == "odd.csv":
        return json.dumps({"action": "maybe"})
    enriched = {**told, "options": {"encoding": "utf-8", **told.get("options", {})}}
    return json.dumps({"action": "continue", "parameters": enriched})


def _process(request):
    told = _told(request)
    encoding = told.get("options", {}).get("encoding", "any encoding")
    summary = f"42 rows of {told['data_source']}, read as {encoding}"
    return json.dumps({"processed_count": 42, "summary": summary})


def _extract(request):
    source = _told(request)["source"]
    return json.dumps({"records": [{"id": 1}, {"id": 2}, {"id": 3}], "source": source})


validator = ScriptedModel(_validate, name="validator")
processor = ScriptedModel(_process, name="processor")
extractor = ScriptedModel(_extract, name="extractor")
