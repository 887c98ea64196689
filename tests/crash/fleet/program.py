import json
import sys

sys.stdout.write(json.dumps({"done": json.load(sys.stdin).get("n")}))
