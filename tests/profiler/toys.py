"""Toy packages in the shape of the engines: same modules, classes and calls, no work."""

from __future__ import annotations

from pathlib import Path

SGLANG = {
    "sglang/__init__.py": '__version__ = "0.5.23"',
    "sglang/srt/__init__.py": "",
    "sglang/srt/managers/__init__.py": "",
    "sglang/srt/speculative/__init__.py": "",
    "sglang/srt/server_args.py": """
import dataclasses, enum, pathlib

class Method(enum.Enum):
    EAGLE3 = "eagle3"

class Tokenizer:
    def __repr__(self):
        return "Tokenizer(vocab=3, token='hf_plantedTokenInsideARepr', " + "x" * 500 + ")"

@dataclasses.dataclass
class ServerArgs:
    model_path: str = "toy/target"
    speculative_draft_model_path: str = "toy/draft"
    speculative_algorithm: Method = Method.EAGLE3
    speculative_num_steps: int = 3
    tp_size: int = 2
    api_key: str = ""
    ssl_keyfile_password: str = ""
    storage: dict = dataclasses.field(default_factory=dict)
    cache_dir: pathlib.Path = pathlib.Path("/cache")
    arguments: list = dataclasses.field(default_factory=list)
    tokenizer: Tokenizer = dataclasses.field(default_factory=Tokenizer)
""",
    "sglang/srt/managers/scheduler.py": """
class Scheduler:
    def __init__(self, server_args, port_args=None, *, gpu_id=0):
        self.server_args = server_args
""",
    "sglang/srt/managers/tp_worker.py": """
class TpModelWorker:
    def forward_batch_generation(self, batch, forward_batch=None, is_verify=False):
        return ("target", batch, is_verify)
""",
    "sglang/srt/speculative/eagle_utils.py": """
def eagle_sample(verify_input, batch, logits_output, grammar_mask=None):
    return ("sample", verify_input)

class EagleVerifyInput:
    @property
    def verify(self):
        return "a property now"
""",
    "sglang/srt/speculative/eagle_worker_v2.py": """
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.speculative.eagle_utils import eagle_sample

class Mode:
    def __init__(self, name):
        self.name = name

class Batch:
    def __init__(self, mode="DECODE", size=2):
        self.forward_mode = Mode(mode)
        self.reqs = list(range(size))
        self.is_extend_in_batch = False

class Result:
    num_correct_drafts_per_req_cpu = None
    num_non_draft_tokens_per_req = 1

class EagleDraftWorker:
    speculative_num_steps = 3

    def draft(self, batch, *, with_topology=False):
        return ("drafted", batch, with_topology)

    def _draft_extend_for_decode(self, batch, batch_result, *, kv_loc_plan=None):
        return None

class EAGLEWorkerV2:
    speculative_num_steps = 3

    def __init__(self):
        self.draft_worker = EagleDraftWorker()
        self.target_worker = TpModelWorker()

    def forward_batch_generation(self, batch, on_publish=None, **more):
        if batch.forward_mode.name == "EXTEND":
            self.target_worker.forward_batch_generation(batch)
            return Result()
        self.draft_worker.draft(batch, with_topology=True)
        result = self.verify(batch, grammar_barrier=None)
        self.draft_worker._draft_extend_for_decode(batch, result)
        return result

    def verify(self, batch, pp_proxy_tensors=None, grammar_barrier=None):
        if batch.forward_mode.name == "BROKEN":
            raise RuntimeError("the engine's own error")
        self.target_worker.forward_batch_generation(None, is_verify=True)
        eagle_sample(self, batch, None)
        return Result()
""",
    "sglang/srt/speculative/ngram_worker.py": """
from sglang.srt.managers.tp_worker import TpModelWorker

class NGRAMWorker:
    draft_token_num = 5

    def _prepare_for_speculative_decoding(self, batch):
        return None

    def forward_batch_generation(self, model_worker_batch):
        self._prepare_for_speculative_decoding(model_worker_batch)
        return TpModelWorker().forward_batch_generation(model_worker_batch, is_verify=True)
""",
    "sglang/srt/speculative/dflash_worker_v2.py": """
class DFlashWorkerV2:
    def forward_batch_generation(self, requests, on_publish=None):
        return "another signature"

    async def _accept_block(self, candidates):
        return "a coroutine now"
""",
    "sglang/srt/managers/scheduler_components/__init__.py": "",
    "sglang/srt/managers/scheduler_components/batch_result_processor.py": """
class SchedulerBatchResultProcessor:
    def _resolve_spec_v2_tokens(self, result, batch):
        result.num_correct_drafts_per_req_cpu = [2 for _ in batch.reqs]
        return []
""",
}

VLLM = {
    "vllm/__init__.py": '__version__ = "0.32.0"',
    "vllm/v1/__init__.py": "",
    "vllm/v1/worker/__init__.py": "",
    "vllm/v1/core/__init__.py": "",
    "vllm/v1/core/sched/__init__.py": "",
    "vllm/v1/worker/gpu_model_runner.py": """
class Scheduled:
    def __init__(self, tokens, drafts):
        self.num_scheduled_tokens = tokens
        self.total_num_scheduled_tokens = sum(tokens.values())
        self.scheduled_spec_decode_tokens = drafts

class GPUModelRunner:
    speculative_config = object()
    num_spec_tokens = 3

    def execute_model(self, scheduler_output, intermediate_tensors=None):
        self._prepare_inputs(scheduler_output, None)

    def _prepare_inputs(self, scheduler_output, num_scheduled_tokens):
        return None

    def sample_tokens(self, grammar_output):
        self._sample(None, None)
        self.propose_draft_token_ids(None)

    def _sample(self, logits, spec_decode_metadata):
        return None

    def propose_draft_token_ids(self, scheduler_output, *rest):
        return None

    def _dummy_run(self, num_tokens):
        self._sample(None, None)
""",
    "vllm/v1/core/sched/scheduler.py": """
class Output:
    def __init__(self, tokens):
        self.sampled_token_ids = tokens
        self.req_id_to_index = {f"r{i}": i for i in range(len(tokens))}

class Scheduler:
    def update_from_output(self, scheduler_output, model_runner_output):
        for tokens in model_runner_output.sampled_token_ids:
            del tokens[1:]  # what follows a stop token is cut off
        return {}
""",
}


def write(folder: Path, *packages: dict[str, str]) -> Path:
    """The toy packages as files in `folder`."""
    for package in packages:
        for name, text in package.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return folder
