import dataclasses
import pickle
import re
import sys
import sysconfig
from collections.abc import Mapping

import pytest

from checkrail.actions import ActionError, load, load_function
from checkrail.engine.errors import CheckrailError


@pytest.fixture
def write(tmp_path):
    def written(name: str, text: str):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return written


@pytest.fixture(autouse=True)
def _same_modules():
    before = dict(sys.modules)
    path = list(sys.path)
    yield
    assert sys.path == path
    for name in set(sys.modules) - set(before):
        if getattr(sys.modules[name], "__file__", None) and "site-packages" not in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


def refused(reference, base=None) -> ActionError:
    with pytest.raises(ActionError) as caught:
        load(reference, base)
    return caught.value


def test_a_file_relative_to_base(write, tmp_path):
    write("hooks.py", "hooks = ['mine']")
    assert load("./hooks.py:hooks", tmp_path) == ["mine"]


def test_a_file_without_a_dot_in_front_and_an_absolute_one(write, tmp_path):
    path = write("rules/hooks.py", "hooks = 1")
    assert load("rules/hooks.py:hooks", tmp_path) == 1
    assert load(f"{path}:hooks") == 1


def test_without_base_a_path_is_relative_to_the_working_folder(write, tmp_path, monkeypatch):
    write("hooks.py", "hooks = 1")
    monkeypatch.chdir(tmp_path)
    assert load("./hooks.py:hooks") == 1


def test_a_file_outside_of_base(write, tmp_path):
    write("shared.py", "hooks = 'above'")
    (tmp_path / "inner").mkdir()
    assert load("../shared.py:hooks", tmp_path / "inner") == "above"


def test_a_dotted_attribute(write, tmp_path):
    write("hooks.py", "class Hooks:\n    class Inner:\n        limit = 3")
    assert load("./hooks.py:Hooks.Inner.limit", tmp_path) == 3


def test_a_module_and_a_dotted_attribute_of_it():
    assert load("dataclasses:replace") is dataclasses.replace
    assert load("collections.abc:Mapping.get") is Mapping.get


def test_a_file_is_loaded_once_however_it_is_named(write, tmp_path):
    write("hooks.py", "thing = object()")
    (tmp_path / "inner").mkdir()
    assert load("./hooks.py:thing", tmp_path) is load("../hooks.py:thing", tmp_path / "inner")


def test_reload_takes_the_file_as_it_is_now(write, tmp_path):
    write("hooks.py", "version = 1")
    assert load("./hooks.py:version", tmp_path) == 1
    write("hooks.py", "version = 2")  # the same second and the same length: no bytecode may hide it
    assert load("./hooks.py:version", tmp_path) == 1
    assert load("./hooks.py:version", tmp_path, reload=True) == 2
    assert load("./hooks.py:version", tmp_path) == 2


def test_a_broken_reload_leaves_what_was_loaded(write, tmp_path):
    write("hooks.py", "version = 1")
    load("./hooks.py:version", tmp_path)
    write("hooks.py", "version = 1 / 0")
    with pytest.raises(ActionError):
        load("./hooks.py:version", tmp_path, reload=True)
    assert load("./hooks.py:version", tmp_path) == 1


def test_no_bytecode_is_left_in_the_folder(write, tmp_path):
    write("hooks.py", "hooks = 1")
    load("./hooks.py:hooks", tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["hooks.py"]


def test_files_of_the_same_name_do_not_clash_with_each_other_or_a_module(write, tmp_path):
    write("a/json.py", "me = 'a'")
    write("b/json.py", "me = 'b'")
    import json

    assert load("./a/json.py:me", tmp_path) == "a"
    assert load("./b/json.py:me", tmp_path) == "b"
    assert sys.modules["json"] is json


def test_a_file_has_the_same_name_wherever_its_project_lies(write, tmp_path, monkeypatch):
    names = []
    for folder in ("here", "there"):
        write(f"{folder}/graphs/state.py", f"class State: pass\nplace = {folder!r}")
        base = tmp_path / folder
        kinds = [
            load("./graphs/state.py:State", base),
            load("graphs/../graphs/state.py:State", base),
            load(f"{base}/graphs/state.py:State", base),
            load("./state.py:State", base / "graphs"),
        ]
        assert len({*kinds}) == 1
        names.append(kinds[0].__module__)
        monkeypatch.delitem(sys.modules, names[-1])
    assert names[0] == names[1]


def test_projects_in_one_process_keep_their_files_apart(write, tmp_path):
    for folder in ("here", "there"):
        write(f"{folder}/hooks.py", f"place = {folder!r}\nclass Hook: pass")
    places = [load("./hooks.py:place", tmp_path / folder) for folder in ("here", "there")]
    assert places == ["here", "there"]
    assert load("./hooks.py:place", tmp_path / "there", reload=True) == "there"
    kinds = {load("./hooks.py:Hook", tmp_path / folder) for folder in ("here", "there")}
    assert len({kind.__module__ for kind in kinds}) == 2
    assert all(sys.modules[kind.__module__].Hook is kind for kind in kinds)


def test_what_a_file_defines_can_be_pickled_and_is_registered(write, tmp_path):
    write(
        "hooks.py",
        "from __future__ import annotations\nfrom dataclasses import dataclass, KW_ONLY\n"
        "@dataclass\nclass Limit:\n    _: KW_ONLY\n    amount: int = 1",
    )
    kind = load("./hooks.py:Limit", tmp_path)
    assert pickle.loads(pickle.dumps(kind(amount=7))).amount == 7
    assert sys.modules[kind.__module__].Limit is kind
    assert re.fullmatch(r"checkrail_file_hooks_\w+", kind.__module__)


def test_a_file_can_import_its_neighbours_and_only_then(write, tmp_path):
    write("neighbour_of_mine.py", "limit = 9")
    write("hooks.py", "import neighbour_of_mine\nlimit = neighbour_of_mine.limit")
    assert load("./hooks.py:limit", tmp_path) == 9
    assert str(tmp_path) not in sys.path


def test_a_neighbour_does_not_hide_a_module_of_the_same_name(write, tmp_path):
    write("sched.py", "raise RuntimeError('taken for the standard one')")
    write("hooks.py", "import sched\nfound = sched.scheduler")
    sys.modules.pop("sched", None)
    assert load("./hooks.py:found", tmp_path).__module__ == "sched"


def test_a_folder_on_the_path_stays_there(write, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    write("hooks.py", "hooks = 1")
    load("./hooks.py:hooks", tmp_path)
    assert str(tmp_path) in sys.path
    monkeypatch.undo()


def test_load_function():
    assert load_function("dataclasses", "replace") is dataclasses.replace


def test_load_function_of_a_file(write, tmp_path):
    write("hooks.py", "def limit(event): return 'limited'")
    assert load_function("./hooks.py", "limit", tmp_path)(None) == "limited"


def test_load_function_refuses_what_cannot_be_called(write, tmp_path):
    write("hooks.py", "limit = 5")
    with pytest.raises(ActionError, match=r"'limit' in \./hooks.py is int, which cannot be called"):
        load_function("./hooks.py", "limit", tmp_path)


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "hooks",
        "./hooks.py",
        "./hooks.py:",
        ":hooks",
        "os:system('x')",
        "os:a-b",
        "os:.path",
        "os..path:join",
        "a b:c",
        "1os:path",
        "package:module:attribute",
        "os:path[0]",
        5,
        None,
    ],
)
def test_a_reference_of_another_form_is_refused(reference, tmp_path):
    error = refused(reference, tmp_path)
    assert repr(reference) in str(error)
    assert "./file.py:name" in error.remedy
    assert isinstance(error, CheckrailError)


def test_a_missing_file_names_what_is_there(write, tmp_path):
    write("hooks.py", "")
    error = str(refused("./hoks.py:hooks", tmp_path))
    assert f"there is no file {tmp_path}/hoks.py (did you mean 'hooks.py'?)" in error
    assert "Python files there are: hooks.py" in error


def test_a_missing_folder(tmp_path):
    assert "Python files there are: none" in str(refused("./no/hooks.py:hooks", tmp_path))


@pytest.mark.parametrize("name", ["notes.txt", "folder"])
def test_something_that_is_no_python_file(name, write, tmp_path):
    write("notes.txt", "")
    (tmp_path / "folder").mkdir()
    assert "no Python file" in str(refused(f"./{name}:hooks", tmp_path))


def test_a_missing_attribute_names_what_exists(write, tmp_path):
    write("hooks.py", "limit = 1\n_hidden = 2")
    error = str(refused("./hooks.py:limits", tmp_path))
    assert "./hooks.py has no 'limits' (did you mean 'limit'?)" in error
    assert "It has: limit" in error
    assert "_hidden" not in error


def test_a_missing_inner_attribute(write, tmp_path):
    write("hooks.py", "class Hooks:\n    limit = 1")
    error = str(refused("./hooks.py:Hooks.limits", tmp_path))
    assert "./hooks.py:Hooks has no 'limits' (did you mean 'limit'?)" in error


def test_many_names_are_not_all_listed(write, tmp_path):
    write("hooks.py", "\n".join(f"name_{n:02} = 1" for n in range(30)))
    assert str(refused("./hooks.py:zzz", tmp_path)).endswith("name_11 and 18 more")


def test_a_missing_module_has_a_suggestion():
    error = str(refused("dataclases:replace"))
    assert "there is no module 'dataclases' (did you mean 'dataclasses'?)" in error
    assert "python_path" in error


@pytest.mark.parametrize("name", ["hooks", "company_hooks", "limits", "policies", "shop"])
def test_what_is_only_installed_is_no_suggestion_unless_spelled_alike(name, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sysconfig.get_paths().values()])  # no folder of a project
    assert "did you mean" not in str(refused(f"{name}_of_mine:hooks", tmp_path))
    assert "did you mean" not in str(refused(f"{name}:hooks", tmp_path))


def test_a_missing_module_may_be_a_file_of_the_project(write, tmp_path):
    write("my_hooks.py", "hooks = 1")
    write("shop/rules.py", "hooks = 1")
    near = str(refused("my_hook:hooks", tmp_path))
    assert "there is no module 'my_hook' (did you mean 'my_hooks'?)" in near
    assert "./folder/my_hook.py:name" in near
    beside = str(refused("my_hooks:hooks", tmp_path))
    assert "did you mean" not in beside
    assert "There is a file my_hooks.py: name it, as in ./my_hooks.py:hooks" in beside
    below = str(refused("shop.rules:hooks", tmp_path))
    assert "There is a file shop/rules.py: name it, as in ./shop/rules.py:hooks" in below


def test_a_missing_module_of_a_missing_package_names_no_file(tmp_path):
    error = str(refused("no_such_package.hooks:hooks", tmp_path))
    assert ".hooks.py" not in error
    assert "install it, or put the folder of its package on python_path" in error


@pytest.mark.parametrize(
    ("statement", "remedy"),
    [
        ("import no_such_package.part", "Install no_such_package, or put its folder on"),
        (
            "import importlib.utl",
            "importlib is there, but has no such module (did you mean 'util'?)",
        ),
    ],
)
def test_a_module_that_imports_what_is_not_there_says_what_to_do(
    write, tmp_path, statement, remedy
):
    write("hooks.py", f"{statement}\nhooks = 1\n")
    error = refused("./hooks.py:hooks", tmp_path)
    assert error.remedy.startswith(remedy)


def test_a_missing_module_of_a_package():
    error = str(refused("importlib.utl:find_spec"))
    assert "there is no module 'importlib.utl' (did you mean 'util'?)" in error


def test_a_module_inside_of_what_is_no_package():
    assert "there is no module 'dataclasses.fields'" in str(refused("dataclasses.fields:x"))


def test_an_exception_at_import_tells_type_message_file_and_line(write, tmp_path):
    path = write("hooks.py", "def fail():\n    raise LookupError('no such key')\n\nfail()\n")
    error = refused("./hooks.py:hooks", tmp_path)
    assert f"LookupError: no such key in {path}, line 4" in str(error)
    assert isinstance(error.__cause__, LookupError)
    assert not [name for name in sys.modules if name.startswith("checkrail_file_hooks")]


def test_a_file_that_exits_is_an_error_not_an_exit(write, tmp_path):
    write("hooks.py", "raise SystemExit('bye')")
    assert "SystemExit: bye" in str(refused("./hooks.py:hooks", tmp_path))


def test_an_interrupt_gets_through(write, tmp_path):
    write("hooks.py", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load("./hooks.py:hooks", tmp_path)
    assert not [name for name in sys.modules if name.startswith("checkrail_file_hooks")]


def test_a_syntax_error_tells_file_and_line(write, tmp_path):
    path = write("hooks.py", "x = 1\ndef (:\n")
    error = str(refused("./hooks.py:hooks", tmp_path))
    assert "SyntaxError" in error
    assert f"in {path}, line 2" in error


@pytest.mark.parametrize("content", [b"x = 1\0", b"x = '\xff'"])
def test_a_file_that_is_no_source_at_all(content, write, tmp_path):
    write("hooks.py", "").write_bytes(content)
    assert "hooks.py could not be imported" in str(refused("./hooks.py:hooks", tmp_path))


def test_a_file_that_takes_its_folder_off_the_path_itself(write, tmp_path):
    write("hooks.py", "import sys, os\nsys.path.remove(os.path.dirname(__file__))\nhooks = 1")
    assert load("./hooks.py:hooks", tmp_path) == 1


def test_a_file_that_imports_what_is_not_there(write, tmp_path):
    path = write("hooks.py", "\nimport no_such_package_at_all\n")
    error = str(refused("./hooks.py:hooks", tmp_path))
    assert f"in {path}, line 2" in error
    assert "Install no_such_package_at_all" in error


def test_a_relative_import_says_how_to_name_it(write, tmp_path):
    write("hooks.py", "from . import other")
    assert "package.module:name" in str(refused("./hooks.py:hooks", tmp_path))


def test_an_exception_in_a_module_of_a_package(write, tmp_path, monkeypatch):
    write("broken_package/__init__.py", "")
    path = write("broken_package/hooks.py", "\n\nraise OSError('disk on fire')")
    monkeypatch.syspath_prepend(str(tmp_path))
    error = str(refused("broken_package.hooks:limit"))
    assert f"OSError: disk on fire in {path}, line 3" in error
    monkeypatch.undo()


def test_a_module_that_imports_what_is_not_there(write, tmp_path, monkeypatch):
    write("lonely_module.py", "import no_such_package_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))
    error = str(refused("lonely_module:limit"))
    assert "lonely_module could not be imported: ModuleNotFoundError" in error
    assert "Install no_such_package_at_all" in error
    monkeypatch.undo()
