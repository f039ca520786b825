"""The engine's arguments beside the log: plain values, bounded, and without a secret."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import specscope
from specscope.profiler import attach, server_args
from specscope.traces import server_args as reader
from tests.profiler import toys
from tests.profiler.conftest import Engine
from tests.profiler.scraping import free_ports, page, scraped, value

SPECSCOPE = str(Path(sys.executable).parent / "specscope")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    server_args.forget()
    yield
    server_args.forget()


# ---------------------------------------------------------------- plain values


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Inner:
    api_key: str = "secret-in-a-field"
    limit: float = float("inf")


@dataclasses.dataclass
class Outer:
    inner: Inner = dataclasses.field(default_factory=Inner)
    colour: Colour = Colour.RED
    folder: Path = Path("/models")
    sizes: tuple[int, ...] = (1, 2)
    names: set[str] = dataclasses.field(default_factory=lambda: {"one"})
    dtype: type = int


class Struct:
    __struct_fields__ = ("tp_size", "admin_api_key")
    tp_size, admin_api_key = 4, "secret-in-a-struct"


class Model:
    model_fields = {"k": None}  # noqa: RUF012
    k = 3


def test_plain_values_stay_and_containers_are_gone_through() -> None:
    assert server_args.plain(Outer()) == {
        "inner": {"api_key": "***", "limit": "inf"},
        "colour": "RED",
        "folder": "/models",
        "sizes": [1, 2],
        "names": ["one"],
        "dtype": "builtins.int",
    }


def test_fields_of_other_kinds_of_records_are_read() -> None:
    assert server_args.plain(Struct()) == {"tp_size": 4, "admin_api_key": "***"}
    assert server_args.plain(Model()) == {"k": 3}


def test_names_that_look_like_tokens_and_ids_of_words_are_left_as_they_are() -> None:
    @dataclasses.dataclass
    class Config:
        hf_text_config: int = 1
        bos_token_id: int = 5
        hf_token: str = "x"
        pin_token: int = 7

    masked = {"hf_text_config": 1, "bos_token_id": 5, "hf_token": "***", "pin_token": "***"}
    assert server_args.plain(Config()) == masked


def test_an_object_is_shown_by_its_repr_cut_short_after_it_was_masked() -> None:
    class Thing:
        def __repr__(self) -> str:
            return "x" * (server_args.LONGEST_REPR - 20) + " password='correct horse battery'"

    shown = server_args.plain(Thing())
    assert len(shown) <= server_args.LONGEST_REPR + 3
    assert "password='***'" in shown


def test_an_object_that_cannot_show_itself_and_a_tensor_are_named_by_type() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("on purpose")

    class Tensor:
        def __repr__(self) -> str:
            raise AssertionError("to print a tensor waits for the GPU")

    for thing in (Broken(), Tensor()):
        assert server_args.plain(thing).endswith(type(thing).__qualname__)


def test_what_holds_itself_or_very_much_ends() -> None:
    loop: dict[str, Any] = {"k": 1}
    loop["self"] = loop
    assert json.dumps(server_args.plain(loop)).count('"k": 1') == server_args.DEEPEST
    wide = {str(n): list(range(1_000)) for n in range(1_000)}
    assert len(json.dumps(server_args.plain(wide))) < 200_000


def test_a_command_in_a_list_is_masked_word_by_word() -> None:
    given = ["serve", "--api-key", "abc def", "--tp", "2"]
    assert server_args.plain([given]) == [["serve", "--api-key", "***", "--tp", "2"]]


# ---------------------------------------------------------------- the file


def test_ports_before_a_process_without_a_rank_are_those_of_vllms_workers() -> None:
    config = SimpleNamespace(world_size_across_dp=8, data_parallel_rank=1)
    server_args.remember("vllm", SimpleNamespace(parallel_config=config))
    assert server_args.ranks_before() == 9
    server_args.forget()
    server_args.remember("sglang", SimpleNamespace(tp_size=2))
    assert server_args.ranks_before() is None


def test_the_file_is_written_once_and_again_when_the_rank_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server_args.write(tmp_path, lambda _: "1.0") is None
    server_args.remember("vllm", Struct())
    server_args.remember("vllm", Model())  # the draft model's runner; the first counts
    path = server_args.write(tmp_path, lambda _: "1.0")
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text("utf-8"))["rank"] is None
    assert server_args.write(tmp_path, lambda _: "1.0") is None
    monkeypatch.setattr(server_args.ranks, "distributed", lambda: (1, 2))
    assert server_args.write(tmp_path, lambda _: "1.0") == path
    written = json.loads(path.read_text("utf-8"))
    assert (written["rank"], written["world_size"]) == (1, 2)
    assert written["arguments"] == {"tp_size": 4, "admin_api_key": "***"}
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_hook_on_the_constructor_finds_the_arguments(engine: Engine, tmp_path: Path) -> None:
    attachment = attach.install(tmp_path / "log")
    module = engine("sglang.srt.managers.scheduler")
    args = engine("sglang.srt.server_args").ServerArgs()
    scheduler = module.Scheduler(args, None, gpu_id=1)
    assert scheduler.server_args is args
    assert attachment.writer is not None
    attachment.writer.now()
    (path,) = (tmp_path / "log").glob("server-args-*.json")
    written = json.loads(path.read_text("utf-8"))
    assert (written["engine"], written["engine_version"]) == ("sglang", "0.5.23")
    assert written["summary"] == {
        "model": "toy/target",
        "draft_model": "toy/draft",
        "method": "EAGLE3",
        "k": 3,
        "tp": 2,
    }
    attachment.detach()
    assert server_args._SEEN.arguments is None


def test_arguments_that_cannot_be_written_cost_one_warning_and_the_report_stays(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    attachment = attach.install(tmp_path / "log")
    monkeypatch.setattr(server_args, "document", lambda *_: 1 / 0)
    engine("sglang.srt.managers.scheduler").Scheduler(engine("sglang.srt.server_args").ServerArgs())
    assert attachment.writer is not None
    for _ in range(2):
        attachment.writer.now()
    assert [line for line in caplog.messages if str(tmp_path) in line] == [
        f"specscope: no server arguments in {tmp_path / 'log'}: division by zero"
    ]
    assert len(list((tmp_path / "log").glob("attach-*.json"))) == 1


# ---------------------------------------------------------------- planted secrets

SECRETS = {
    "api key in the command": "planted-command-api-key",
    "api key in the arguments": "planted-argument-api-key",
    "ssl password": "planted ssl password",
    "password in a URL": "planted-url-password",
    "token in a query": "planted-query-token",
    "AWS key": "AKIAPLANTED0PLANTED1",
    "AWS secret": "planted/aws+secret/0123456789abcdefghij",
    "hub token in the environment": "hf_plantedEnvironmentToken",
    "hub token inside a repr": "hf_plantedTokenInsideARepr",
    "bearer": "planted.bearer.token",
    "option in a list": "planted-list-password",
}
SERVE = f"""
import sys
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.server_args import ServerArgs
from sglang.srt.speculative import eagle_worker_v2 as e
scheduler = Scheduler(ServerArgs(
    api_key={SECRETS["api key in the arguments"]!r},
    ssl_keyfile_password={SECRETS["ssl password"]!r},
    storage={{
        "url": "s3://user:{SECRETS["password in a URL"]}@bucket/"
        "?token={SECRETS["token in a query"]}",
        "aws_access_key_id": {SECRETS["AWS key"]!r},
        "env": "AWS_SECRET_ACCESS_KEY={SECRETS["AWS secret"]}",
        "headers": ["Authorization: Bearer {SECRETS["bearer"]}"],
    }},
    arguments=["--store-password", {SECRETS["option in a list"]!r}],
))
worker = e.EAGLEWorkerV2()
worker.speculative_num_steps = {SECRETS["api key in the arguments"]!r}
for _ in range(40):
    worker.forward_batch_generation(e.Batch())
print("served", flush=True)
sys.stdin.readline()
"""


def test_no_planted_secret_is_in_anything_that_is_written_or_served(tmp_path: Path) -> None:
    log, port = tmp_path / "log", free_ports(1)
    site = toys.write(tmp_path / "site", toys.SGLANG)
    (site / "serve.py").write_text(SERVE, "utf-8")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPECSCOPE_")} | {
        "PYTHONPATH": str(site),
        "HF_TOKEN": SECRETS["hub token in the environment"],
        "AWS_SECRET_ACCESS_KEY": SECRETS["AWS secret"],
    }
    command = [SPECSCOPE, "run", "--log", str(log), "--metrics", str(port), "--", sys.executable]
    command += [str(site / "serve.py"), "--api-key", SECRETS["api key in the command"]]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "served\n"
        labels = {"rank": "", "stage": "verify"}
        scraped(port, lambda found: value(found, "specscope_stage_seconds_count", **labels) == 40)
        written = {"metrics page": page(port).encode()}
        time.sleep(1.2)  # reports are written once a second
        process.communicate("\n")
    written |= {path.name: path.read_bytes() for path in log.iterdir()}
    kinds = sorted(name.split("-")[0] for name in written)
    assert kinds == ["attach", "metrics page", "server", "specscope"]
    for name, data in written.items():
        for what, secret in SECRETS.items():
            assert secret.encode() not in data, (what, name)
    # They were there to be masked.
    (path,) = log.glob("server-args-*.json")
    arguments = json.loads(path.read_text("utf-8"))["arguments"]
    assert arguments["storage"] == {
        "url": "s3://***@bucket/?token=***",
        "aws_access_key_id": "***",
        "env": "AWS_SECRET_ACCESS_KEY=***",
        "headers": ["Authorization: ***"],
    }
    assert arguments["arguments"] == ["--store-password", "***"]
    assert "--api-key" in written[path.name].decode()


# ---------------------------------------------------------------- read again

LOG = """
import sys, time
from pathlib import Path
from specscope import profiler
from specscope.profiler import server_args
profiler.configure(profiler.Config(log=Path(sys.argv[1]), nvtx="off", engine="toy", rank=0))
profiler.enable()
class Arguments:
    model_fields = ("model_path",)
for _ in range(9):
    with profiler.cycle_range(batch=1):
        for name in ("draft", "verify"):
            with profiler.stage(name): time.sleep(0.001)
"""


def logged(folder: Path, document: Any) -> dict[str, Any]:
    """The facts of a log with that document beside it; `pid` is filled in."""
    subprocess.run([sys.executable, "-c", LOG, str(folder)], check=True)
    (log,) = folder.glob("*.arrows")
    pid = int(log.name.split("-pid")[1].split("-")[0])
    text = document if isinstance(document, str) else json.dumps({"pid": pid} | document)
    (folder / "server-args-host-1.json").write_text(text, "utf-8")
    return specscope.analyze(specscope.load(folder)).facts


def test_analyze_names_what_the_arguments_say(tmp_path: Path) -> None:
    summary = {"model": "toy/target", "draft_model": "toy/draft", "k": 5, "tp": 4}
    document = {
        "schema_version": server_args.SCHEMA_VERSION,
        "engine": "sglang",
        "engine_version": "0.5.23",
        "summary": summary,
    }
    facts = logged(tmp_path, document)
    assert (facts["engine"], facts["engine_version"]) == ("sglang", "0.5.23")
    assert {key: facts[key] for key in summary} == summary


@pytest.mark.parametrize(
    "document",
    [
        "{",
        "[1]",
        {"schema_version": 99, "engine": "other"},
        {"schema_version": 1, "pid": 0, "engine": "of another process"},
        {"schema_version": 1, "engine": 5, "summary": {"k": "many", "tp": -1, "model": None}},
    ],
)
def test_arguments_that_cannot_be_read_or_are_of_others_change_nothing(
    tmp_path: Path, document: Any
) -> None:
    facts = logged(tmp_path, document)
    assert (facts["engine"], facts["k"], facts["model"]) == ("toy", None, None)


def test_reader_and_writer_agree() -> None:
    assert reader.VERSION == server_args.SCHEMA_VERSION
    assert reader.PREFIX == server_args.PREFIX
