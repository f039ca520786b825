"""Stage ranges: what they emit, what they cost when off, and that they never hurt."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from specscope.profiler import emit_torch, grammar, ranges
from tests.profiler.listening import Heard
from tests.slowness import slowness


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    """Ranges on, with an emitter that notes them."""
    listener = Heard()
    monkeypatch.setattr(ranges.emit_nvtx, "find", lambda wish: (listener, "a test listens"))
    ranges.configure(ranges.Config(torch=False))
    ranges.enable()
    yield listener
    ranges.shutdown()


def listen(monkeypatch: pytest.MonkeyPatch, listener: Any) -> None:
    monkeypatch.setattr(ranges.emit_nvtx, "find", lambda wish: (listener, "a test listens"))
    ranges.configure(ranges.Config(torch=False))
    ranges.enable()


def test_a_range_carries_its_fields_and_closes(heard: Heard) -> None:
    with ranges.stage("verify", cycle=4, step=1, batch=8, tokens=32, k=3, rank=1, size=2):
        assert heard.calls == [("verify", (4, 1, 8, 32, 3, 1, 2))]
    assert heard.calls[1:] == ["pop"]


def test_what_is_heard_is_text_of_the_grammar(heard: Heard) -> None:
    with ranges.cycle_range(cycle=7, batch=8), ranges.stage("draft", step=2):
        pass
    texts = [grammar.PREFIX + grammar.bare(*call) for call in heard.calls if call != "pop"]
    assert [grammar.read(text) for text in texts] == [
        grammar.RangeName("cycle", cycle=7, batch=8),
        grammar.RangeName("draft", cycle=7, step=2),
    ]


def test_stages_belong_to_the_cycle_around_them(heard: Heard) -> None:
    for _ in range(2):
        with ranges.cycle_range():
            number = ranges.current_cycle()
            with ranges.stage("draft"):
                pass
            assert heard.calls[-2][1][0] == number
    assert ranges.current_cycle() is None
    assert [call[1][0] for call in heard.calls if call != "pop"] == [0, 0, 1, 1]


def test_an_exception_passes_untouched_and_the_range_is_closed(heard: Heard) -> None:
    error = KeyError("of the server")
    with pytest.raises(KeyError) as raised, ranges.cycle_range(), ranges.stage("verify"):
        raise error
    assert raised.value is error
    assert heard.is_balanced
    assert ranges.current_cycle() is None


def test_a_decorated_function_has_a_range_around_each_call(heard: Heard) -> None:
    @ranges.stage("draft")
    def draft(a: int, *, b: int = 2) -> int:
        """Draft."""
        assert heard.stages[-1:] == ["draft"]
        return a + b

    assert (draft(1), draft(1, b=5)) == (3, 6)
    assert (draft.__name__, draft.__doc__) == ("draft", "Draft.")
    assert heard.calls == [("draft", (None,) * 7), "pop"] * 2


def test_a_method_decorated_while_off_is_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges.shutdown()

    class Worker:
        @ranges.stage("verify")
        def verify(self, batch: int) -> int:
            return batch

    assert Worker().verify(3) == 3
    listener = Heard()
    listen(monkeypatch, listener)
    assert Worker().verify(4) == 4
    ranges.shutdown()
    assert Worker().verify(5) == 5
    assert listener.stages == ["verify"]


def test_a_generator_has_a_range_around_each_stretch_it_runs(heard: Heard) -> None:
    closed = []

    @ranges.stage("draft")
    def steps() -> Iterator[Any]:
        try:
            got = yield 1
            try:
                yield got
            except ValueError:
                yield "thrown"
            return
        finally:
            closed.append(True)

    run: Any = steps()
    assert heard.calls == []
    assert next(run) == 1
    assert heard.is_balanced
    assert run.send(5) == 5
    assert run.throw(ValueError()) == "thrown"
    assert list(run) == []
    assert len(heard.stages) == 4
    run = steps()
    next(run)
    run.close()
    assert closed == [True, True]
    assert heard.is_balanced


def test_coroutines_that_take_turns_never_leave_ranges_crossed(heard: Heard) -> None:
    @ranges.stage("draft")
    async def draft() -> str:
        assert heard.calls[-1][0] == "draft"
        await asyncio.sleep(0)
        assert heard.calls[-1][0] == "draft"
        await asyncio.sleep(0.001)
        return "drafted"

    @ranges.stage("verify")
    async def verify() -> None:
        await asyncio.sleep(0)
        raise LookupError

    async def both() -> list[Any]:
        return await asyncio.gather(draft(), verify(), return_exceptions=True)

    drafted, raised = asyncio.run(both())
    assert drafted == "drafted"
    assert isinstance(raised, LookupError)
    assert heard.calls[1::2] == ["pop"] * (len(heard.calls) // 2)
    assert heard.stages.count("draft") >= 3


def test_an_async_generator_works_as_before_with_ranges(heard: Heard) -> None:
    @ranges.stage("schedule")
    async def batches() -> AsyncIterator[int]:
        for number in range(3):
            await asyncio.sleep(0)
            yield number

    async def collect() -> list[int]:
        return [number async for number in batches()]

    assert asyncio.run(collect()) == [0, 1, 2]
    assert set(heard.stages) == {"schedule"}
    assert heard.calls[1::2] == ["pop"] * (len(heard.calls) // 2)


def test_threads_have_cycles_of_their_own(heard: Heard) -> None:
    inside = threading.Barrier(2)
    seen: dict[int, int | None] = {}

    def work(number: int) -> None:
        with ranges.cycle_range(cycle=number):
            inside.wait(5)
            with ranges.stage("verify"):
                seen[number] = ranges.current_cycle()
            inside.wait(5)

    threads = [threading.Thread(target=work, args=(number,)) for number in (10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {10: 10, 20: 20}
    assert heard.is_balanced


class Tensor:
    """Reading a number from it would wait for the GPU."""

    def __index__(self) -> int:
        raise AssertionError("the tensor was read")

    __int__ = __bool__ = __str__ = __repr__ = __index__  # type: ignore[assignment]

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("the tensor was read")


def test_a_tensor_given_as_a_field_is_never_read(heard: Heard) -> None:
    tensor: Any = Tensor()
    with ranges.stage("verify", cycle=3, batch=tensor, tokens=8):
        pass
    assert heard.calls[0] == ("verify", (3, None, None, 8, None, None, None))
    ranges.record_accept(3, tensor)


def test_integers_of_numpy_count_as_integers(heard: Heard) -> None:
    numpy = pytest.importorskip("numpy")
    with ranges.stage("verify", batch=numpy.int32(8), k=True, tokens=numpy.float32(2)):
        pass
    assert heard.calls[0][1] == (None, None, 8, None, 1, None, None)


@pytest.mark.parametrize("call", ["push", "pop"])
def test_an_emitter_that_raises_is_switched_off_with_one_warning(
    call: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Heard(lambda now: now == call)
    listen(monkeypatch, listener)
    with caplog.at_level(logging.WARNING, "specscope"):
        for _ in range(3):
            with ranges.cycle_range(), ranges.stage("draft"):
                pass
    assert len(caplog.records) == 1
    assert "on purpose" in caplog.text
    report = ranges.emitters_report()
    assert report["errors"]["nvtx"] >= 1
    assert not report["nvtx"]["active"]
    assert "on purpose" in report["nvtx"]["reason"]
    ranges.shutdown()


def test_a_range_open_while_ranges_go_off_still_closes(heard: Heard) -> None:
    with ranges.stage("verify"):
        ranges.disable()
    assert heard.is_balanced
    with ranges.stage("verify"):
        pass
    assert heard.stages == ["verify"]


def test_a_word_that_is_no_stage_does_nothing_and_says_so_once(
    heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    nothing: Any = ["draft"]
    with ranges.stage("drafting"), ranges.stage("drafting"), ranges.stage(nothing):
        pass
    assert heard.calls == []
    assert caplog.text.count("drafting") == 1
    assert ranges.emitters_report()["errors"] == {"unknown_stage": 3}


class Cuda:
    """Stands for torch.cuda in the middle of a graph capture."""

    def __init__(self, answer: bool | Exception) -> None:
        self._answer = answer

    def is_current_stream_capturing(self) -> bool:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize("answer", [True, RuntimeError("of CUDA")])
def test_nothing_is_emitted_while_the_stream_captures(
    answer: bool | Exception, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys.modules.get("torch", object()))  # type: ignore[arg-type]
    monkeypatch.setattr(emit_torch.CUDA, "module", Cuda(answer))
    with ranges.cycle_range(), ranges.stage("verify"):
        pass
    assert heard.calls == []
    monkeypatch.setattr(emit_torch.CUDA, "module", Cuda(False))
    with ranges.stage("verify"):
        pass
    assert heard.stages == ["verify"]


def test_whoever_listens_to_nothing_pays_next_to_nothing() -> None:
    """The limit is 350 ns; any machine gets twice that here, benchmarks/ranges.py measures."""
    ranges.shutdown()
    assert ranges.stage("verify") is ranges.stage("verify", batch=8, cycle=2)

    def cost() -> float:
        start = time.thread_time_ns()
        for _ in range(20_000):
            with ranges.stage("verify", batch=8):
                pass
        return (time.thread_time_ns() - start) / 20_000

    assert min(cost() for _ in range(7)) < 700 * slowness()
    ranges.configure(ranges.Config(nvtx="off"))
    ranges.enable()
    assert ranges.stage("verify") is ranges.stage("verify", batch=8)
    assert min(cost() for _ in range(7)) < 900 * slowness()
    ranges.shutdown()


def test_importing_the_hooks_is_light() -> None:
    code = (
        "import sys, specscope.profiler.ranges; "
        "heavy = {'torch', 'pandas', 'pyarrow', 'plotly', 'numpy', 'nvtx', 'wrapt'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_gives_the_calls_of_ranges() -> None:
    from specscope import profiler

    for name in profiler.__all__:
        assert getattr(profiler, name) is getattr(ranges, name)
    with pytest.raises(AttributeError):
        _ = profiler.no_such_name


def test_ranges_work_before_they_are_configured() -> None:
    code = (
        "from specscope import profiler\n"
        "with profiler.cycle_range(), profiler.stage('draft'): pass\n"
        "profiler.record_accept(1, [2]); profiler.set_rank(1); profiler.disable()\n"
        "profiler.enable()\n"
        "with profiler.stage('draft'): pass\n"
        "print(profiler.emitters_report()['enabled'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_a_range_is_safe_to_leave_that_was_never_entered(heard: Heard) -> None:
    one = ranges.stage("draft")
    one.__exit__(None, None, None)
    with contextlib.suppress(ZeroDivisionError), one:
        raise ZeroDivisionError
    assert heard.is_balanced
