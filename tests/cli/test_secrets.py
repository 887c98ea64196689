"""Values of environment variables that a file uses: for its hooks, and for nobody's eyes."""

import pytest

SECRET = "sk-live-4f9a1c77d2"

FILE = """
    env:
      allow: [API_KEY]
    hooks:
      before_tool_call:
        - name: quiet
          command:
            [sh, -c, 'test "$KEY" = "$0" && echo "$1"', "${API_KEY}", '{"action": "continue"}']
          env: { KEY: "${API_KEY}" }
        - name: named
          tools: ["${API_KEY}"]
          block: Never
        - name: perhaps
          path: ./${API_KEY}.py:hook
          optional: true
        - name: ready
          builtin: redact
          config: { patterns: { key: "${API_KEY}" } }
"""

LEAKY = """
    env:
      allow: [API_KEY]
    hooks:
      before_tool_call:
        - name: missing
          command: ["${API_KEY}"]
        - name: complaining
          command: [sh, -c, 'echo "bad key ${API_KEY}" >&2; exit 1']
        - name: given
          set: { args.key: "${API_KEY}" }
        - name: told
          lane: gate
          block: The key ${API_KEY} is not for you
"""

WRONG = """
    env:
      allow: [API_KEY]
    hooks:
      before_tool_call:
        - name: a
          path: ./${API_KEY}.py:hook
        - name: b
          builtin: rate_limit
          config: { limit: 1, per: "${API_KEY}" }
        - name: c
          tools: ["/${API_KEY}[/"]
          block: Never
        - name: d
          block: ${OTHER_KEY}
"""


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_plan_does_not_tell_them(form, invoke, write, monkeypatch):
    monkeypatch.setenv("API_KEY", SECRET)
    write("checkrail.yaml", FILE)
    done = invoke("check", "checkrail.yaml", *form)
    assert done.code == 0
    assert SECRET not in done.out + done.err
    assert "${API_KEY}" in done.out + done.err


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_problems_do_not_tell_them(form, invoke, write, monkeypatch):
    monkeypatch.setenv("API_KEY", SECRET)
    monkeypatch.setenv("OTHER_KEY", SECRET)
    write("checkrail.yaml", WRONG)
    done = invoke("check", "checkrail.yaml", *form)
    assert done.code == 1
    assert SECRET not in done.out + done.err
    assert "${API_KEY}" in done.out + done.err
    assert "add OTHER_KEY to env.allow" in done.out + done.err


def test_the_hooks_have_them(checkrail, write):
    write("checkrail.yaml", FILE)
    value = f'{{"name": "mail", "args": {{"body": "key {SECRET}"}}}}'
    done = checkrail(
        *("fire", "checkrail.yaml", "before_tool_call", "--value", value, "--json"), API_KEY=SECRET
    )
    assert done.code == 0
    ended = [record for record in done.data["records"] if record["kind"] == "hook_complete"]
    assert [record["hook"] for record in ended] == ["quiet", "ready"]
    assert done.data["value"]["args"] == {"body": "key [redacted:key]"}
    assert SECRET not in done.out + done.err


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_what_hooks_say_of_them_is_not_shown(form, invoke, write, monkeypatch):
    monkeypatch.setenv("API_KEY", SECRET)
    write("checkrail.yaml", LEAKY)
    done = invoke("fire", "checkrail.yaml", "before_tool_call", *form)
    assert done.code == 3
    for name in ("missing", "complaining", "given", "told"):
        assert name in done.out
    assert SECRET not in done.out
    assert SECRET not in done.err
