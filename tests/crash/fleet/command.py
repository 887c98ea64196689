import json
import sys

json.load(sys.stdin)
sys.stdout.write(json.dumps({"action": "continue"}))
