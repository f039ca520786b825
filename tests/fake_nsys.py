"""A stand-in for the program `nsys`: its switches, messages and exit codes, without Nsight.

What it is to do stands in the JSON file named by FAKE_NSYS; `program` in tests/nsys_programs.py
writes that, and a script to call. The messages are those of nsys 2022.4.2 and 2023.4.4.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CONFIG = Path(os.environ["FAKE_NSYS"])
HOME = CONFIG.parent


def main(words: list[str]) -> int:
    """Do what the words say; the exit code."""
    told = json.loads(CONFIG.read_text("utf-8"))
    with (HOME / "calls").open("a", encoding="utf-8") as file:
        file.write(json.dumps(words) + "\n")
    if words == ["sessions", "list"]:
        print("ID TIME STATE LAUNCH NAME")
        for path in HOME.glob("session-*"):
            print(f"1 00:01 Launched 1 {path.name.removeprefix('session-')}")
        return 0
    if words == ["--version"]:
        print(told["version_line"])
        return 0
    command, *rest = words
    if rest == ["--help"]:
        print(f"usage: nsys {command} [<args>]\n")
        for name in told["options"][command]:
            print(f"\t--{name}=\n\n\t   Possible values are 'true' or 'false'.\n")
        return 0
    given, behind = switches(rest)
    unknown = [name for name in given if name not in told["options"][command]]
    if unknown:
        print(f"unrecognised option '--{unknown[0]}={given[unknown[0]]}'\n")
        print(f"usage: nsys {command} [<args>]\nTry 'nsys {command} --help' for more information.")
        return 1
    return COMMANDS[command](given, behind, told)


def switches(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The switches, and the words behind them."""
    given: dict[str, str] = {}
    for place, word in enumerate(words):
        if not word.startswith("--"):
            return given, words[place:]
        name, _, value = word[2:].partition("=")
        given[name] = value
    return given, []


def export(given: dict[str, str], behind: list[str], told: dict[str, Any]) -> int:
    """`nsys export`."""
    report, output = Path(behind[0]), Path(given["output"])
    how = told["export"]
    if how == "hang":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (HOME / "hanging").write_text(f"{os.getpid()} {child.pid}", "utf-8")
        time.sleep(600)
    if how == "killed":
        output.write_bytes(b"SQLite format 3\x00")
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "full":
        output.touch()
        print("\nFailed to close database connection: dbapi.h(38): Throw in function void check")
        print("std::exception::what: RuntimeException")
        print("[QuadDCommon::tag_message*] = database or disk is full")
        return 0
    if how != "well":
        print(how)
        return 1
    if output.exists() and given.get("force-overwrite") != "true":
        print(f"Exportation error: File already exists: '{output}'.")
        return 1
    if not report.read_bytes().startswith(b"NVIDIA Tegra Profiler Report "):
        print("Exportation error: Section Table Reference magic number mismatch.")
        return 1
    if "copy" in told:
        shutil.copy(told["copy"], output)
        return 0
    with contextlib.closing(sqlite3.connect(output)) as out:
        out.execute("create table META_DATA_CAPTURE (name text, value text)")
        rows = [
            ("PROCESS_0:ENVIRONMENT_VARIABLE", f"{name}={value}")
            for name, value in os.environ.items()
        ]
        out.executemany("insert into META_DATA_CAPTURE values (?, ?)", rows)
        out.commit()
    return 0


def start(given: dict[str, str], behind: list[str], told: dict[str, Any]) -> int:
    """`nsys start`: before or after `nsys launch`; a session that is not there is made."""
    name = given.get("session-new") or given["session"]
    state = read(name)
    state["output"] = given["output"]
    state["windows"] = given.get("capture-range-end", "")
    write(name, state)
    return int(told.get("start_code", 0))


def launch(given: dict[str, str], behind: list[str], told: dict[str, Any]) -> int:
    """`nsys launch`: waits for the command, whose exit code it has."""
    name = given.get("session-new") or given["session"]
    time.sleep(told.get("launch_seconds", 0))
    if "session-new" in given and session(name).exists():
        print(f"Session name '{name}' is already in use. Run `nsys sessions list` to list them.")
        return 1
    state = read(name)
    child = subprocess.Popen(behind, start_new_session=True)
    write(name, {**state, "pid": child.pid})
    code = child.wait()
    collect(name, told)
    session(name).unlink(missing_ok=True)
    return code if code >= 0 else 128 - code


def stop(given: dict[str, str], behind: list[str], told: dict[str, Any]) -> int:
    """`nsys stop`."""
    if told.get("stop") == "hang":
        time.sleep(600)
    return 0 if collect(given["session"], told) else 1


def shutdown(given: dict[str, str], behind: list[str], told: dict[str, Any]) -> int:
    """`nsys shutdown`."""
    if not session(given["session"]).exists():
        print("No such session")
        return 1
    return 0


def collect(name: str, told: dict[str, Any]) -> bool:
    """Write the report of what was collected."""
    state = read(name)
    output = state.pop("output", None)
    if output is None:
        return False
    write(name, state)
    lost = told.get("report") == "lost"
    if lost:
        print("Importer error status: The importer binary and its dependencies were not found.")
    windows = state["windows"].removeprefix("repeat:")
    names = [f"{output}.{number + 1}" for number in range(int(windows))] if windows else [output]
    for one in names[: told.get("windows", len(names))]:
        path = Path(one + (".qdstrm" if lost else ".nsys-rep"))
        path.write_bytes(b"NVIDIA Tegra Profiler Report 2023@4@4@54-234433681190v0.\n")
        print(f"Generated:\n    {path}")
    return True


def session(name: str) -> Path:
    """The file of a session."""
    return HOME / f"session-{name}"


def read(name: str) -> dict[str, Any]:
    """What is known of a session."""
    try:
        return dict(json.loads(session(name).read_text("utf-8")))
    except FileNotFoundError:
        return {}


def write(name: str, state: dict[str, Any]) -> None:
    """Keep what is known of a session."""
    new = session(name).with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(state), "utf-8")
    new.replace(session(name))


COMMANDS = {"export": export, "start": start, "launch": launch, "stop": stop, "shutdown": shutdown}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
