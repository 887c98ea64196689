"""Objects of a project: imported as other servers import them, and anew when they change."""

import sys
from collections import OrderedDict
from pathlib import Path

import pytest

from checkrail.config import ConfigError, load, load_object
from checkrail.config.modules import project_modules, reimport_modules


def test_a_file_is_imported_from_its_folder(write, tmp_path):
    write("graphs/agent.py", "import beside_agent\ngraph = beside_agent.name\n")
    write("graphs/beside_agent.py", "name = 'mine'\n")
    assert load_object("./graphs/agent.py:graph", tmp_path, "the graph 'a'") == "mine"


def test_what_a_graph_imports_while_it_runs_is_found_too(write, tmp_path):
    write("graphs/agent.py", "def graph():\n    import late_agent\n    return late_agent.name\n")
    write("graphs/late_agent.py", "name = 'late'\n")
    assert load_object("./graphs/agent.py:graph", tmp_path, "a")() == "late"


def test_a_package_may_import_relatively(write, tmp_path):
    write("src/shop_pkg/__init__.py", "")
    write("src/shop_pkg/inner/__init__.py", "")
    write("src/shop_pkg/tools.py", "name = 'tools'\n")
    write(
        "src/shop_pkg/inner/graph.py",
        "from ..tools import name\nfrom shop_pkg import tools\ngraph = name\n",
    )
    assert load_object("./src/shop_pkg/inner/graph.py:graph", tmp_path, "a") == "tools"
    assert sys.modules["shop_pkg.inner.graph"].graph == "tools"


def test_folders_below_a_dependency_are_packages(write):
    write("examples/shop_react/context.py", "name = 'context'\n")
    text = (
        "from shop_react import context\nfrom .context import name\ngraph = (context.name, name)\n"
    )
    write("examples/shop_react/graph.py", text)
    config = (
        '{"dependencies": ["./examples"], "graphs": {"a": "./examples/shop_react/graph.py:graph"}}'
    )
    loaded = load(write("aegra.json", config))
    path = loaded.agents["a"].path
    assert loaded.load_object(path, "the graph 'a'") == ("context", "context")


def test_the_source_folder_of_a_dependency_is_imported_from(write):
    write("src/shop_layout/__init__.py", "name = 'layout'\n")
    write("web.py", "from shop_layout import name as app\n")
    loaded = load(
        write("langgraph.json", '{"dependencies": ["."], "http": {"app": "./web.py:app"}}')
    )
    assert loaded.load_object("./web.py:app", "http.app") == "layout"
    assert loaded.load_object("shop_layout:name", "http.app") == "layout"


def test_a_package_that_is_called_like_another_is_still_its_own_file(write, tmp_path):
    write("json/__init__.py", "")
    write("json/graph.py", "graph = 'mine'\n")
    write("email/__init__.py", "")
    write("email/message.py", "graph = 'mine too'\n")
    assert load_object("./json/graph.py:graph", tmp_path, "a") == "mine"
    assert load_object("./email/message.py:graph", tmp_path, "a") == "mine too"


def test_hooks_in_a_package_may_import_relatively(write):
    write("shop_hooked/__init__.py", "")
    write("shop_hooked/words.py", "word = 'No'\n")
    write(
        "shop_hooked/hooks.py",
        """
        from checkrail import Hooks

        from .words import word

        hooks = Hooks()

        @hooks.before_run(name=word)
        def gate(event):
            pass
        """,
    )
    loaded = load(write("checkrail.yaml", "hooks: {path: ./shop_hooked/hooks.py:hooks}\n"))
    assert [spec.name for spec in loaded.specs] == ["No"]
    assert {file.name for file in loaded.files} >= {"hooks.py"}


def test_a_project_is_imported_anew(write, tmp_path):
    write("shop_anew/__init__.py", "")
    write("shop_anew/state.py", "value = 1\n")
    write("shop_anew/graph.py", "from .state import value\ngraph = value\n")
    reference = "./shop_anew/graph.py:graph"
    assert load_object(reference, tmp_path, "a") == 1
    write("shop_anew/state.py", "value = 2\n")
    assert load_object(reference, tmp_path, "a") == 1
    modules = project_modules([tmp_path])
    assert {"shop_anew", "shop_anew.state", "shop_anew.graph"} <= modules
    with reimport_modules(modules):
        assert load_object(reference, tmp_path, "a") == 2


def test_types_of_a_project_that_is_a_package_are_found_by_their_paths(write, tmp_path):
    write("__init__.py", "")
    write("shop_types/__init__.py", "")
    write("shop_types/kinds.py", "class Kind:\n    value = 1\n")
    write("shop_types/graph.py", "from .kinds import Kind\nfrom json import JSONEncoder as other\n")
    reference = "./shop_types/graph.py:Kind"
    first = load_object(reference, tmp_path, "a")
    assert tmp_path.name not in first.__module__
    assert sys.modules[first.__module__].Kind is first
    assert sys.modules[f"{tmp_path.name}.shop_types.kinds"].Kind is first
    assert load_object("./shop_types/graph.py:other", tmp_path, "a").__module__ == "json.encoder"
    write("shop_types/kinds.py", "class Kind:\n    value = 2\n")
    with reimport_modules(project_modules([tmp_path])):
        second = load_object(reference, tmp_path, "a")
    assert (second.value, second.__module__) == (2, first.__module__)
    assert sys.modules[second.__module__].Kind is second


def test_another_project_of_the_same_paths_keeps_its_own_types(write, tmp_path):
    for name in ("one", "other"):
        write(f"{name}/__init__.py", "")
        write(f"{name}/shop_same.py", f"class Kind:\n    value = {name!r}\n")
    found = [load_object("./shop_same.py:Kind", tmp_path / name, "a") for name in ("one", "other")]
    assert [each.value for each in found] == ["one", "other"]
    assert [sys.modules[each.__module__].Kind for each in found] == found


def test_a_project_that_broke_keeps_what_it_had(write, tmp_path):
    write("shop_kept/__init__.py", "")
    write("shop_kept/graph.py", "graph = 1\n")
    reference = "./shop_kept/graph.py:graph"
    load_object(reference, tmp_path, "a")
    write("shop_kept/graph.py", "graph = \n")
    with (
        pytest.raises(ConfigError, match="SyntaxError"),
        reimport_modules(project_modules([tmp_path])),
    ):
        load_object(reference, tmp_path, "a")
    assert load_object(reference, tmp_path, "a") == 1


def test_installed_modules_are_no_part_of_a_project(tmp_path):
    assert project_modules([tmp_path]) == set()
    everywhere = project_modules([Path(tmp_path.anchor)])
    assert not everywhere & {"pytest", "json", "checkrail", "checkrail.config"}


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("./agent.py:grpah", "the graph 'a': ./agent.py has no 'grpah' (did you mean 'graph'?)"),
        ("./agnet.py:graph", "(did you mean 'agent.py'?)"),
        (
            "./agent.py",
            "found the text './agent.py', expected ./file.py:name or package.module:name",
        ),
        ("./agent.ts:graph", "which is no Python"),
        ("./broken.py:graph", "ModuleNotFoundError: No module named 'shop_not_installed'"),
        ("./old.py:graph", "aegra_api.hooks is checkrail.hooks here"),
        ("shop_nowhere.graph:graph", "there is no module 'shop_nowhere'"),
        ("./relative.py:graph", "name it as package.module:name instead"),
        ("./shop_bad/graph.py:graph", "RuntimeError: at once"),
        ("./a\0.py:graph", "found the text './a\\x00.py:graph', expected ./file.py:name"),
    ],
)
def test_what_cannot_be_imported_is_told(write, tmp_path, path, says):
    write("agent.py", "graph = 1\n")
    write("broken.py", "import shop_not_installed\n")
    write("old.py", "import aegra_api.hooks\n")
    write("relative.py", "from .agent import graph\n")
    write("shop_bad/__init__.py", "raise RuntimeError('at once')\n")
    write("shop_bad/graph.py", "graph = 1\n")
    before = [*sys.path]
    with pytest.raises(ConfigError) as raised:
        load_object(path, tmp_path, "the graph 'a'")
    assert str(raised.value).startswith("the graph 'a': ")
    assert says in str(raised.value)
    assert sys.path == before


def test_an_object_of_another_kind_is_told(write, tmp_path):
    write("auth.py", "auth = 5\n")
    assert load_object("./auth.py:auth", tmp_path, "auth.path", int) == 5
    with pytest.raises(ConfigError) as raised:
        load_object("./auth.py:auth", tmp_path, "auth.path", (OrderedDict, str))
    told = (
        "auth.path: './auth.py:auth' is a number, expected collections.OrderedDict or builtins.str"
    )
    assert str(raised.value) == told
