"""Which engine answers at a URL, and how it was started, as far as it or its process says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specscope.profiler import local_server, prometheus, vllm_command
from specscope.profiler.http_api import Api
from specscope.profiler.local_server import LocalServer
from specscope.profiler.server_errors import UnsuitableError

SGLANG, VLLM = "sglang", "vllm"
SGLANG_INFO = ("/server_info", "/get_server_info")
# Both engines: acceptance that is made up, and the setting that does it.
SGLANG_SIMULATES = "SGLANG_SIMULATE_ACC_LEN"
_MOST_RANKS, _MOST_COUNT = 1 << 16, 1 << 48
_DROPPED = frozenset({"internal_states", "startup_time", "scheduler_info", "loads"})
# What SGLang's answer holds in every version; vLLM's developer mode has the same path.
_SGLANG_KEYS = frozenset({"tp_size", "internal_states", "speculative_algorithm"})


@dataclass(frozen=True)
class Engine:
    """What is known of a server; None where nothing says it.

    `ranks` is the number of workers, and of trace files; `k` the draft tokens of a chain;
    `most_tokens` the longest sequence, `most_batch_tokens` those of all sequences together.
    `arguments` and `local` are as found: mask them before they are written.
    """

    name: str
    version: str | None = None
    model: str | None = None
    served: str = ""
    draft_model: str | None = None
    speculation: str | None = None
    k: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    nodes: int | None = None
    ranks: int | None = None
    most_tokens: int | None = None
    most_batch_tokens: int | None = None
    most_requests: int | None = None
    vocabulary: int | None = None
    simulated: bool | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    arguments_from: str | None = None
    local: LocalServer | None = None
    at_home: bool = False

    def setting(self, name: str) -> str | None:
        """A variable of the server's environment, where that can be seen."""
        return self.local.environment.get(name) if self.local else None


def probe(api: Api) -> Engine:
    """Ask the server what it is.

    Raises:
        UnsuitableError: it is neither SGLang nor vLLM, or wants a key.
        ServerError: nothing answers.
    """
    at_home = local_server.is_local(api.host)
    local = local_server.find(api.port) if at_home else None
    version = api.json("/version")
    for path in SGLANG_INFO:
        info = api.json(path)
        if isinstance(info, dict) and info.keys() & _SGLANG_KEYS:
            return _sglang(info, local, at_home)
        if isinstance(info, dict):
            break  # vLLM in developer mode
    models = api.json("/v1/models")
    if isinstance(version, dict) and "version" in version and isinstance(models, dict):
        return _vllm(api, str(version["version"]), models, local, at_home)
    raise UnsuitableError(
        f"{api.title} is neither SGLang (no {SGLANG_INFO[0]}) nor vLLM (no /version); "
        "is it a router? give the URL of the engine itself"
    )


def _sglang(info: dict[str, Any], local: LocalServer | None, at_home: bool) -> Engine:
    tp, pp, dp = (_count(info.get(f"{kind}_size")) for kind in ("tp", "pp", "dp"))
    # Data-parallel attention splits the ranks of the tensor-parallel group, it adds none.
    copies = 1 if info.get("enable_dp_attention") else (dp or 1)
    draft_tokens = _count(info.get("speculative_num_draft_tokens"))
    algorithm = _text(info.get("speculative_algorithm"))
    k = _count(info.get("speculative_num_steps")) or (draft_tokens - 1 if draft_tokens else None)
    state = _first(info.get("internal_states"))
    model = _text(info.get("model_path"))
    at_once = _count(state.get("effective_max_running_requests_per_dp"))
    return Engine(
        name=SGLANG,
        version=_text(info.get("version")),
        model=model,
        served=_text(info.get("served_model_name")) or model or "",
        draft_model=_text(info.get("speculative_draft_model_path")) if algorithm else None,
        speculation=algorithm,
        k=k if algorithm else None,
        topk=_count(info.get("speculative_eagle_topk")) if algorithm else None,
        draft_tokens=draft_tokens if algorithm else None,
        tp=tp,
        pp=pp,
        dp=dp,
        nodes=_count(info.get("nnodes")),
        ranks=_ranks(tp, pp, copies),
        most_tokens=_least(info.get("context_length"), info.get("max_req_input_len")),
        most_batch_tokens=_count(info.get("max_total_num_tokens")),
        most_requests=at_once or _count(info.get("max_running_requests")),
        vocabulary=_vocabulary(model, at_home),
        simulated=_sglang_simulates(local),
        arguments={k: v for k, v in info.items() if k not in _DROPPED and v is not None},
        arguments_from="server_info",
        local=local,
        at_home=at_home,
    )


def _vllm(
    api: Api, version: str, models: dict[str, Any], local: LocalServer | None, at_home: bool
) -> Engine:
    first = _first(models.get("data"))
    told = api.json("/server_info?config_format=json")
    config = told.get("vllm_config") if isinstance(told, dict) else None
    if isinstance(config, dict):
        arguments, source = _of_config(config), "server_info"
    elif local is not None and any(VLLM in word for word in local.command):
        arguments, source = vllm_command.arguments(local.command), "command"
    else:
        arguments, source = {}, None
    known = source is not None
    spec = arguments.get("speculative_config")
    spec = spec if isinstance(spec, dict) else {}
    page = api.get("/metrics")
    positions = prometheus.by_label(
        page.text if page.ok else "", "vllm:spec_decode_num_accepted_tokens_per_pos", "position"
    )
    k = len(positions) or _count(spec.get("num_speculative_tokens"))
    # What a configuration file sets is not on the command line.
    default = 1 if known and "config" not in arguments else None
    tp, pp, dp = (
        _count(arguments.get(f"{kind}_parallel_size")) or default
        for kind in ("tensor", "pipeline", "data")
    )
    model = _text(first.get("root")) or _text(first.get("id"))
    return Engine(
        name=VLLM,
        version=version,
        model=model,
        served=_text(first.get("id")) or "",
        draft_model=_text(spec.get("model")),
        speculation=_text(spec.get("method")) or ("unknown" if k else None),
        k=k,
        tp=tp,
        pp=pp,
        dp=dp,
        ranks=_ranks(tp, pp, dp),
        most_tokens=_count(first.get("max_model_len")),
        most_requests=_count(arguments.get("max_num_seqs")),
        vocabulary=_vocabulary(model, at_home),
        simulated=_vllm_simulates(spec) if known else None,
        arguments=arguments,
        arguments_from=source,
        local=local,
        at_home=at_home,
    )


def _of_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of vLLM's own configuration that its command line also has, by those names."""
    parallel, scheduler = (
        part if isinstance(part, dict) else {}
        for part in (config.get("parallel_config"), config.get("scheduler_config"))
    )
    found = {
        name: parallel.get(name)
        for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    }
    found["max_num_seqs"] = scheduler.get("max_num_seqs")
    for name in ("speculative_config", "profiler_config", "compilation_config"):
        found[name] = config.get(name)
    return {name: value for name, value in found.items() if value is not None}


def _sglang_simulates(local: LocalServer | None) -> bool | None:
    if local is None:
        return None
    try:
        return float(local.environment.get(SGLANG_SIMULATES, "0")) > 0
    except ValueError:
        return None


def _vllm_simulates(spec: Mapping[str, Any]) -> bool:
    return spec.get("rejection_sample_method") == "synthetic" or any(
        str(name).startswith("synthetic_acceptance") and value is not None
        for name, value in spec.items()
    )


def _vocabulary(model: str | None, at_home: bool) -> int | None:
    """The size of the vocabulary by the model's config.json, where that lies on this disk."""
    if model is None or not at_home:
        return None
    try:
        config = json.loads((Path(model) / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(config, dict):
        return None
    inner = config.get("text_config")
    return _count(config.get("vocab_size")) or (
        _count(inner.get("vocab_size")) if isinstance(inner, dict) else None
    )


def _first(listed: Any) -> dict[str, Any]:
    """The first record of a list; empty when there is none, or something else stands there."""
    first = listed[0] if isinstance(listed, list) and listed else None
    return first if isinstance(first, dict) else {}


def _ranks(tp: int | None, pp: int | None, dp: int | None) -> int | None:
    """All workers; None when a size is not known, or cannot be meant."""
    ranks = tp * (pp or 1) * (dp or 1) if tp else None
    return ranks if ranks is not None and ranks <= _MOST_RANKS else None


def _count(value: Any) -> int | None:
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST_COUNT
    return value if usable else None


def _least(*values: Any) -> int | None:
    known = [count for value in values if (count := _count(value)) is not None]
    return min(known, default=None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
