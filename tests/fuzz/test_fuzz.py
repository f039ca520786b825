"""A short run of the fuzzer; the long one is run_asan.sh."""

from __future__ import annotations

import pytest

from tests.fuzz.seeds import seed_texts
from tests.traces.scan_readers import HAS_NATIVE


@pytest.mark.skipif(not HAS_NATIVE, reason="the extension is not built")
def test_mutated_traces_read_alike_on_both_paths() -> None:
    from tests.fuzz.fuzz_scan import fuzz

    _, bad = fuzz(6000, seed=1, texts=seed_texts(1), seconds=25)
    assert bad == b""
