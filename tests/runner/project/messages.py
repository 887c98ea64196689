"""An agent that repeats what it hears, and says where."""

import os

from checkrail.testing import ScriptedModel


def repeat(request):
    said = [each for each in request.messages if each["role"] == "user"][-1]["content"]
    return f"{said}, you say to {os.getpid()}?"


parrot = ScriptedModel(repeat)
