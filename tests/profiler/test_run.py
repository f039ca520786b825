"""`specscope run` and the start-up hook: every Python process of a command, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from specscope.profiler import launch, plugins
from tests import waiting
from tests.profiler import toys
from tests.slowness import slowness

BIN = Path(sys.executable).parent
SPECSCOPE = str(BIN / "specscope")
CYCLES = 3

# One process that serves some cycles, itself or in a child of the given start method.
SERVE = f"""
import multiprocessing, sys

def serve():
    from sglang.srt.speculative import eagle_worker_v2 as e
    worker = e.EAGLEWorkerV2()
    for _ in range({CYCLES}):
        worker.forward_batch_generation(e.Batch())

if __name__ == "__main__":
    method = sys.argv[1]
    if method == "here":
        serve()
    else:
        child = multiprocessing.get_context(method).Process(target=serve)
        child.start()
        child.join()
        sys.exit(child.exitcode)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = toys.write(tmp_path / "site", toys.SGLANG)
    (folder / "serve.py").write_text(SERVE, "utf-8")
    return folder


def environment(site: Path, **more: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("SPECSCOPE_")}
    return {**env, "PYTHONPATH": str(site), **more}


def ran(*command: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=waiting.PATIENCE
    )


def fired(log: Path) -> list[int]:
    """How often the verify hook fired, in each process that served."""
    counts = []
    for path in log.glob("attach-*.json"):
        for hook in json.loads(path.read_text("utf-8"))["hooks"]:
            if hook["target"].endswith("EAGLEWorkerV2.verify") and hook["fired"]:
                counts.append(hook["fired"])
    return counts


# ---------------------------------------------------------------- processes


@pytest.mark.parametrize("method", ["here", "spawn", "fork", "forkserver"])
def test_the_hooks_are_in_every_kind_of_child(site: Path, tmp_path: Path, method: str) -> None:
    log = tmp_path / "log"
    command = [sys.executable, str(site / "serve.py"), method]
    done = ran(SPECSCOPE, "run", "--log", str(log), "--", *command, env=environment(site))
    assert (done.returncode, done.stderr) == (0, "")
    assert fired(log) == [CYCLES]


@pytest.mark.parametrize(
    "wrapper", [["env", "SOME=thing"], ["nice"], ["bash", "-c", 'exec "$@"', "bash"]]
)
def test_wrappers_that_start_the_command_are_passed_through(
    site: Path, tmp_path: Path, wrapper: list[str]
) -> None:
    log = tmp_path / "log"
    command = [*wrapper, sys.executable, str(site / "serve.py"), "here"]
    done = ran(SPECSCOPE, "run", "--log", str(log), "--", *command, env=environment(site))
    assert (done.returncode, fired(log)) == (0, [CYCLES])


def test_hooks_attached_before_a_fork_count_anew_in_the_child(site: Path, tmp_path: Path) -> None:
    code = (
        "import os, serve\n"
        "serve.serve()\n"
        "pid = os.fork()\n"
        "serve.serve()\n"
        "if pid: os.waitpid(pid, 0)\n"
    )
    log = tmp_path / "log"
    done = ran(
        SPECSCOPE, "run", "--log", str(log), "--", sys.executable, "-c", code, env=environment(site)
    )
    assert done.returncode == 0, done.stderr
    assert sorted(fired(log)) == [CYCLES, 2 * CYCLES]


# ---------------------------------------------------------------- exit codes and signals


@pytest.mark.parametrize("code", [0, 1, 7, 141])
def test_the_exit_code_is_that_of_the_command(site: Path, code: int) -> None:
    command = [sys.executable, "-c", f"raise SystemExit({code})"]
    assert ran(SPECSCOPE, "run", "--", *command, env=environment(site)).returncode == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_signals_reach_the_command(site: Path, number: signal.Signals) -> None:
    code = (
        "import signal, sys, time\n"
        "for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\n"
        "    signal.signal(s, lambda n, f: sys.exit(40 + n))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [SPECSCOPE, "run", "--", sys.executable, "-c", code]
    with subprocess.Popen(command, env=environment(site), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        expected = -number if number == signal.SIGKILL else 40 + number
        try:
            assert process.wait(waiting.PATIENCE) == expected
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("no-such-command-anywhere", launch.NOT_FOUND, "command not found"),
        ("/", launch.CANNOT_RUN, "Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started_is_one_line(
    site: Path, command: str, code: int, words: str
) -> None:
    done = ran(SPECSCOPE, "run", "--", command, env=environment(site))
    assert done.returncode == code
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_options_of_the_command_are_left_to_it(site: Path) -> None:
    code = "import sys; print(sys.argv[1:])"
    done = ran(
        SPECSCOPE, "run", sys.executable, "-c", code, "--log", "x", "-h", env=environment(site)
    )
    assert done.stdout == "['--log', 'x', '-h']\n"


# ---------------------------------------------------------------- the sitecustomize of others


def test_the_sitecustomize_that_was_there_still_runs(site: Path, tmp_path: Path) -> None:
    (site / "sitecustomize.py").write_text("import sys; sys.theirs = __file__\n", "utf-8")
    code = "import sys, sitecustomize; print(sys.theirs == sitecustomize.__file__)"
    done = ran(SPECSCOPE, "run", "--", sys.executable, "-c", code, env=environment(site))
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_sitecustomize_that_looks_for_the_next_itself_ends_nowhere_twice(
    site: Path, tmp_path: Path
) -> None:
    """As tracing tools do it: their file searches the path for another one, ours included."""
    (site / "sitecustomize.py").write_text(
        "import os, sys\n"
        "sys.theirs = getattr(sys, 'theirs', 0) + 1\n"
        "from importlib.machinery import PathFinder\n"
        "import importlib.util\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "spec = PathFinder.find_spec('sitecustomize', [p for p in sys.path if p != here])\n"
        "if spec:\n"
        "    spec.loader.exec_module(importlib.util.module_from_spec(spec))\n",
        "utf-8",
    )
    log = tmp_path / "log"
    code = "import sys, serve; serve.serve(); print(sys.theirs)"
    done = ran(
        SPECSCOPE, "run", "--log", str(log), "--", sys.executable, "-c", code, env=environment(site)
    )
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert fired(log) == [CYCLES]


def test_a_sitecustomize_that_fails_fails_as_it_did_without_us(site: Path) -> None:
    (site / "sitecustomize.py").write_text("raise RuntimeError('theirs')\n", "utf-8")
    command = [sys.executable, "-c", "print('up')"]
    alone = ran(*command, env=environment(site))
    done = ran(SPECSCOPE, "run", "--", *command, env=environment(site))
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    assert "RuntimeError: theirs" in done.stderr


# ---------------------------------------------------------------- hostile surroundings


def test_the_variable_switches_it_off(site: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = environment(site, SPECSCOPE_DISABLE="1")
    command = [sys.executable, str(site / "serve.py"), "here"]
    done = ran(SPECSCOPE, "run", "--log", str(log), "--", *command, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert not log.exists()


@pytest.mark.parametrize("method", ["here", "spawn"])
def test_an_interpreter_without_specscope_runs_and_says_so_once(
    site: Path, tmp_path: Path, method: str
) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    command = [str(bare / "bin/python"), str(site / "serve.py"), method]
    done = ran(SPECSCOPE, "run", "--", *command, env=environment(site))
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "not attached" in done.stderr


def test_an_interpreter_without_wrapt_runs_and_says_what_is_missing(
    site: Path, tmp_path: Path
) -> None:
    (site / "wrapt.py").write_text("raise ImportError('no wrapt here')\n", "utf-8")
    command = [sys.executable, str(site / "serve.py"), "spawn"]
    done = ran(SPECSCOPE, "run", "--", *command, env=environment(site))
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "specscope[server]" in done.stderr


def test_isolated_interpreters_run_without_hooks(site: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-I", "-c", "print('up')"]
    done = ran(SPECSCOPE, "run", "--log", str(log), "--", *command, env=environment(site))
    assert (done.returncode, done.stdout, log.exists()) == (0, "up\n", False)


def test_a_process_with_no_engine_writes_no_report(site: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", "import json"]
    done = ran(SPECSCOPE, "run", "--log", str(log), "--", *command, env=environment(site))
    assert (done.returncode, log.exists()) == (0, False)


def test_nothing_is_written_where_the_log_folder_is_not_writable(
    site: Path, tmp_path: Path
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("", "utf-8")
    command = [sys.executable, str(site / "serve.py"), "here"]
    done = ran(SPECSCOPE, "run", "--log", str(in_the_way), "--", *command, env=environment(site))
    assert done.returncode == 0
    assert done.stderr.count("no attach report") == 1


def test_what_was_on_the_path_stays_behind_ours() -> None:
    env = launch.environment({"PYTHONPATH": "a::b", "X": "y"}, log=Path("log"), collectives=True)
    assert env["PYTHONPATH"] == os.pathsep.join([str(launch.STARTUP), "a", "", "b"])
    assert launch.environment(env)["PYTHONPATH"] == env["PYTHONPATH"]
    assert Path(env["SPECSCOPE_LOG"]).is_absolute()
    assert env["SPECSCOPE_COLLECTIVES"] == "1"
    assert env["X"] == "y"


GONE = """
import os, tempfile
os.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd())
"""


def gone(code: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Python code in a working directory that is no longer there."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("SPECSCOPE_")}
    return ran(sys.executable, "-c", GONE + code, env={**env, **more})


def test_a_log_folder_below_a_directory_that_is_gone_is_one_line() -> None:
    command = [SPECSCOPE, "run", "--log", "rel", "--", "true"]
    done = gone(f"os.execv({SPECSCOPE!r}, {command!r})")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("specscope: --log rel: ")
    assert done.stderr.count("\n") == 1


def test_a_plugin_below_a_directory_that_is_gone_says_so_once() -> None:
    code = "from specscope.profiler import plugins as p; p.register(); p.register(); p.start_up()"
    done = gone(code, SPECSCOPE_LOG="rel")
    assert done.returncode == 0
    assert done.stderr.startswith("specscope: not attached: no log folder: FileNotFoundError")
    assert done.stderr.count("\n") == 1


def test_the_home_in_the_log_folder_is_opened(tmp_path: Path) -> None:
    """A shell opens the `~` of `--log ~/x`, and not that of `--log=~/x`."""
    code = "import os; print(os.environ['SPECSCOPE_LOG'])"
    env = {**os.environ, "HOME": str(tmp_path)}
    done = ran(SPECSCOPE, "run", "--log=~/x", "--", sys.executable, "-S", "-c", code, env=env)
    assert done.stdout == f"{tmp_path}/x\n"


@pytest.mark.parametrize(
    ("size", "says"), [("2000T", "is more than"), ("1K", "is less than"), ("1P", "is not a size")]
)
def test_a_bound_that_the_server_would_not_take_is_refused(size: str, says: str) -> None:
    done = ran(SPECSCOPE, "run", "--log-limit", size, "--", "true", env=dict(os.environ))
    assert done.returncode == 2
    assert says in done.stderr


# ---------------------------------------------------------------- entry points, import, doctor


@pytest.mark.parametrize("group", ["vllm.general_plugins", "sglang.srt.plugins"])
def test_the_engines_find_the_plugin(group: str) -> None:
    (point,) = [p for p in metadata.entry_points(group=group) if p.name == "specscope"]
    assert point.load() is plugins.register


def test_importing_the_profiler_is_quick_and_light() -> None:
    code = (
        "import sys, time; start = time.process_time(); import specscope.profiler; "
        "print(time.process_time() - start, sorted({'numpy', 'torch', 'wrapt', 'pandas', "
        "'pyarrow', 'plotly', 'nvtx'} & set(sys.modules)))"
    )
    seconds, _, modules = min(
        ran(sys.executable, "-c", code, env=dict(os.environ)).stdout.partition(" ")
        for _ in range(10)  # the best: the others say how busy the machine is
    )
    assert modules == "[]\n"
    assert float(seconds) < 0.03 * slowness()


def test_doctor_shows_what_was_active_and_what_not(site: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, str(site / "serve.py"), "here"]
    ran(SPECSCOPE, "run", "--log", str(log), "--", *command, env=environment(site))
    (log / "attach-broken-1.json").write_text("{", "utf-8")
    done = ran(SPECSCOPE, "doctor", str(log), env=environment(site))
    assert done.returncode == 0
    assert f"EAGLEWorkerV2.verify: {CYCLES} calls" in done.stdout
    assert "TpModelWorker.forward_batch_generation: 3 calls" in done.stdout
    assert "targets of other versions" in done.stdout
    assert "attach-broken-1.json" in done.stderr
    everything = ran(SPECSCOPE, "doctor", str(log), "--all", env=environment(site)).stdout
    assert "seen in 0.4.6.post5 - 0.5.2; this is 0.5.23" in everything
    told: list[Any] = json.loads(
        ran(SPECSCOPE, "doctor", str(log), "--json", env=environment(site)).stdout
    )
    assert told[0]["engines"]["sglang"] == "0.5.23"


def test_doctor_says_what_the_hooks_take_of_a_cycle(tmp_path: Path) -> None:
    hook = {"engine": "sglang", "state": "patched", "live": True, "faults": 0}
    verify = hook | {"target": "a.verify", "role": "stage", "stage": "verify"}
    cycle = hook | {"target": "a.cycle", "role": "cycle", "stage": ""}
    hooks = [verify | {"fired": 8, "own_ns": 90_000}, cycle | {"fired": 4, "own_ns": 30_000}]
    report = {"schema_version": 1, "host": "a", "pid": 1, "process": "p", "engines": {}}
    report |= {"hooks": hooks, "active": True, "left_over": []}
    (tmp_path / "attach-a-1.json").write_text(json.dumps(report), "utf-8")
    done = ran(SPECSCOPE, "doctor", str(tmp_path), env=dict(os.environ))
    assert "own time      30 us a cycle" in done.stdout


def test_doctor_shows_the_own_time_of_collectives_apart(tmp_path: Path) -> None:
    """They are called in warm-up and prefill too, and would swell the figure of a cycle."""
    hook = {"engine": "vllm", "state": "patched", "live": True, "faults": 0, "stage": ""}
    cycle = hook | {"target": "a.cycle", "role": "cycle", "fired": 4, "own_ns": 40_000}
    broadcast = hook | {"target": "a.b", "role": "collective", "fired": 1000, "own_ns": 4_000_000}
    report = {"schema_version": 1, "host": "a", "pid": 1, "process": "p", "engines": {}}
    report |= {"hooks": [cycle, broadcast], "active": True, "left_over": []}
    (tmp_path / "attach-a-1.json").write_text(json.dumps(report), "utf-8")
    done = ran(SPECSCOPE, "doctor", str(tmp_path), env=dict(os.environ))
    assert "own time      10 us a cycle\n" in done.stdout
    assert "own time      4.0 us a call of a collective\n" in done.stdout


def test_doctor_says_what_the_log_lost_and_why_there_are_no_metrics(tmp_path: Path) -> None:
    log = {"active": False, "lost": {"write_failed": 1403}, "error": "OSError: full", "left_out": 2}
    report = {"schema_version": 1, "host": "a", "pid": 1, "process": "p", "engines": {}}
    report |= {"hooks": [], "active": True, "left_over": []}
    page = {"active": False, "port": None, "reason": "port 9400 on 127.0.0.1: in use"}
    report |= {"emitters": {"cycle_log": log, "metrics": page}}
    (tmp_path / "attach-a-1.json").write_text(json.dumps(report), "utf-8")
    done = ran(SPECSCOPE, "doctor", str(tmp_path), env=dict(os.environ))
    assert done.stdout.splitlines()[1:] == [
        "  cycle log     off: OSError: full",
        "  rows lost     1403 (write_failed): the disk did not take them",
        "  left out      2 numbers that the cycle log cannot hold",
        "  metrics       none: port 9400 on 127.0.0.1: in use",
    ]


def test_doctor_of_what_is_no_folder_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    for name, says in (("none", "does not exist"), ("file", "is no folder")):
        done = ran(SPECSCOPE, "doctor", str(tmp_path / name), env=dict(os.environ))
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert says in done.stderr


def test_doctor_names_a_hook_that_never_fired(site: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = (
        "from sglang.srt.speculative import eagle_worker_v2 as e; "
        "e.EAGLEWorkerV2().forward_batch_generation(e.Batch('EXTEND'))"
    )
    command = [sys.executable, "-c", code]
    ran(SPECSCOPE, "run", "--log", str(log), "--", *command, env=environment(site))
    done = ran(SPECSCOPE, "doctor", str(log), env=environment(site))
    assert (
        "not active    sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2.verify" in done.stdout
    )


def test_doctor_of_a_folder_without_reports_says_why_that_may_be(tmp_path: Path) -> None:
    done = ran(SPECSCOPE, "doctor", str(tmp_path), env=dict(os.environ))
    assert done.returncode == 3
    assert "PYTHONPATH" in done.stderr
    assert done.stderr.count("\n") == 1


def test_doctor_of_the_environment_names_what_is_missing(site: Path) -> None:
    done = ran(SPECSCOPE, "doctor", env=environment(site, SPECSCOPE_DISABLE="1"))
    assert done.returncode == 0
    assert "SPECSCOPE_DISABLE is set" in done.stdout
    assert "vllm.general_plugins: yes" in done.stdout


def test_the_report_of_a_killed_process_is_there(site: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import serve, time; serve.serve(); print('ready', flush=True); time.sleep(600)"
    command = [SPECSCOPE, "run", "--log", str(log), "--", sys.executable, "-c", code]
    with subprocess.Popen(command, env=environment(site), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            waiting.until(lambda: fired(log), "the report says what fired")
        finally:
            process.kill()
    assert fired(log)
