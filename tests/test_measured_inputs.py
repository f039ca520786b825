"""The command reads what was measured: files, addresses, baselines; every failure is one line."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from specscope import fetch, measured_inputs
from specscope.cli import analyze_command
from specscope.measured_options import Measured
from specscope.traces.errors import SpecscopeError, TraceFormatError, UsageError
from tests.shared import shared_path

OWN = shared_path("traces", "own")
RUN = OWN / "tp2-8b-eagle3-k3-nvlink-bs1"
LOG = "Decode batch, #running-req: 1, accept len: 2.50, accept rate: 0.50, #queue-req: 0\n"
PAGE = "vllm:spec_decode_num_drafts 100\nvllm:spec_decode_num_accepted_tokens 150\n"

Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def server() -> Iterator[Callable[[Callable[[str], Answer]], str]]:
    """Starts a server with the given answers; its address."""
    running: list[http.server.ThreadingHTTPServer] = []

    def start(answer: Callable[[str], Answer]) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, headers, body = answer(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        httpd.daemon_threads = True
        running.append(httpd)
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{httpd.server_address[1]}"

    yield start
    for httpd in running:
        httpd.shutdown()
        httpd.server_close()


def analyzed(*words: str) -> Result:
    return CliRunner().invoke(analyze_command, [*words, "--no-cache"], standalone_mode=False)


def throughput(*words: str) -> dict[str, Any]:
    done = analyzed(*words, "--json")
    assert done.return_value == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)["throughput"]
    return found


def test_a_server_log_goes_before_the_file_beside_the_traces(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text("x\nDecode batch, #running\n" + LOG)
    done = analyzed(str(RUN), "--server-log", str(log), "--json")
    report = json.loads(done.stdout)
    found = report["throughput"]
    assert found["acceptance"]["accept_length"] == 2.5
    assert found["acceptance"]["source"] == "server log serve.log"
    # SGLang 0.5.12: accepted over proposed drafts; meta.json says that the server simulates.
    assert found["acceptance"]["rate"] == 0.5
    assert found["acceptance"]["simulated"] is True
    assert [one["source"] for one in found["other_acceptances"]] == ["meta.json"]
    (note,) = [one for one in report["warnings"] if one["code"] == "entries_damaged"]
    assert "1 of 2" in note["text"]


def test_an_option_goes_before_a_log(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text(LOG)
    found = throughput(str(RUN), "--server-log", str(log), "--accept-length", "3")
    assert found["acceptance"]["source"] == "--accept-length"
    assert found["acceptance"]["simulated"] is False


def test_a_log_gives_the_accept_length_of_a_rate(tmp_path: Path) -> None:
    """cycle = batch x accept length / rate, with 2.5 of the log."""
    log = tmp_path / "serve.log"
    log.write_text(LOG)
    found = throughput(str(RUN), "--server-log", str(log), "--tokens-per-second", "500")
    assert found["cycle_ns"] == 5_000_000
    assert found["tokens_per_second"] == pytest.approx(500)


def test_the_rate_of_a_log_is_shown_and_not_used(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    line = LOG.replace("#queue", "gen throughput (token/s): 312.50, #queue")
    log.write_text(line * 3)
    found = throughput(str(RUN), "--server-log", str(log))
    assert found["log_rate"]["tokens_per_second"] == 312.5
    assert found["log_rate"]["cycle_ns"] == 8_000_000
    assert found["cycle_source"] == "meta.json"
    text = " ".join(analyzed(str(RUN), "--server-log", str(log)).stdout.split())
    assert "prints 312.5 tokens/s at batch 1 (median of 3 lines): a cycle of 8.00 ms." in text


def test_responses_and_two_metrics_are_read(tmp_path: Path) -> None:
    for name, drafts in (("a.txt", 100), ("b.txt", 300)):
        text = (
            f"vllm:spec_decode_num_drafts {drafts}\nvllm:spec_decode_num_accepted_tokens {drafts}"
        )
        (tmp_path / name).write_text(text)
    (tmp_path / "r.json").write_text(
        json.dumps({"spec_verify_ct": 4, "spec_num_correct_drafts": 8})
    )
    found = throughput(
        str(RUN),
        *("--metrics", str(tmp_path / "a.txt"), "--metrics", str(tmp_path / "b.txt")),
        *("--responses", str(tmp_path / "r.json")),
    )
    assert found["acceptance"]["source"] == "responses r.json"
    assert found["acceptance"]["accept_length"] == 3.0
    others = [one["source"] for one in found["other_acceptances"]]
    assert others == ["metrics b.txt since a.txt", "meta.json"]


def test_a_report_with_everything_fits_the_schema(tmp_path: Path) -> None:
    timers = "".join(
        f'sglang:forward_execution_seconds_total{{category="{name}"}} {seconds}\n'
        for name, seconds in (("target_verify", 8), ("eagle_draft", 1), ("decode", 3))
    )
    (tmp_path / "m.txt").write_text(timers + "sglang:spec_accept_length 2.2\n")
    (tmp_path / "s.log").write_text(
        LOG.replace("#queue", "gen throughput (token/s): 9.0, #queue") * 3
    )
    done = analyzed(
        str(RUN),
        *("--metrics", str(tmp_path / "m.txt"), "--server-log", str(tmp_path / "s.log")),
        *("--baseline", str(OWN / "tp2-8b-plain-nvlink-bs1"), "--json"),
    )
    report = json.loads(done.stdout)
    schema = Path(__file__).resolve().parents[1] / "docs" / "report.schema.json"
    jsonschema.validate(report, json.loads(schema.read_text("utf-8")))
    found = report["throughput"]
    left_empty = {key for key, value in found.items() if value in (None, [])}
    assert left_empty == {"missing"}
    assert found["device_timers"]["left_out"] == ["decode"]


def test_a_baseline_folder_gives_the_break_even() -> None:
    found = throughput(str(RUN), "--baseline", str(OWN / "tp2-8b-plain-nvlink-bs1"))
    assert found["break_even"] == pytest.approx(2.11, abs=0.005)
    text = analyzed(str(RUN), "--baseline", str(OWN / "tp2-8b-plain-nvlink-bs1")).stdout
    assert "Break-even accept length 2.11" in text
    assert "no gain" in " ".join(text.split())
    assert "simulated by the server" in " ".join(text.split())


def test_a_baseline_rate_gives_the_plain_step() -> None:
    found = throughput(str(RUN), "--baseline-tokens-per-second", "400")
    assert found["baseline"]["step_ns"] == 2_500_000
    assert found["speed_up"] == pytest.approx(309.7 / 400, abs=0.001)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--baseline", str(OWN / "tp2-70b-plain-nvlink-bs1")), "model"),
        (("--baseline", "missing"), "does not exist"),
        (("--baseline", str(RUN), "--baseline-tokens-per-second", "4"), "give one"),
        (("--metrics", "a", "--metrics", "b", "--metrics", "c"), "more than twice"),
        (("--server-log", "missing.log"), "does not exist"),
        (("--responses", "missing.json"), "does not exist"),
        (("--metrics", "missing.txt"), "does not exist"),
        (("--metrics", "localhost:30000"), "write http:// before it"),
    ],
)
def test_a_wrong_input_is_one_line_and_no_traceback(words: tuple[str, ...], why: str) -> None:
    done = analyzed(str(RUN), *words)
    assert done.return_value in (2, 3)
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("specscope: ")]
    assert why in line
    assert "internal error" not in line


def test_inputs_that_a_plain_run_cannot_use_are_said(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text(LOG)
    done = analyzed(str(OWN / "tp2-8b-plain-nvlink-bs1"), "--server-log", str(log), "--json")
    codes = [one["code"] for one in json.loads(done.stdout)["warnings"]]
    assert "inputs_unused" in codes


def test_an_address_is_fetched_at_metrics(server: Callable[..., str]) -> None:
    asked: list[str] = []

    def answer(path: str) -> Answer:
        asked.append(path)
        return 200, {}, PAGE.encode()

    address = server(answer)
    (found,) = measured_inputs.read(Measured(metrics=(address,))).served
    assert found.accept_length == 2.5
    assert found.source == f"metrics {address}"
    assert fetch.fetch(f"{address}/other?x=1") == PAGE
    assert asked == ["/metrics", "/other?x=1"]


@pytest.mark.parametrize(
    ("status", "headers", "body", "why"),
    [
        (404, {}, b"", "answers 404"),
        (302, {"Location": "file:///etc/passwd"}, b"", "answers 302"),
        (200, {}, b"<html>", "no metric of SGLang or vLLM"),
        (401, {}, b"", "wants a key"),
    ],
)
def test_an_address_that_has_no_metrics_is_one_line(
    server: Callable[..., str], status: int, headers: dict[str, str], body: bytes, why: str
) -> None:
    address = server(lambda _: (status, headers, body))
    with pytest.raises(SpecscopeError, match=why) as error:
        measured_inputs.read(Measured(metrics=(f"{address}/metrics?token=secret",)))
    assert "\n" not in str(error.value)
    assert "secret" not in str(error.value)


def test_a_server_that_does_not_answer_is_left_after_its_time(server: Callable[..., str]) -> None:
    done = threading.Event()

    def answer(_: str) -> Answer:
        done.wait(60)
        return 200, {}, b""

    address = server(answer)
    start = time.monotonic()
    with pytest.raises(TraceFormatError, match="did not answer"):
        fetch.fetch(address, seconds=0.3)
    assert time.monotonic() - start < 50
    done.set()


@pytest.mark.parametrize("address", ["http://", "http://a:b@c/", "http://[", "https://x:99999999/"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError) as error:
        fetch.fetch(address)
    assert "a:b" not in str(error.value)


@pytest.mark.parametrize("word", ["file:///etc/passwd", "ftp://x/y", "gopher://x"])
def test_only_http_is_an_address(word: str) -> None:
    assert not fetch.is_address(word)
    with pytest.raises(UsageError, match="an address is http or https only"):
        measured_inputs.read(Measured(metrics=(word,)))
