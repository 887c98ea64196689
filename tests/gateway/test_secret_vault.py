"""What stands for secrets: the same each time, for one caller alone, and kept within bounds."""

from __future__ import annotations

import json
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail import ModelRequest
from checkrail.gateway import placeholder_key
from checkrail.gateway.placeholder_key import load_key
from checkrail.llm.json_strings import iter_strings, rewrite_strings
from checkrail.llm.patterns import KINDS, scrub_text
from checkrail.llm.reversible import Piece, ReversibleScrubber, cut_by_spans, join_pieces
from checkrail.llm.secret_vault import PLACEHOLDER, SecretVault, SecretVaults
from checkrail.turns import finish_steps

TOKEN = "sk-proj-Qz7Xw9Kv3Jh5Gm2Yt8Rb"
TOOLS = frozenset({"tools"})


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(max_size=60))
def test_a_placeholder_is_nothing_that_is_looked_for(secret, kind):
    vault = SecretVault(b"k" * 32)
    placeholder = vault.placeholder_for(kind or "secrets", secret)
    assert PLACEHOLDER.fullmatch(placeholder)
    assert vault.is_own(placeholder)
    for around in ("%s", "key=%s", 'password = "%s"', "Bearer %s", "x%sy", "https://a:%s@b"):
        assert scrub_text(around % placeholder, KINDS) == around % placeholder


def test_a_key_makes_its_own_placeholders():
    one, again, other = (SecretVault(key) for key in (b"a" * 32, b"a" * 32, b"b" * 32))
    placeholder = one.placeholder_for("secrets", TOKEN)
    assert again.placeholder_for("secrets", TOKEN) == placeholder
    assert other.placeholder_for("secrets", TOKEN) != placeholder
    assert not other.is_own(placeholder)
    changed = placeholder.replace(placeholder[-3], "b" if placeholder[-3] != "b" else "c")
    assert not one.is_own(changed)


def test_a_vault_keeps_what_was_seen_last():
    vault = SecretVault(b"k" * 32, kept=2)
    names = {}
    for text in ("one", "two", "one", "three"):
        names[text] = vault.placeholder_for("secrets", text)
        vault.learn(names[text], text, TOOLS)
    assert [vault.find(names[text]) is None for text in ("one", "two", "three")] == [
        False,
        True,
        False,
    ]
    assert vault.is_own(names["two"])
    assert vault.weight == len("one") + len("three")


def test_vaults_are_bounded_and_of_one_caller():
    made = SecretVaults(lambda: b"k" * 32, callers=2, weight=100)
    vaults = {name: made.open([name, None]) for name in ("ann", "bob")}
    assert made.open(["ann", None]) is vaults["ann"]
    assert made.open([None, "ann"]) is not vaults["ann"]
    assert made.open(["bob", None]) is not vaults["bob"]
    heavy = made.open(["cy"])
    heavy.learn(heavy.placeholder_for("x", "y" * 200), "y" * 200, TOOLS)
    made.open(["dan"])
    assert made.open(["cy"]) is not heavy


def test_the_key_is_one_for_all_and_its_owner_s_alone(tmp_path, caplog):
    folder = tmp_path / "kept"
    assert len(key := load_key(folder)) == 32
    assert load_key(folder) == key
    assert [each.name for each in folder.iterdir()] == [placeholder_key.FILE]
    assert (folder / placeholder_key.FILE).stat().st_mode & 0o777 == 0o600
    (folder / placeholder_key.FILE).write_text("nothing")
    assert load_key(folder) not in (key, load_key(folder))
    assert "cannot be kept in" in caplog.text
    (tmp_path / "file").write_text("")
    assert load_key(tmp_path / "file")


VALUES = st.recursive(
    st.text() | st.integers(-9_999_999, 9_999_999) | st.booleans() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), VALUES), st.booleans(), st.sampled_from([None, 1]))
def test_texts_in_json_are_found_and_changed_where_they_stand(value, escaped, indent):
    try:
        text = json.dumps(value, ensure_ascii=escaped, indent=indent)
        text.encode()
    except UnicodeEncodeError:
        return
    strings = [*iter_strings(text)]
    same = [(string, [(0, len(string.text), string.written)]) for string in strings]
    assert rewrite_strings(text, same) == text
    every = [(string, [(at, at + 1, "_") for at in range(len(string.text))]) for string in strings]

    def blank(one):
        if isinstance(one, dict):
            return [[blank(key), blank(item)] for key, item in one.items()]
        return (
            [*map(blank, one)]
            if isinstance(one, list)
            else "_" * len(one)
            if isinstance(one, str)
            else one
        )

    found = json.loads(
        rewrite_strings(text, every), object_pairs_hook=lambda pairs: [list(p) for p in pairs]
    )
    assert found == blank(value)


def test_a_resend_searches_what_is_new_alone(monkeypatch):
    searched = []
    made, vault = ReversibleScrubber(["secrets"], {}, ["tools"]), SecretVault(os.urandom(32))
    cut_text = made._cut_text
    monkeypatch.setattr(
        made, "_cut_text", lambda *given: searched.append(given[1]) or cut_text(*given)
    )
    texts = [f"line {number} of a file, " * 40 for number in range(50)]
    arguments = json.dumps({"path": "x", "content": f"token={TOKEN}"})
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]

    def request(more):
        said = [{"role": "user", "content": text} for text in [*texts, *more]]
        return ModelRequest(messages=[*said, {"role": "assistant", "tool_calls": calls}])

    first = finish_steps(made.scrub(request([]), vault))
    assert TOKEN not in str(first)
    searched.clear()
    again = finish_steps(made.scrub(request(["and what is new in it"]), vault))
    assert searched == ["and what is new in it"]
    assert again.messages[-1] == first.messages[-1]


@given(
    st.lists(st.tuples(st.text("ab", max_size=9), st.booleans()), max_size=6),
    st.lists(st.integers(0, 400), max_size=8, unique=True),
)
def test_spans_take_in_whole_placeholders_and_leave_nothing_out(parts, ends):
    vault = SecretVault(b"k" * 32)
    name = vault.placeholder_for("secrets", TOKEN)
    vault.learn(name, TOKEN, TOOLS)
    pieces = [Piece(name, TOKEN) if known else Piece(text) for text, known in parts]
    joined, ends = join_pieces(pieces), sorted(ends)
    spans = [span for span in zip(ends[::2], ends[1::2], strict=False) if span[1] <= len(joined)]
    cut = cut_by_spans(vault, pieces, "own", spans)
    assert "".join(p.now if p.was is None else p.was for p in cut) == joined.replace(name, TOKEN)
    covered = {at for start, stop in spans for at in range(start, stop)}
    left = "".join(piece.now for piece in cut if piece.was is None)
    names = {at for found in vault.find_own(joined) for at in range(*found.span())}
    assert left == "".join(c for at, c in enumerate(joined) if at not in covered | names)
    for piece in cut:
        assert piece.was is None or vault.is_own(piece.now)


@pytest.mark.parametrize("pattern", ["SECRET.*end", "x.{9}", "[a-z]{9,}", "red", "."])
def test_own_patterns_reach_over_what_was_found(pattern):
    made, vault = (
        ReversibleScrubber(["secrets"], {"own": pattern}, ["tools"]),
        SecretVault(b"k" * 32),
    )
    text = f"SECRET x {TOKEN} and a plan to the end of x {TOKEN}"
    request = ModelRequest(messages=[{"role": "user", "content": text}])
    masked = finish_steps(made.scrub(request, vault)).messages[0]["content"]
    plain = scrub_text(text, ["secrets"], "")
    for piece in vault.split(masked)[::2]:
        assert not re.search(pattern, piece)
        assert piece in plain
    assert TOKEN not in masked
    assert vault.expand(masked) == text
    again = ModelRequest(messages=[{"role": "user", "content": masked}])
    assert finish_steps(made.scrub(again, vault)) is again


@pytest.mark.parametrize(
    "written", ["4111111111111111", "[1, 4111111111111111]", '"4111111111111111"']
)
def test_a_number_in_arguments_is_taken_out_whole(written):
    made, vault = ReversibleScrubber(["card"], {"tens": "111"}, ["tools"]), SecretVault(b"k" * 32)
    text = f'{{"amount": 12, "to": {written}, "id": 20240111333}}'
    call = {"id": "1", "type": "function", "function": {"name": "pay", "arguments": text}}
    request = ModelRequest(messages=[{"role": "assistant", "tool_calls": [call]}])
    masked = finish_steps(made.scrub(request, vault)).messages[0]["tool_calls"][0]["function"]
    seen = json.loads(masked["arguments"])
    assert seen["amount"] == 12
    assert "111" not in masked["arguments"]
    assert json.loads(vault.expand(json.dumps(seen)))["id"] == "20240111333"


def test_images_are_searched_for_nothing():
    made, vault = ReversibleScrubber(["secrets"], {}, ["tools"]), SecretVault(b"k" * 32)
    url = {"url": "data:image/png;base64," + "iVBORw0KGgo/" * 200 + "=="}
    request = ModelRequest(
        messages=[{"role": "user", "content": [{"type": "image_url", "image_url": url}]}]
    )
    for _ in range(2):
        assert finish_steps(made.scrub(request, vault)) is request


@pytest.mark.parametrize("size", [100, 300_000])
def test_one_caller_s_secret_is_nothing_to_another(size):
    made = ReversibleScrubber(["secrets"], {}, ["tools"])
    ann, bob = SecretVault(b"a" * 32), SecretVault(b"b" * 32)
    text = "some words " * (size // 11)
    for vault in (ann, bob, ann):
        secret = f"token={TOKEN} {text}" if vault is ann else f"{text} {TOKEN[3:]}"
        request = ModelRequest(messages=[{"role": "user", "content": secret}])
        finish_steps(made.scrub(request, vault))
    assert (len(ann.needles_since(0)), len(bob.needles_since(0))) == (1, 0)
