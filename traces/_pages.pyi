from typing import Any

class OddError(Exception): ...

def read(
    file: int, root: int, kinds: bytes, marks: tuple[bytes, ...], suffix: bytes, /
) -> tuple[int, list[Any]]: ...
