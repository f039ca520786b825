"""A command under (a stand-in for) nsys: its switches, its windows, its end, what is left."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from specscope.profiler import record_checks, record_switches
from specscope.profiler.record import record
from specscope.profiler.record_checks import Facts
from specscope.profiler.record_options import HOOKS, Options, Recorded
from specscope.profiler.server_errors import ServerError, UnsuitableError
from tests.nsys_programs import OPTIONS, Program

FAR = 60.0
SERVER = Path(__file__).with_name("fake_program.py")
KNOWN = {name: frozenset(options) for name, options in OPTIONS.items()}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr("specscope.profiler.server_process.TERM_SECONDS", 2.0)
    return Program(tmp_path / "installed")


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path / "out"


class Talk:
    """What was said, and to do when something is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.then: dict[str, Callable[[], None]] = {}

    def say(self, text: str) -> None:
        self.lines.append(text)
        for word in [word for word in self.then if text.startswith(word)]:
            self.then.pop(word)()

    def find(self, word: str) -> str:
        return next((line for line in self.lines if word in line), "")


@pytest.fixture
def talk() -> Talk:
    return Talk()


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)


def forever(out: Path) -> tuple[str, ...]:
    """A command that says when it is ready; the path in it tells it from those of others."""
    return python(f"import time; print('ready', flush=True); time.sleep(600)  # {out}")


def recorded(
    program: Program, out: Path, talk: Talk, command: tuple[str, ...], **options: object
) -> Recorded:
    told = {"hooks": False, "say": talk.say, "show": talk.say, **options}
    return record(Options(command, out, str(program.path), **told))  # type: ignore[arg-type]


def test_a_command_that_ends_is_recorded_whole(program: Program, out: Path, talk: Talk) -> None:
    done = recorded(program, out, talk, python("print('said')"))
    assert [path.name for path in done.reports] == ["report.nsys-rep"]
    assert (done.code, done.raw, done.complaint) == (0, (), "")
    assert (out / "server.log").read_text("utf-8").startswith("said\n")
    assert "said" in talk.lines
    assert program.order() == ["start", "launch", "shutdown"]


def test_the_exit_code_is_that_of_the_command(program: Program, out: Path, talk: Talk) -> None:
    done = recorded(program, out, talk, python("import sys; sys.exit('ValueError: no weights')"))
    assert done.code == 1
    assert done.ending == "ended with exit code 1; its log: ValueError: no weights"
    assert done.reports


def test_the_switches_are_those_of_a_server_that_speculates(
    program: Program, out: Path, talk: Talk
) -> None:
    recorded(program, out, talk, python("pass"))
    (launched,) = program.calls("launch")
    (started,) = program.calls("start")
    for word in ("--trace=cuda,nvtx", "--cuda-graph-trace=node", "--trace-fork-before-exec=true"):
        assert word in launched
    for word in ("--sample=none", "--cpuctxsw=none", f"--output={out}/report"):
        assert word in started


def test_switches_that_this_nsys_does_not_know_are_left_out_and_named(
    program: Program, out: Path, talk: Talk
) -> None:
    program.options("launch", without=("cuda-graph-trace", "trace-fork-before-exec"))
    done = recorded(program, out, talk, python("pass"))
    assert done.reports
    line = talk.find("--cuda-graph-trace=node")
    assert line == (
        "nsys 2023.4.4.54 does not know --cuda-graph-trace=node (kernels inside CUDA graphs): "
        "left out"
    )
    assert talk.find("--trace-fork-before-exec=true")


def test_a_switch_goes_to_the_subcommand_that_knows_it() -> None:
    known = {
        "launch": KNOWN["launch"] - {"cuda-graph-trace"},
        "start": KNOWN["start"] | {"cuda-graph-trace"},
    }
    found = record_switches.words(known, graphs="graph", output="o", windows=None)
    assert "--cuda-graph-trace=graph" in found.start
    assert found.left_out == ()


def test_windows_are_opened_by_the_server(program: Program, out: Path, talk: Talk) -> None:
    done = recorded(program, out, talk, python("pass"), windows=3)
    (started,) = program.calls("start")
    assert "--capture-range=cudaProfilerApi" in started
    assert "--capture-range-end=repeat:3" in started
    assert [path.name for path in done.reports] == [f"report.{n}.nsys-rep" for n in (1, 2, 3)]
    assert done.notes == ()


def test_windows_that_did_not_come_are_counted(program: Program, out: Path, talk: Talk) -> None:
    program.tell(windows=2)
    done = recorded(program, out, talk, python("pass"), windows=12)
    assert done.notes[0].startswith("2 of 12 windows were recorded")


def test_windows_need_an_nsys_that_knows_them(program: Program, out: Path, talk: Talk) -> None:
    program.options("start", without=("capture-range-end",))
    with pytest.raises(UnsuitableError, match="has no --capture-range-end=repeat:3"):
        recorded(program, out, talk, python("pass"), windows=3)
    assert program.calls("launch") == []


def test_a_duration_ends_the_collection_and_the_command(
    program: Program, out: Path, talk: Talk
) -> None:
    done = recorded(program, out, talk, forever(out), delay=0.1, duration=0.1)
    assert program.order() == ["launch", "start", "stop", "shutdown"]
    assert (done.code, len(done.reports), running(out)) == (None, 1, [])


def test_the_report_is_there_before_the_command_is_told_to_end(
    program: Program, out: Path, talk: Talk, tmp_path: Path
) -> None:
    code = (
        "import os, signal, sys, time\n"
        "def told(*_):\n"
        f"    there = os.path.exists({str(out / 'report.nsys-rep')!r})\n"
        f"    open({str(tmp_path / 'noted')!r}, 'w').write(str(there)); sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, told)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    talk.then["ready"] = lambda: os.kill(os.getpid(), signal.SIGINT)
    recorded(program, out, talk, python(code))
    assert (tmp_path / "noted").read_text() == "True"


def test_a_collection_begins_when_the_command_was_launched_not_before(
    program: Program, out: Path, talk: Talk
) -> None:
    """Else nsys makes a session of that name, and refuses to launch the command in it."""
    program.tell(launch_seconds=3)
    missing = {"ready", "collecting"}

    def say(text: str) -> None:
        if text in missing:
            missing.remove(text)
            if not missing:
                os.kill(os.getpid(), signal.SIGINT)

    options = {"delay": 0, "duration": FAR, "say": say, "show": say}
    done = recorded(program, out, talk, forever(out), **options)
    assert (done.code, len(done.reports)) == (None, 1)


def test_an_interrupt_ends_the_collection_and_goes_on(
    program: Program, out: Path, talk: Talk
) -> None:
    talk.then["ready"] = lambda: os.kill(os.getpid(), signal.SIGINT)
    done = recorded(program, out, talk, forever(out))
    assert len(done.reports) == 1
    assert done.code is None
    assert program.calls("stop")


def test_a_second_interrupt_ends_everything(program: Program, out: Path, talk: Talk) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    program.tell(stop="hang")
    talk.then["ready"] = interrupt
    talk.then["ending the collection"] = lambda: threading.Timer(0.5, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        recorded(program, out, talk, forever(out), show=talk.say)
    assert running(out) == []


def test_an_nsys_that_does_not_stop_is_said_and_the_command_ended(
    program: Program, out: Path, talk: Talk
) -> None:
    program.tell(stop="hang")
    done = recorded(program, out, talk, forever(out), delay=0.1, duration=0.1, stop_timeout=1)
    assert done.complaint == "nsys did not write its report within 1 s"
    assert running(out) == []


def test_collections_by_signal_are_as_many_as_wanted(
    program: Program, out: Path, talk: Talk
) -> None:
    def tell(number: signal.Signals) -> Callable[[], None]:
        return lambda: os.kill(os.getpid(), number)

    lines = iter([signal.SIGUSR1, signal.SIGUSR1, signal.SIGUSR1, signal.SIGINT])

    def say(text: str) -> None:
        talk.say(text)
        if text.startswith(("ready", "collecting", "ending the collection")):
            number = next(lines, None)
            if number is not None:
                threading.Timer(0.2, tell(number)).start()

    done = recorded(program, out, talk, forever(out), by_signal=True, say=say, show=say)
    assert [path.name for path in done.reports] == ["report.1.nsys-rep", "report.2.nsys-rep"]
    assert talk.find(f"kill -USR1 {os.getpid()} begins a collection")


def test_a_report_is_kept_when_the_next_collection_does_not_begin(
    program: Program, out: Path, talk: Talk
) -> None:
    seen: list[str] = []

    def say(text: str) -> None:
        talk.say(text)
        if text.startswith(("ready", "collecting", "ending the collection")):
            seen.append(text)
            if text.startswith("ending"):
                program.tell(start_code=3)
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()

    done = recorded(program, out, talk, forever(out), by_signal=True, say=say, show=say)
    assert len(seen) == 3
    assert [path.name for path in done.reports] == ["report.1.nsys-rep"]
    assert done.complaint.startswith("nsys did not start to collect (exit code 3")
    assert running(out) == []


def test_a_command_that_ends_before_its_window_has_no_report(
    program: Program, out: Path, talk: Talk
) -> None:
    done = recorded(program, out, talk, python("import sys; sys.exit(4)"), delay=300)
    assert done.reports == ()
    assert done.code == 4


def test_a_raw_recording_that_was_left_is_found(program: Program, out: Path, talk: Talk) -> None:
    program.tell(report="lost")
    code = "import os; open(os.environ['TMPDIR'] + '/nsys-report-1b29.qdstrm', 'w').close()"
    done = recorded(program, out, talk, python(code))
    assert done.reports == ()
    assert [path.name for path in done.raw] == ["report.qdstrm", "nsys-report-1b29.qdstrm"]
    assert done.notes[0].startswith("this nsys has no importer")


def test_a_raw_recording_of_somebody_else_is_none_of_ours(
    program: Program, out: Path, talk: Talk
) -> None:
    code = "import os; open(os.environ['TMPDIR'] + '/nsys-report-1b29.qdstrm', 'w').close()"
    assert recorded(program, out, talk, python(code)).raw == ()


def test_reports_are_for_the_user_only(program: Program, out: Path, talk: Talk) -> None:
    done = recorded(program, out, talk, python("pass"))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (out, *done.reports)]
    assert modes == [0o700, 0o600]


def test_secrets_of_the_command_are_in_no_line_and_not_in_the_log(
    program: Program, out: Path, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_plantedplantedplanted")
    code = "import os, sys; print(sys.argv, os.environ['HF_TOKEN'])"
    recorded(program, out, talk, (*python(code), "--api-key", "planted-secret-1"))
    text = "\n".join(talk.lines) + (out / "server.log").read_text("utf-8")
    assert "planted" not in text
    assert "--api-key" in talk.find("runs VLLM_WORKER_MULTIPROC_METHOD=spawn")


def test_the_command_gets_what_servers_need_under_nsys_and_the_hooks(
    program: Program, out: Path, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLLM_WORKER_MULTIPROC_METHOD", raising=False)
    names = (
        *("VLLM_WORKER_MULTIPROC_METHOD", "NSYS_NVTX_PROFILER_REGISTER_ONLY"),
        *("SPECSCOPE_LOG", "SPECSCOPE_EVENTS_EVERY"),
    )
    code = f"import os; print([os.environ.get(name) for name in {names!r}])"
    recorded(program, out, talk, python(code), hooks=True)
    assert str(["spawn", "0", str(out / HOOKS), "0"]) in talk.lines
    code = "import sys; print('attached', getattr(sys, '_specscope_started', False))"
    command = (sys.executable, "-c", code)
    recorded(program, out.with_name("hooked"), talk, command, hooks=True)
    recorded(program, out.with_name("bare"), talk, command, hooks=False)
    assert [line for line in talk.lines if line.startswith("attached")] == [
        "attached True",
        "attached False",
    ]


def test_what_the_user_set_stays(
    program: Program, out: Path, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "fork")
    code = "import os; print('method', os.environ['VLLM_WORKER_MULTIPROC_METHOD'])"
    recorded(program, out, talk, python(code))
    assert "method fork" in talk.lines
    assert talk.find("forked workers lose most or all of their rows")


def test_a_folder_with_a_recording_is_not_written_over(
    program: Program, out: Path, talk: Talk
) -> None:
    recorded(program, out, talk, python("pass"))
    with pytest.raises(UnsuitableError, match="holds a recording"):
        recorded(program, out, talk, python("pass"))


def test_without_nsys_it_is_said_how_to_get_one(
    out: Path, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UnsuitableError, match="no nsys on PATH; Nsight Systems is a part of"):
        record(Options(python("pass"), out))


def test_an_nsys_that_refuses_to_start_is_one_line(program: Program, out: Path, talk: Talk) -> None:
    program.tell(start_code=3)
    with pytest.raises(ServerError, match="nsys did not start to collect"):
        recorded(program, out, talk, forever(out), delay=0.1)
    assert running(out) == []


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (Facts((), environ={record_checks.SPAWN: "fork"}), "forked workers lose"),
        (Facts((), environ={"VLLM_TORCH_PROFILER_DIR": "/t"}), "cannot both see the GPU"),
        (Facts(("vllm", "--profiler-config", '{"profiler": "torch"}')), "cannot both see the GPU"),
        (Facts((), nsys="2023.4.4.54", nvtx="0.2.12"), "install 'nvtx<0.2.12'"),
        (Facts((), nsys="2025.5.2.266", nvtx=""), "has no package nvtx"),
        (Facts((), nsys="2023.4.4.54", driver=580), "the driver (580) is of a later time"),
        (Facts((), graphs="graph"), "is one block in the report"),
        (Facts((), free_bytes=10**9, scratch="/tmp"), "1.0 GB free in /tmp"),
    ],
)
def test_what_will_go_wrong_is_said_before(facts: Facts, word: str) -> None:
    (line,) = record_checks.warnings(facts)
    assert word in line


@pytest.mark.parametrize(
    "facts",
    [
        Facts(("vllm", "--profiler-config", '{"profiler": "cuda"}')),
        Facts((), nsys="2023.4.4.54", nvtx="0.2.11"),
        Facts((), nsys="2024.6.2.225", nvtx="0.2.17"),
        Facts((), nsys="2024.6.2.225", driver=570),
        Facts((), nsys="2023.4.4.54", driver=550),
        Facts((), nsys="2026.1.1.204", driver=999),
        Facts((), nsys="2021.1.1.1", driver=550),
        Facts((), free_bytes=10**10),
    ],
)
def test_what_goes_well_is_passed_over(facts: Facts) -> None:
    assert record_checks.warnings(facts) == []


def test_the_python_of_a_command_is_found(tmp_path: Path) -> None:
    script = tmp_path / "serve"
    script.write_text(f"#!{sys.executable}\nprint()\n", "utf-8")
    script.chmod(0o700)
    environ = {"PATH": os.pathsep.join([str(tmp_path), os.environ["PATH"]])}
    assert record_checks.python_of(["serve", "--port", "1"], environ) == sys.executable
    assert (
        record_checks.python_of(["numactl", "-N0", sys.executable, "-m", "x"], environ)
        == sys.executable
    )
    assert record_checks.python_of(["sh", "-c", "python"], environ) is None


def test_the_nvtx_of_a_python_is_asked_of_it(tmp_path: Path) -> None:
    found = record_checks.nvtx_of(sys.executable, dict(os.environ))
    known = subprocess.run(
        [sys.executable, "-c", "import importlib.metadata as m; print(m.version('nvtx'))"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found == (known.stdout.strip() if known.returncode == 0 else "")
    assert record_checks.nvtx_of("/bin/false", {}) is None


def test_the_branch_of_the_driver_is_read(tmp_path: Path) -> None:
    file = tmp_path / "version"
    line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.20  Sun Mar 30 02:23:12 UTC\n"
    file.write_text(line, "ascii")
    assert record_checks.driver_of(file) == 570
    assert record_checks.driver_of(tmp_path / "gone") is None


def running(out: Path) -> list[str]:
    """Command lines of processes that still run for a recording into that folder."""
    until = time.monotonic() + FAR
    while found := _running(out):
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return found


def _running(out: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"time.sleep(600)  # {out}".encode() in words:
            found.append(words.decode("utf-8", "replace"))
    return found


def test_with_a_url_the_collection_begins_when_the_server_is_ready(
    program: Program, out: Path, talk: Talk
) -> None:
    port = free_port()
    server = (sys.executable, str(SERVER), "--engine", "sglang", "--port", str(port))
    done = recorded(program, out, talk, server, url=f"http://127.0.0.1:{port}", duration=0.1)
    assert talk.find("the server is ready: SGLang") or talk.find("the server is ready: sglang")
    order = [line for line in talk.lines if line.startswith(("the server is ready", "collecting"))]
    assert order[0].startswith("the server is ready")
    assert (done.code, len(done.reports)) == (None, 1)


def test_a_server_that_dies_before_it_is_ready_gives_its_exit_code(
    program: Program, out: Path, talk: Talk
) -> None:
    port = free_port()
    server = (sys.executable, str(SERVER), "--port", str(port), "--fault", "dies")
    done = recorded(program, out, talk, server, url=f"http://127.0.0.1:{port}", duration=0.1)
    assert (done.code, done.reports) == (3, ())
    assert "ValueError: speculative_num_steps is too large for this draft" in done.ending


def test_a_server_that_is_not_ready_in_time_is_ended(
    program: Program, out: Path, talk: Talk
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ServerError, match="was not ready after 1 s; give a longer --ready-timeout"):
        recorded(program, out, talk, forever(out), url=url, ready_timeout=1)
    assert running(out) == []


def test_an_address_that_somebody_holds_is_refused(program: Program, out: Path, talk: Talk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UnsuitableError, match=f"port {port} is in use"):
            recorded(program, out, talk, forever(out), url=f"http://127.0.0.1:{port}")
    assert program.order() == []


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
