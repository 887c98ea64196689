"""An agent that is a program: parameters come as JSON on its input, its result goes to stdout."""

import json
import sys

told = json.load(sys.stdin)
print("reading", told["resolved_path"], file=sys.stderr)
print(json.dumps({"report": f"Report {told['report_id']} from {told['resolved_path']}"}))
