"""Toy packages in the shape of the engines that no test can run: lmdeploy, TensorRT-LLM."""

from __future__ import annotations

LMDEPLOY = {
    "lmdeploy/__init__.py": '__version__ = "0.18.0"',
    "lmdeploy/pytorch/__init__.py": "",
    "lmdeploy/pytorch/engine/__init__.py": "",
    "lmdeploy/pytorch/engine/model_agent/__init__.py": "",
    "lmdeploy/pytorch/spec_decode/__init__.py": "",
    "lmdeploy/pytorch/spec_decode/proposers/__init__.py": "",
    "lmdeploy/pytorch/spec_decode/reject_sampler.py": """
class RejectionSampler:
    def forward(self, target_logits, draft_token_ids, expanded_sampling_inputs, draft_probs=None):
        return None
""",
    "lmdeploy/pytorch/spec_decode/proposers/base.py": """
class BaseSpecProposer:
    def _forward(self, model_inputs, cache_engine):
        return {}

    def get_logits(self, hidden_states):
        return None
""",
    "lmdeploy/pytorch/engine/model_agent/agent.py": """
import asyncio

from lmdeploy.pytorch.spec_decode.proposers.base import BaseSpecProposer
from lmdeploy.pytorch.spec_decode.reject_sampler import RejectionSampler

class Inputs:
    def __init__(self, is_decoding=True, is_dummy=False):
        self.is_decoding, self.is_dummy = is_decoding, is_dummy
        self.seq_length = [4, 4]

class SpecAgent:
    def __init__(self, enabled):
        self._enabled = enabled
        self.num_spec_tokens = 2 if enabled else 0

class BaseModelAgent:
    def __init__(self, speculates=True):
        self.spec_agent = SpecAgent(speculates)

    def _forward_impl(self, inputs, cache_inputs=None):
        return {}

    def get_logits(self, hidden_states):
        return None

    def warmup(self):
        self._forward_impl(Inputs())

    async def _async_step(self, inputs):
        self._forward_impl(inputs)
        await asyncio.sleep(0)
        self.get_logits(None)
        if self.spec_agent._enabled:
            await self._async_draft()

    async def _async_draft(self):
        RejectionSampler().forward(None, None, None)
        for _ in range(self.spec_agent.num_spec_tokens):
            BaseSpecProposer()._forward(None, None)
            await asyncio.sleep(0)
            BaseSpecProposer().get_logits(None)
""",
    "lmdeploy/pytorch/engine/engine_loop.py": """
class EngineLoop:
    def _make_infer_outputs(self, batched_outputs, running, model_inputs, delta):
        for sequence in running:
            sequence.status = None
        return {}
""",
}

TENSORRT_LLM = {
    "tensorrt_llm/__init__.py": '__version__ = "1.2.1"',
    "tensorrt_llm/_torch/__init__.py": "",
    "tensorrt_llm/_torch/pyexecutor/__init__.py": "",
    "tensorrt_llm/_torch/speculative/__init__.py": "",
    "tensorrt_llm/_torch/speculative/drafter.py": """
class Drafter:
    def prepare_draft_tokens(self, scheduled_requests, resource_manager=None):
        raise NotImplementedError

class OneModelDrafter(Drafter):
    pass
""",
    "tensorrt_llm/_torch/speculative/model_drafter.py": """
from tensorrt_llm._torch.speculative.drafter import Drafter

class ModelDrafter(Drafter):
    max_draft_len = 3

    def prepare_draft_tokens(self, scheduled_requests, resource_manager=None):
        return None

    def generate_draft_tokens_with_overlap(self, scheduled_batch, resource_manager, *rest):
        return None
""",
    "tensorrt_llm/_torch/pyexecutor/py_executor.py": """
class Requests:
    def __init__(self, contexts=0, generations=2):
        self.context_requests = list(range(contexts))
        self.generation_requests = list(range(generations))

class Engine:
    def __init__(self, spec_config):
        self.spec_config = spec_config

class PyExecutor:
    is_warmup = False

    def __init__(self, drafter=None, spec_config=None):
        self.drafter, self.model_engine = drafter, Engine(spec_config)

    def loop_once(self, scheduled):
        if self.drafter is not None:
            self.drafter.prepare_draft_tokens(scheduled, None)
        outputs = self._forward_step(scheduled)
        return self._sample_async(scheduled, outputs)

    def _forward_step(self, scheduled_requests, new_tensors_device=None):
        return {}

    def _sample_async(self, scheduled_batch, batch_outputs):
        return None
""",
}
