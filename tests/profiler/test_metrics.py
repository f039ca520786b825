"""Metrics for Prometheus: what the page says, where it is, and that it never gets in the way."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specscope.profiler import metrics, ranges
from specscope.profiler.cycle_log import CycleLog, LogConfig
from specscope.profiler.cycle_log_rows import REASONS
from tests import waiting
from tests.profiler import toys
from tests.profiler.scraping import Samples, free_ports, page, parsed, scraped, value
from tests.profiler.test_cycle_log import put_slowly, rows_of
from tests.shared import needed

needed("prometheus_client")
SPECSCOPE = str(Path(sys.executable).parent / "specscope")


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    yield
    ranges.shutdown()


def serving(port: int, rank: int | None = 0, **more: Any) -> None:
    ranges.configure(
        ranges.Config(metrics=port, rank=rank, nvtx="off", torch=False, **more),
    )
    ranges.enable()


def cycles(count: int, seconds: float = 0.0) -> None:
    for _ in range(count):
        with ranges.cycle_range(batch=2, k=3):
            number = ranges.current_cycle()
            with ranges.stage("draft"):
                time.sleep(seconds)
            with ranges.stage("verify"):
                time.sleep(2 * seconds)
        ranges.record_accept(number, [1, 4])


def has(name: str, at_least: float, **labels: str) -> Any:
    return lambda found: (value(found, name, **labels) or 0) >= at_least


# ---------------------------------------------------------------- the page


def test_the_page_has_stages_cycles_lengths_and_batch_without_a_log_folder(tmp_path: Path) -> None:
    port = free_ports(1)
    serving(port)
    start = time.perf_counter()
    cycles(50, 0.001)
    length = time.perf_counter() - start
    found = scraped(port, has("specscope_accept_length_count", 100, rank="0"))
    assert value(found, "specscope_accept_length_sum", rank="0") == 250
    assert value(found, "specscope_accept_length_bucket", rank="0", le="1") == 50
    assert value(found, "specscope_accept_length_bucket", rank="0", le="4") == 100
    assert value(found, "specscope_batch_size_sum", rank="0") == 100
    assert value(found, "specscope_cycle_seconds_count", rank="0") == 49
    assert 0.147 < (value(found, "specscope_cycle_seconds_sum", rank="0") or 0) < length
    for stage, least in (("draft", 0.05), ("verify", 0.1)):
        labels = {"rank": "0", "stage": stage}
        assert value(found, "specscope_stage_seconds_count", **labels) == 50
        assert least < (value(found, "specscope_stage_seconds_sum", **labels) or 0) < length
    report = ranges.emitters_report()
    assert report["metrics"] == {"active": True, "port": port, "reason": ""}
    assert report["cycle_log"] == {"active": False, "reason": "no folder given"}
    assert list(tmp_path.iterdir()) == []


def test_what_was_not_measured_is_not_on_the_page() -> None:
    port = free_ports(1)
    serving(port)
    cycles(3)
    found = scraped(port, has("specscope_accept_length_count", 6, rank="0"))
    names = {name for name, _ in found}
    assert not [name for name in names if "gpu" in name or "hook" in name]


def test_the_hooks_own_time_is_there_once_something_measures_it() -> None:
    port = free_ports(1)
    sources = metrics.Sources(hooks=lambda: (7, 2), hook_ns=lambda: 1_500_000_000)
    exporter = metrics.Exporter(port, sources=sources)
    exporter.poll(0, {})
    found = parsed(page(port))
    exporter.close()
    assert value(found, "specscope_hook_seconds_total", rank="0") == 1.5
    assert value(found, "specscope_hooks_active", rank="0") == 7
    assert value(found, "specscope_hook_faults_total", rank="0") == 2


def test_a_source_that_raises_costs_its_metric_alone() -> None:
    def raises() -> int:
        raise RuntimeError("on purpose")

    port = free_ports(1)
    exporter = metrics.Exporter(port, sources=metrics.Sources(hook_ns=raises))
    exporter.poll(0, {"queue_full": 3})
    found = parsed(page(port))
    exporter.close()
    assert value(found, "specscope_lost_rows_total", rank="0", reason="queue_full") == 3
    assert "specscope_hook_seconds_total" not in {name for name, _ in found}


def test_lost_rows_are_counted_by_reason(tmp_path: Path) -> None:
    port = free_ports(1)
    log = CycleLog(
        LogConfig(tmp_path, rank=0, queue_rows=5, flush_seconds=0.2),
        poll_seconds=0.02,
        metrics=metrics.Exporter(port),
    )
    log.start()
    for number in range(50):
        for one in rows_of(number):
            log.put(one)
    found = scraped(
        port, has("specscope_lost_rows_total", 1, rank="0", reason="queue_full"), seconds=5
    )
    log.close()
    reasons = {dict(labels)["reason"] for name, labels in found if "lost_rows" in name}
    assert reasons == set(REASONS)
    lost = log.report()["lost"]["queue_full"]
    assert value(found, "specscope_lost_rows_total", rank="0", reason="queue_full") == lost


def test_names_follow_the_conventions_of_prometheus() -> None:
    port = free_ports(1)
    serving(port)
    cycles(3)
    scraped(port, has("specscope_accept_length_count", 6, rank="0"))
    for line in page(port).splitlines():
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split()
            assert name.startswith("specscope_")
            assert (kind == "counter") == name.endswith("_total")


# ---------------------------------------------------------------- where the page is


def test_the_port_is_opened_when_the_rank_is_known_and_not_before() -> None:
    first = free_ports(4)
    serving(first, rank=None)
    waiting.until(
        lambda: ranges.emitters_report()["metrics"]["reason"] == "waits for the rank", "it waits"
    )
    with pytest.raises(urllib.error.URLError):
        page(first)
    ranges.set_rank(3, 4)
    cycles(2)
    found = scraped(first + 3, has("specscope_accept_length_count", 4, rank="3"))
    assert found


def test_the_rank_of_torch_distributed_is_enough_before_the_first_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Distributed:
        is_available = is_initialized = staticmethod(lambda: True)
        get_rank, get_world_size = staticmethod(lambda: 1), staticmethod(lambda: 2)

    first = free_ports(2)
    monkeypatch.setitem(sys.modules, "torch.distributed", Distributed)
    serving(first, rank=None)
    found = scraped(first + 1, lambda _: True)
    assert value(found, "specscope_lost_rows_total", rank="1", reason="queue_full") == 0


def test_a_process_without_a_rank_serves_behind_the_engines_ranks() -> None:
    first = free_ports(3)
    exporter = metrics.Exporter(first, sources=metrics.Sources(ranks=lambda: 2))
    exporter.poll(None, {})
    assert exporter.report()["port"] is None
    exporter.take(rows_of(0))
    exporter.poll(None, {})
    assert exporter.report()["port"] == first + 2
    exporter.close()


def test_only_the_loopback_address_is_served() -> None:
    port = free_ports(1)
    serving(port)
    scraped(port, lambda _: True)
    listening = [
        line.split()[1]
        for line in Path("/proc/net/tcp").read_text("utf-8").splitlines()[1:]
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    ]
    assert listening == [f"0100007F:{port:04X}"]


def test_the_port_is_free_again_after_shutdown() -> None:
    """At once: the server's loop looks for its end only twice a second. The best of several says
    so, also on a busy machine.
    """
    port, took = free_ports(1), []
    for _ in range(6):
        serving(port)
        scraped(port, lambda _: True)
        start = time.monotonic()
        ranges.shutdown()
        took.append(time.monotonic() - start)
    assert min(took) < 0.4


# ---------------------------------------------------------------- never in the way


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_a_port_in_use_costs_one_warning_and_the_log_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_ports(1)
    other = metrics.Exporter(port)
    other.poll(0, {})
    serving(port, log=tmp_path)
    cycles(5)
    waiting.until(lambda: warnings(caplog), "the port is asked for")
    cycles(5)
    ranges.shutdown()
    other.close()
    (warning,) = warnings(caplog)
    assert f"no metrics: port {port} on 127.0.0.1" in warning
    assert "in use" in warning
    assert [path.suffix for path in tmp_path.iterdir()] == [".arrows"]


def test_without_a_folder_a_port_in_use_leaves_ranges_that_nobody_pays_for() -> None:
    port = free_ports(1)
    other = metrics.Exporter(port)
    other.poll(0, {})
    serving(port)
    cycles(1)
    waiting.until(lambda: not ranges.is_heard(), "nobody pays for ranges")
    cycles(5)
    report = ranges.emitters_report()
    other.close()
    assert not report["metrics"]["active"]
    assert "in use" in report["metrics"]["reason"]
    assert report["errors"] == {}


def test_a_rank_beyond_the_last_port_costs_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    exporter = metrics.Exporter(65_535)
    exporter.poll(3, {})
    exporter.poll(3, {})
    assert len(warnings(caplog)) == 1
    assert "no metrics: 65535 + 3 is no port" in warnings(caplog)[0]


def test_rows_that_cannot_be_counted_end_the_metrics_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics.Tally, "take", lambda *_: 1 / 0)
    serving(free_ports(1), log=tmp_path)
    cycles(5)
    ranges.shutdown()
    assert len(warnings(caplog)) == 1
    assert "no metrics: ZeroDivisionError" in warnings(caplog)[0]
    assert [path.suffix for path in tmp_path.iterdir()] == [".arrows"]


def test_a_full_disk_ends_the_log_and_not_the_metrics(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def full(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    port = free_ports(1)
    log = CycleLog(
        LogConfig(tmp_path, rank=0, flush_seconds=0.0),
        put_bytes=full,
        poll_seconds=0.01,
        metrics=metrics.Exporter(port),
    )
    assert log.start()
    for number in range(1_000):
        put_slowly(log, rows_of(number))
    seen = "specscope_stage_seconds_count"
    scraped(port, has(seen, 1_000, rank="0", stage="verify"))
    lost_rows, why = "specscope_lost_rows_total", {"rank": "0", "reason": "write_failed"}
    found = scraped(port, has(lost_rows, 1, **why))  # told with the next look, not with the row
    lost = value(found, lost_rows, **why)
    log.close()
    report = log.report()
    assert len(warnings(caplog)) == 1
    assert not report["active"]
    assert report["lost"] == {"write_failed": 4_000}
    assert lost
    assert 0 < lost <= 4_000


def test_a_folder_that_cannot_be_written_leaves_the_metrics(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    port = free_ports(1)
    serving(port, log=tmp_path / "file" / "log")
    cycles(4)
    assert scraped(port, has("specscope_accept_length_count", 8, rank="0"))
    assert not ranges.emitters_report()["cycle_log"]["active"]


def test_without_prometheus_client_there_is_one_warning_and_nothing_listens(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "is_installed", lambda: False)
    serving(free_ports(1))
    cycles(3)
    assert warnings(caplog) == [
        "specscope: no metrics: prometheus-client is missing: pip install 'specscope[server]'"
    ]
    assert not ranges.is_heard()
    assert "specscope[server]" in ranges.emitters_report()["metrics"]["reason"]


def test_nothing_of_prometheus_is_imported_before_the_rank_is_known() -> None:
    """An engine chooses how its own metrics work before it imports prometheus_client."""
    code = (
        "import sys, time\n"
        "from specscope.profiler import ranges as r\n"
        f"r.configure(r.Config(metrics={free_ports(2)}, nvtx='off', torch=False)); r.enable()\n"
        "time.sleep(0.5)\n"
        "before = 'prometheus_client' in sys.modules\n"
        "r.set_rank(0, 1)\n"
        "time.sleep(0.5)\n"
        "for _ in range(1000):\n"
        "    if 'prometheus_client' not in sys.modules: time.sleep(0.1)\n"
        "print(before, 'prometheus_client' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=waiting.PATIENCE,
    )
    assert (done.stdout, done.stderr) == ("False True\n", "")


def test_the_engines_own_metrics_over_several_processes_stay_free_of_ours(tmp_path: Path) -> None:
    """With PROMETHEUS_MULTIPROC_DIR every metric object of a process is written there."""
    port = free_ports(1)
    code = (
        "from specscope.profiler import ranges as r\n"
        "import time\n"
        f"r.configure(r.Config(metrics={port}, nvtx='off', torch=False, rank=0)); r.enable()\n"
        "for _ in range(5):\n"
        "    with r.cycle_range(), r.stage('verify'): pass\n"
        "time.sleep(1.5)\n"
        "from prometheus_client import REGISTRY, generate_latest\n"
        "print(b'specscope' in generate_latest(REGISTRY))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=waiting.PATIENCE,
    )
    assert done.stdout == "False\n"
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- forks


def is_served(port: int) -> bool:
    try:
        page(port)
    except urllib.error.URLError:
        return False
    return True


def test_a_forked_child_serves_its_own_counts_and_lets_the_parents_port_go() -> None:
    first = free_ports(2)
    code = (
        "import os, signal, sys, time\n"
        "from specscope.profiler import ranges as r\n"
        f"r.configure(r.Config(metrics={first}, nvtx='off', torch=False)); r.enable()\n"
        "def serve(cycles):\n"
        "    for _ in range(cycles):\n"
        "        with r.cycle_range(batch=1), r.stage('verify'): pass\n"
        "        r.record_accept(r.current_cycle(), [2])\n"
        "r.set_rank(0, 2); serve(30); time.sleep(1.5)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    r.set_rank(1, 2); serve(7); time.sleep(600); os._exit(0)\n"
        "print(pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            count = "specscope_accept_length_count"
            assert value(scraped(first + 1, has(count, 7, rank="1")), count, rank="1") == 7
            assert value(scraped(first, has(count, 30, rank="0")), count, rank="0") == 30
            parent.kill()
            parent.wait()
            waiting.until(lambda: not is_served(first), "the port of the parent is free")
            other = metrics.Exporter(first)
            other.poll(0, {})
            assert other.report()["port"] == first
            other.close()
        finally:
            os.kill(child, signal.SIGKILL)
            parent.kill()


# ---------------------------------------------------------------- specscope run

SERVE = """
import sys, time
from sglang.srt.speculative import eagle_worker_v2 as e
from sglang.srt.managers.scheduler_components import batch_result_processor as p
worker, processor = e.EAGLEWorkerV2(), p.SchedulerBatchResultProcessor()
for _ in range(40):
    batch = e.Batch()
    processor._resolve_spec_v2_tokens(worker.forward_batch_generation(batch), batch)
print("served", flush=True)
sys.stdin.readline()
"""


class Served:
    """A toy SGLang that has served 40 cycles under `specscope run` and waits."""

    def __init__(self, folder: Path, *options: str) -> None:
        site = toys.write(folder / "site", toys.SGLANG)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SPECSCOPE_")}
        environment["PYTHONPATH"] = str(site)
        self.process = subprocess.Popen(
            [SPECSCOPE, "run", *options, "--", sys.executable, "-c", SERVE],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "served\n", self.process.communicate()

    def ended(self) -> tuple[int, str]:
        """Let it end; exit code and what it wrote to stderr."""
        _, errors = self.process.communicate("\n", timeout=waiting.PATIENCE)
        return self.process.returncode, errors


def test_specscope_run_serves_metrics_of_a_server(tmp_path: Path) -> None:
    port = free_ports(1)
    served = Served(tmp_path, "--metrics", str(port))
    found: Samples = scraped(port, has("specscope_accept_length_count", 80, rank=""))
    ended = served.ended()
    assert ended == (0, "")
    assert value(found, "specscope_accept_length_sum", rank="") == 240
    # Cycle, draft, verify, accept, draft_extend, the target's forward, the lengths.
    assert value(found, "specscope_hooks_active", rank="") == 7
    assert value(found, "specscope_hook_faults_total", rank="") == 0
    for stage in ("draft", "verify", "accept", "draft_extend"):
        labels = {"rank": "", "stage": stage}
        assert value(found, "specscope_stage_seconds_count", **labels) == 40


def test_doctor_says_where_the_page_of_a_process_is(tmp_path: Path) -> None:
    port, log = free_ports(1), tmp_path / "log"
    served = Served(tmp_path, "--metrics", str(port), "--log", str(log))
    scraped(port, has("specscope_accept_length_count", 80, rank=""))
    assert served.ended() == (0, "")
    done = subprocess.run(
        [SPECSCOPE, "doctor", str(log)], capture_output=True, text=True, check=True
    )
    assert f"  metrics       http://127.0.0.1:{port}/metrics\n" in done.stdout


def test_options_of_specscope_run_reach_the_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = ["--log", str(log), "--events-every", "0", "--nvtx", "off", "--no-torch"]
    served = Served(tmp_path, *options, "--log-limit", "8M")
    assert served.ended() == (0, "")
    (report,) = [json.loads(path.read_text("utf-8")) for path in log.glob("attach-*.json")]
    emitters = report["emitters"]
    assert emitters["cuda_events"]["every"] == 0
    assert emitters["nvtx"] == {"active": False, "by": None, "reason": "switched off"}
    assert not emitters["torch_profiler"]["active"]
    assert emitters["metrics"]["reason"] == "no port given"


def test_a_server_on_a_port_in_use_serves_and_says_so_once(tmp_path: Path) -> None:
    port = free_ports(1)
    other = metrics.Exporter(port)
    other.poll(0, {})
    served = Served(tmp_path, "--metrics", str(port))
    assert served.process.stderr is not None
    warning = served.process.stderr.readline()
    assert served.ended() == (0, "")
    other.close()
    assert f"no metrics: port {port} on 127.0.0.1" in warning


@pytest.mark.parametrize("number", [2**63, 10**400], ids=["2^63", "10^400"])
def test_a_number_that_the_log_cannot_hold_leaves_the_page_as_it_is(number: int) -> None:
    port = free_ports(1)
    serving(port)
    with ranges.cycle_range(batch=number, tokens=number):
        pass
    cycles(3)
    found = scraped(port, has("specscope_cycle_seconds_count", 3, rank="0"))
    assert value(found, "specscope_batch_size_sum", rank="0") == 6
    assert ranges.emitters_report()["metrics"]["active"]
