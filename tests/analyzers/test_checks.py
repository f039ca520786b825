"""The grammar of --check."""

from __future__ import annotations

import pytest

from specscope.analyzers import checks
from specscope.traces.errors import UsageError


@pytest.mark.parametrize(
    ("text", "name", "op", "number"),
    [
        ("verify.share>=0.95", "verify.share", ">=", 0.95),
        (" verify.share >= 95% ", "verify.share", ">=", 0.95),
        ("idle.host.share<20%", "idle.host.share", "<", 0.2),
        ("cycle.ms<=30", "cycle.ms", "<=", 30.0),
        ("draft.work_ms!=1.5", "draft.work_ms", "!=", 1.5),
    ],
)
def test_a_check_is_read(text: str, name: str, op: str, number: float) -> None:
    check = checks.parse(text)
    assert (check.name, check.op, check.number) == (name, op, number)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("verify.share", "NAME OP NUMBER"),
        ("verify.share=>0.9", "NAME OP NUMBER"),
        ("verifi.share>0.9", "unknown name"),
        ("verify.speed>0.9", "unknown name"),
        ("verify.share>=90", "write 90%"),
        ("__import__('os')>1", "NAME OP NUMBER"),
    ],
)
def test_what_is_no_check_is_refused_with_its_mend(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        checks.parse(text)
