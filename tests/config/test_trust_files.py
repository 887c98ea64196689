"""A blueprint that came in a request has no file of the server read."""

import pytest

from checkrail.config.problems import Report
from checkrail.config.trust import TrustCheck

READS = {"builtin": "inject_system", "config": {"file": "/etc/passwd"}}
SAYS = {"builtin": "inject_system", "config": {"text": "Be brief."}}


def refused(**blueprint):
    report = Report("<request>")
    TrustCheck(report, None).check_agent({"name": "poet", "model": "openai/gpt-5", **blueprint})
    return [str(problem) for problem in report.problems]


@pytest.mark.parametrize(
    "blueprint",
    [
        {"hooks": {"before_llm_call": READS}},
        {"hooks": {"before_llm_call": [SAYS, READS]}},
        {"definitions": {"house": READS}, "hooks": {"before_llm_call": {"$ref": "house"}}},
    ],
)
def test_a_built_in_hook_that_reads_a_file_is_refused(blueprint):
    (problem,) = refused(**blueprint)
    assert "a file of the server, which a request may not bring" in problem


def test_one_that_says_its_text_is_let_be():
    assert refused(hooks={"before_llm_call": SAYS}) == []
    assert refused(hooks={"before_run": {"rule": "true", "config": {"file": "x"}}}) == []
