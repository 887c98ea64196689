import pytest

from checkrail import Continue, HookRegistry, ModelRequest
from checkrail.builtin import BUILTINS, BuiltinConfigError, inject_system
from checkrail.config import ConfigError, load
from checkrail.testing import RecordingRegistry, assert_changed, event

HELLO = {"role": "user", "content": "Hello"}
MARK = {"type": "ephemeral"}


def inject(*messages, **config):
    made = event("before_llm_call", ModelRequest(model="m", messages=messages))
    outcome = BUILTINS["inject_system"].make({"text": "Be brief.", **config})(made, made.value)
    assert outcome is None or isinstance(outcome, Continue)
    return None if outcome is None else outcome.value.messages


def system(content, **more):
    return {"role": "system", "content": content, **more}


@pytest.mark.parametrize("position", ["before", "after", "replace"])
def test_a_conversation_without_a_system_message_gets_one(position):
    assert inject(HELLO, position=position) == [system("Be brief."), HELLO]
    assert inject(position=position) == [system("Be brief.")]


@pytest.mark.parametrize(
    ("position", "content"),
    [
        ("before", "Be brief.\n\nBe kind."),
        ("after", "Be kind.\n\nBe brief."),
        ("replace", "Be brief."),
    ],
)
def test_a_text_is_joined_with_the_system_message_or_takes_its_place(position, content):
    assert inject(system("Be kind."), HELLO, position=position) == [system(content), HELLO]


@pytest.mark.parametrize(("position", "place"), [("before", 0), ("after", 1)])
def test_among_parts_it_is_a_part_and_the_others_stay_as_they_are(position, place):
    kind = {"type": "text", "text": "Be kind.", "cache_control": MARK}
    (made, _) = inject(system([kind], name="house"), HELLO, position=position)
    parts = [kind]
    parts.insert(place, {"type": "text", "text": "Be brief."})
    assert made == system(parts, name="house")


def test_of_several_system_messages_the_outer_one_is_joined():
    first, last = system("One."), {"role": "developer", "content": "Two."}
    assert inject(first, last, HELLO)[0] == system("Be brief.\n\nOne.")
    assert inject(first, last, HELLO, position="after")[1] == {
        "role": "developer",
        "content": "Two.\n\nBe brief.",
    }
    assert inject(last, first, HELLO, position="replace") == [
        {"role": "developer", "content": "Be brief."},
        HELLO,
    ]


def test_a_system_message_within_the_conversation_is_let_be():
    later = system("Now in French.")
    assert inject(HELLO, later) == [system("Be brief."), HELLO, later]
    assert inject(HELLO, later, position="replace") == [system("Be brief."), HELLO, later]


@pytest.mark.parametrize("content", ["", None, []])
def test_an_empty_system_message_is_filled(content):
    (made,) = inject(system(content))
    assert made["content"] in ("Be brief.", [{"type": "text", "text": "Be brief."}])


@pytest.mark.parametrize("position", ["before", "after", "replace"])
@pytest.mark.parametrize("start", ["Be kind.", None])
async def test_once_is_enough(position, start):
    registry = RecordingRegistry()
    config = {"text": "Be brief.", "position": position}
    registry.register(inject_system, config=config)
    messages = [HELLO] if start is None else [system(start), HELLO]
    first = await registry.fire("before_llm_call", ModelRequest("m", messages=messages))
    assert_changed(first, by="inject_system")
    again = await registry.fire("before_llm_call", first.value)
    assert again.value is first.value


def test_a_text_that_is_a_part_already_is_not_put_there_again():
    parts = [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be brief."}]
    assert inject(system(parts), HELLO) is None


def test_what_a_user_says_does_not_keep_it_out():
    assert inject({"role": "user", "content": "Be brief."})[0] == system("Be brief.")


async def test_a_file_is_looked_for_beside_the_one_that_names_it(tmp_path):
    (tmp_path / "style.md").write_text("Be brief.\n", encoding="utf-8")
    file = tmp_path / "hooks.yaml"
    file.write_text(
        "hooks: {pre_request: [{builtin: inject_system, config: {file: style.md}}]}\n",
        encoding="utf-8",
    )
    loaded = load(file)
    assert (tmp_path / "style.md").resolve() in loaded.files
    registry = HookRegistry()
    registry.swap(loaded.specs)
    verdict = await registry.fire("before_llm_call", ModelRequest("m", messages=[HELLO]))
    assert verdict.value.messages[0] == system("Be brief.")


@pytest.mark.parametrize(
    ("content", "told"), [(None, "No such file"), (b"", "a text in it"), (b"\xff", "can be read")]
)
def test_a_file_that_has_no_text_is_a_problem_of_the_file_that_names_it(tmp_path, content, told):
    if content is not None:
        (tmp_path / "style.md").write_bytes(content)
    file = tmp_path / "hooks.yaml"
    file.write_text("hooks: {pre_request: [{builtin: inject_system, config: {file: style.md}}]}\n")
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert (tmp_path / "style.md").resolve() in caught.value.files
    assert told in str(caught.value)


def test_without_a_file_around_it_is_looked_for_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BuiltinConfigError, match=r"'style.md', expected a text file"):
        BUILTINS["inject_system"].make({"file": "style.md"})
    (tmp_path / "style.md").write_text("Be brief.")
    assert BUILTINS["inject_system"].make({"file": "style.md"})
