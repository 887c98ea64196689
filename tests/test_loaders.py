"""Nothing reads data with a loader that can build any type or run code, but what is listed here."""

import ast
from pathlib import Path

import checkrail

SOURCE = Path(checkrail.__file__).parent

MODULES = {
    *("pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"),
    *("joblib", "msgpack", "ormsgpack", "yaml", "runpy", "codeop", "xmlrpc", "multiprocessing"),
    *("langchain_core.load", "langgraph.checkpoint.serde"),
}
"""Modules whose readers build what the data says, or run it."""

CALLS = {"eval", "exec", "compile", "__import__"}
"""Built-in functions that run a text."""

NAMES = {
    *("import_module", "module_from_spec", "exec_module", "spec_from_file_location"),
    *("loads_typed", "JsonPlusSerializer", "PickleType", "ImportString", "unsafe_load"),
}
"""Names that import, read or build by name, wherever they come from."""

STRICT = {
    "typ": ("rt", "safe"),
    "allowed_msgpack_modules": (None,),
    "allowed_json_modules": (None,),
    "pickle_fallback": (False,),
}
"""Options of readers, and the values with which they build plain data or safe types only."""

LIMITED, LIMIT = "JsonPlusSerializer", "allowed_msgpack_modules"
"""A reader that builds any type unless it is told which."""

LAZY = "imports modules of Checkrail from a table in the code, when they are first used"
LATE = "imports a module that the code names, off the event loop or where it is installed"
LITELLM = "imports LiteLLM, by names in the code, where it is installed"
USERS = "imports what the project's files name; what comes over HTTP passes config/trust.py first"
SAFE = "reads LangGraph's safe types only, and those that the project's code and config name"

ALLOWED = {
    ("agent/models/model.py", "import_module"): LAZY,
    ("cli/app.py", "import_module"): LAZY,
    ("lazy.py", "import_module"): LAZY,
    ("adapters/litellm/callback.py", "import_module"): LITELLM,
    ("agent/models/litellm.py", "import_module"): LITELLM,
    ("agent/models/langchain.py", "import_module"): LATE,
    ("server/gateway.py", "import_module"): LATE,
    ("server/startup.py", "import_module"): LATE,
    ("actions/python.py", "exec_module"): USERS,
    ("actions/python.py", "import_module"): USERS,
    ("actions/python.py", "module_from_spec"): USERS,
    ("actions/python.py", "spec_from_file_location"): USERS,
    ("adapters/langchain/journal.py", "JsonPlusSerializer"): SAFE,
    ("adapters/langchain/journal.py", "langgraph.checkpoint.serde"): SAFE,
    ("adapters/langchain/journal.py", "loads_typed"): SAFE,
    ("runs/graphs/postgres.py", "langgraph.checkpoint.serde"): SAFE,
    ("runs/graphs/sqlite.py", "loads_typed"): SAFE,
    ("runs/graphs/state_types.py", "JsonPlusSerializer"): SAFE,
    ("runs/graphs/state_types.py", "langgraph.checkpoint.serde"): SAFE,
    ("runs/graphs/state_types.py", "loads_typed"): SAFE,
}
"""Where a loader is used, by file and name, and why nothing from a wire gets to it unchecked."""


def loaders_in(tree):
    """Yield the loaders that a module names: imports, calls, names, and options that open them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (forbidden(each.name) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (forbidden(f"{node.module}.{each.name}") for each in node.names)
            yield from (each.name for each in node.names if each.name in NAMES)
        elif isinstance(node, ast.Name) and node.id in CALLS | NAMES:
            yield node.id
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            yield node.attr
        elif isinstance(node, ast.keyword) and node.arg in STRICT and is_open(node):
            yield node.arg
        elif isinstance(node, ast.Call) and lacks_limit(node):
            yield f"{LIMITED} without {LIMIT}"


def forbidden(module):
    return next((each for each in MODULES if f"{module}.".startswith(f"{each}.")), None)


def is_open(option):
    value = option.value
    return isinstance(value, ast.Constant) and value.value not in STRICT[option.arg]


def lacks_limit(call):
    name = getattr(call.func, "id", getattr(call.func, "attr", None))
    return name == LIMITED and LIMIT not in {option.arg for option in call.keywords}


def found_in(folder):
    found = set()
    for file in folder.rglob("*.py"):
        where = file.relative_to(folder).as_posix()
        named = set(loaders_in(ast.parse(file.read_text()))) - {None}
        found |= {(where, name) for name in named}
    return found


def test_no_loader_is_used_that_is_not_listed_with_its_reason():
    new = found_in(SOURCE) - ALLOWED.keys()
    assert not new, (
        f"{sorted(new)}: these can build any type or run code. Read JSON with a schema instead. If "
        "what is read never comes from a request, a runner or a database, list it with its reason"
    )


def test_what_is_listed_is_still_there():
    assert ALLOWED.keys() <= found_in(SOURCE)


def test_a_new_loader_is_found_however_it_is_written(tmp_path):
    texts = [
        *("import pickle", "from pickle import loads", "import langchain_core.load as x"),
        *("from langchain_core import load", "from langchain_core.load.load import Reviver"),
        *("eval('1')", "run = exec", "__import__('os')", "compile('1', '', 'eval')"),
        *("import importlib\nimportlib.import_module(x)", "from importlib import import_module"),
        *("serde.loads_typed(x)", "from langgraph.checkpoint.serde import jsonplus"),
        *("f(pickle_fallback=True)", "f(allowed_msgpack_modules=True)", "YAML(typ='unsafe')"),
        *("sa.Column('x', sa.PickleType())", "import yaml", "def f():\n    import marshal"),
    ]
    for number, text in enumerate(texts):
        (tmp_path / f"m{number}.py").write_text(text)
    assert {where for where, _ in found_in(tmp_path)} == {f"m{n}.py" for n in range(len(texts))}


def test_a_serializer_that_is_not_told_what_to_build_is_found(tmp_path):
    (tmp_path / "m.py").write_text("serde = jsonplus.JsonPlusSerializer()")
    assert ("m.py", f"{LIMITED} without {LIMIT}") in found_in(tmp_path)
