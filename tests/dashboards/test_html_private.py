"""What a mailed page does not hold: paths, hosts, users, arguments of the server."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import specscope
from specscope.dashboards import html
from specscope.dashboards.html import html_page
from specscope.dashboards.html_private import Mask
from specscope.traces.load import load
from tests.build import Timeline
from tests.dashboards import reports

HOST = "gpu-box-17"
USER = "mallory"
FILE = f"{HOST}_4242.1712345678901234567.pt.trace.json"
KERNEL = f"void gemm_of_/home/{USER}/code/my-very-long-folder/kernels/fused_attention_of_mine.cu"
MODEL = f"/home/{USER}/models/Llama-3-70B"
ARGUMENTS = {
    "model_path": MODEL,
    "host": HOST,
    "dist_init_addr": "10.20.30.40:5000",
    "api_key": "sk-planted-0123456789",
    "served_model_name": "our-secret-product",
    "speculative_algorithm": "EAGLE3",
    "log_dir": f"/var/log/{USER}/serve",
}
PLANTED = (HOST, USER, "10.20.30.40", "sk-planted", "our-secret-product", "/home", "/var/log", FILE)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run whose folder, file name, server arguments and kernel tell of somebody."""
    folder = tmp_path_factory.mktemp("home") / USER / "runs-of-mine"
    folder.mkdir(parents=True)
    t = Timeline()
    for c in t.cycles(6, every=200):
        c.mark(f"specscope:draft|c={c.i}|b=1", 1, 100)
        c.launch(2, 4, KERNEL, 6, 90)
        c.mark(f"specscope:verify|c={c.i}|b=1", 101, 190)
        c.launch(110, 112, "gemm_kernel", 120, 180)
    (folder / FILE).write_bytes(t.to_json())
    context = {"engine": "sglang", "batch": 1, "k": 3, "server_args": ARGUMENTS}
    (folder / "run.json").write_text(json.dumps(context))
    (folder / "broken.trace.json").write_bytes(b'{"traceEvents": [')
    return specscope.analyze(load([str(folder / FILE)], cache=False))


@pytest.fixture(scope="module", autouse=True)
def library() -> Any:
    """Plotly's own text is not looked through."""
    patch = pytest.MonkeyPatch()
    patch.setattr(html, "get_plotlyjs", lambda: "library")
    yield
    patch.undo()


def words(page: str) -> str:
    """The page without the breaks that figures put into long names."""
    return page.replace("\\u003cbr\\u003e", "")


def test_planted_values_are_on_the_page_only_when_asked_for(planted: Any) -> None:
    whole = words(html_page(planted, environment=True))
    assert f"/home/{USER}/code" in whole
    assert FILE in whole
    assert MODEL in whole
    page = words(html_page(planted))
    assert [text for text in PLANTED if text.lower() in page.lower()] == []
    assert str(Path.home()) not in page or str(Path.home()) == "/"
    assert "Llama-3-70B" in page
    assert "fused_attention_of_mine.cu" in page
    assert ">file 1<" in page


def test_nothing_else_of_the_page_changes() -> None:
    def split(text: str) -> list[str]:
        return re.split(r"(?<=>)", text)

    report = reports.bundled()
    shown, masked = split(html_page(report, environment=True)), split(html_page(report))
    changed = [(a, b) for a, b in zip(shown, masked, strict=True) if a != b]
    assert changed == [
        ("Files read from examples/tp2-70b-eagle3</h2>", "Files read from one folder</h2>"),
        ("rank0.trace.json.gz</td>", "file 1</td>"),
        ("rank1.trace.json.gz</td>", "file 2</td>"),
    ]


def test_texts_of_every_kind_are_masked_and_markup_is_not(planted: Any) -> None:
    mask = Mask(planted)
    assert mask.text(f"cannot read /data/{USER}/x.json on {HOST}") == (
        "cannot read /p/x.json on ***"
    )
    assert mask.text("--served-model-name our-secret-product, EAGLE3") == (
        "--served-model-name ***, EAGLE3"
    )
    page = f'<p class="{USER}">of {USER}</p><script type="application/json" data-a="{USER}">'
    assert mask.page(page + f'{{"{USER}": ["{USER}<br>4.0 us", 1.25e-7]}}</script>') == (
        f'<p class="{USER}">of user1</p><script type="application/json" data-a="{USER}">'
        f'{{"{USER}":["user1\\u003cbr\\u003e4.0 us",1.25e-07]}}</script>'
    )


def test_the_command_masks_unless_told_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from specscope import exits
    from specscope.cli import analyze_command

    folder = tmp_path / f"runs-of-{USER}"
    folder.mkdir()
    trace = folder / FILE
    trace.write_bytes(reports.hostile_trace().to_json())
    for more, there in (([], False), (["--with-environment"], True)):
        args = [str(trace), "--no-cache", "-q", "--html", str(tmp_path / "p.html"), *more]
        assert exits.call(analyze_command, args) == 0
        assert (FILE in (tmp_path / "p.html").read_text()) is there
        assert (os.fspath(folder) in (tmp_path / "p.html").read_text()) is there
    capsys.readouterr()
