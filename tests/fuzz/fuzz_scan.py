"""Mutated and truncated traces through the native and the pure reader, compared.

    python -m tests.fuzz.fuzz_scan --runs 100000 --seed 1 [--add FILE ...]

Each input is read by the native reader in one piece and, by turns, in segments of a few
hundred bytes in two threads or as a stream in blocks of a few bytes, and by the pure reader.
All must give equal documents whose bytes add up. Exit 1 with the input written to a file
otherwise. tests/fuzz/run_asan.sh runs this with the extension built under ASan and UBSan.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from specscope.traces import scan_native
from specscope.traces.errors import TraceFormatError
from specscope.traces.events import Document, ScanOptions
from specscope.traces.scan import scan_text
from specscope.traces.text import BytesText, StreamText
from tests.fuzz.compare import differences, unaccounted
from tests.fuzz.seeds import seed_texts

TOKENS = [
    *(bytes([c]) for c in b'"\\{}[],:\n \t\r0-.eE\x00\x01\xff\xe9'),
    b'"ph": "X"',
    b'{"ph":',
    b'\n  {\n    "ph": "X", "name": "',
    b'"args": {',
    b'"name": "',
    b'"traceEvents": [',
    b'{"traceEvents":[',
    b'{"schemaVersion": 1,',
    b"nan",
    b"-inf",
    b"Infinity",
    b"null",
    b"1e3",
    b"1.5",
    b"12.34567",
    b"99999999999999999999",
    b"\\u00e9",
    b"\\ud83d\\ude00",
    b"\\ud800",
    b"\\x",
    b'"correlation": 5,',
    b'"stream": "0x7",',
    b'"External id": 1, "external id": 2,',
    b"},\n  {",
    b"},{",
    b"],",
    b"]}",
    b"\n  ],\n",
    b'" ',
    b"[[[[[[[[",
    b"/*",
    b"#",
    b'"python_function"',
    b'"Collective name": "x",',
]
OPTIONS = [
    ScanOptions(threads=1),
    ScanOptions(threads=1, all_frames=True),
    ScanOptions(threads=1, frame_needles=(b"sglang", b"module.py")),
]
SLOW_SECONDS = 10.0  # of CPU; one small input that takes longer is a hang


def mutated(text: bytes, rng: random.Random) -> bytes:
    """A few random changes, or a cut."""
    out = bytearray(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        if not out:
            break
        at = rng.randrange(len(out))
        match rng.randrange(9):
            case 0:
                out[at] = rng.randrange(256)
            case 1:
                del out[at : at + rng.choice((1, 1, 2, 5, 40, 300))]
            case 2 | 3 | 4:
                out[at:at] = rng.choice(TOKENS)
            case 5:
                end = at + rng.randrange(16, 400)
                to = rng.randrange(len(out))
                out[to:to] = out[at:end]
            case 6:
                del out[at:]
            case 7:
                found = out.find(rng.choice(b'"{}[],:').to_bytes(1, "big"), at)
                if found >= 0:
                    del out[found]
            case _:
                found = out.find(rng.choice(b'"{}[],:').to_bytes(1, "big"), at)
                if found >= 0:
                    out[found:found] = rng.choice(TOKENS)
    return bytes(out)


def _pieces(text: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


def read(text: bytes, reader: str, options: ScanOptions, block: int = 0) -> list[Document] | str:
    """The documents, or the message of the refusal. `block`: as a stream of such blocks."""
    source = StreamText(_pieces(text, block), 1 << 40) if block else BytesText(text, 1 << 40)
    try:
        return scan_text(source, options, reader)
    except TraceFormatError as error:
        return str(error)


def faults(text: bytes, options: ScanOptions, rng: random.Random) -> list[str]:
    """What is wrong with the reading of one text, in words."""
    started = time.process_time()
    pure = read(text, "pure", options)
    ways = {"native": read(text, "native", options)}
    turn = rng.randrange(8)
    if turn == 0:
        ways["native blocks"] = read(text, "native", options, rng.randrange(16, 400))
    elif turn == 1:
        ways["pure blocks"] = read(text, "pure", options, rng.randrange(16, 400))
    elif turn == 2:
        ahead = ScanOptions(options.all_frames, options.frame_needles, threads=2)
        scan_native.SEGMENT, kept = rng.randrange(50, 900), scan_native.SEGMENT
        try:
            ways["native ahead"] = read(text, "native", ahead)
        finally:
            scan_native.SEGMENT = kept
    out = []
    for way, found in ways.items():
        if isinstance(found, str) or isinstance(pure, str):
            if found != pure:
                out.append(f"{way}: {found!r} and pure: {pure!r}")
            continue
        out += [f"{way} and pure: {word}" for word in differences(found, pure)]
    if not isinstance(pure, str):
        out += unaccounted(pure, len(text))
    if time.process_time() - started > SLOW_SECONDS:
        out.append("took too long")
    return out


def fuzz(runs: int, seed: int, texts: Sequence[bytes], seconds: float = 1e9) -> tuple[int, bytes]:
    """Inputs read, and the first one with a fault (b"" when there was none)."""
    rng = random.Random(seed)
    until = time.monotonic() + seconds
    for done in range(runs):
        if time.monotonic() > until:
            return done, b""
        text = mutated(rng.choice(texts), rng)
        found = faults(text, rng.choice(OPTIONS), rng)
        if found:
            sys.stderr.write("\n".join(word[:2000] for word in found) + "\n")
            return done, text
    return runs, b""


def main() -> int:
    """The command of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--add", nargs="*", type=Path, default=[], help="further seed files")
    parser.add_argument("--out", type=Path, default=Path("fuzz-fault.bin"))
    options = parser.parse_args()
    texts = seed_texts(options.seed) + [path.read_bytes() for path in options.add]
    started = time.monotonic()
    done, bad = fuzz(options.runs, options.seed, texts, options.seconds)
    if bad:
        options.out.write_bytes(bad)
        sys.stderr.write(f"fault after {done} inputs; input written to {options.out}\n")
        return 1
    took = time.monotonic() - started
    sys.stdout.write(f"{done} inputs, no fault, {took:.0f} s, {scan_native._scan.__file__}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
