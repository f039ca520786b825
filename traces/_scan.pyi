from typing import Any, final

from typing_extensions import Buffer

@final
class Block:
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Scanner:
    def __new__(cls, all_frames: bool, needles: tuple[bytes, ...], seed: int) -> Scanner: ...
    def scan(
        self,
        buffer: Buffer,
        base: int,
        start: int,
        stop: int,
        final: bool,
        fresh: bool,
        force: bool,
        /,
    ) -> tuple[int, int, int]: ...

@final
class Columns:
    def __new__(cls, seed: int) -> Columns: ...
    def append(self, scanner: Scanner, extra_flags: int = 0, shift: int = 0, /) -> None: ...
    def reserve(self, rows: int, /) -> None: ...
    @property
    def rows(self) -> int: ...
    def forget(self, scanner: Scanner, /) -> None: ...
    def finish(self) -> dict[str, Any]: ...
