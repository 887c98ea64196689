"""A model that answers at once with how many messages it has seen."""

from checkrail.testing import ScriptedModel


def count_said(request):
    said = [message for message in request.messages if message["role"] == "user"]
    return f"{len(said)}: {said[-1]['content']}"


counter = ScriptedModel(count_said)
