"""A Dash application behind the guard: local files only, one look in light and dark.

Dash is in the extra `dashboard` and imported here, not before. What `Access` does not open is
not there; nothing of it is loaded from the network.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from specscope.dashboards.app_guard import Access, Guard, policy
from specscope.dashboards.app_server import Application
from specscope.traces.errors import UsageError

MISSING: Final = "the page needs Dash, which is not installed: pip install 'specscope[dashboard]'"

_STYLE: Final = """
:root { color-scheme: light dark; --text: #1c1c1c; --soft: #5f5f5f; --line: #dddddd;
  --page: #ffffff; --card: #f6f6f4; --focus: #1859F8; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --soft: #a6a6a6;
  --line: #3a3a3a; --page: #161616; --card: #202020; --focus: #7aa2ff; } }
:root:root { --Dash-Text-Strong: var(--text); --Dash-Text-Primary: var(--text);
  --Dash-Text-Weak: var(--soft); --Dash-Text-Disabled: var(--soft);
  --Dash-Stroke-Strong: var(--line); --Dash-Stroke-Weak: var(--line);
  --Dash-Fill-Inverse-Strong: var(--card); --Dash-Fill-Interactive-Strong: var(--focus);
  --Dash-Fill-Interactive-Weak: var(--line); --Dash-Fill-Primary-Hover: var(--line);
  --Dash-Fill-Primary-Active: var(--line); }
body { margin: 0 auto; padding: 1.5rem 1.5rem 4rem; max-width: 100rem; background: var(--page);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
p, ul { margin: .3rem 0; } ul { padding-left: 1.2rem; }
[hidden] { display: none !important; }
.side > * { min-width: 0; }
.soft { color: var(--soft); }
.verdict { border-left: 4px solid var(--line); padding: .2rem 0 .2rem 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { font-weight: normal; color: var(--soft); text-align: right; }
td, th { padding: .15rem 1.2rem .15rem 0; border-bottom: 1px solid var(--line);
  text-align: right; white-space: nowrap; }
td.words, th.words { text-align: left; }
tr.part td { color: var(--soft); border-bottom-style: dotted; }
.swatch { display: inline-block; width: .7em; height: .7em; margin-right: .5em;
  border-radius: 2px; }
.inset { padding-left: 1.2em; }
.scroll { overflow-x: auto; } figure { margin: 0; }
.warning { background: var(--card); padding: .4rem 1rem; margin: .4rem 0; }
.side { display: grid; grid-template-columns: repeat(auto-fit, minmax(30rem, 1fr)); gap: 0 2.5rem; }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }
.controls { display: flex; flex-wrap: wrap; gap: .8rem 1.5rem; align-items: end;
  margin: 1rem 0; }
.control { min-width: 9rem; }
.verdict h2 { margin-top: .2rem; }
.control > label { display: block; color: var(--soft); font-size: .9rem; }
select, input, textarea, button { font: inherit; color: var(--text); background: var(--card);
  border: 1px solid var(--line); border-radius: 4px; padding: .25rem .5rem; }
textarea { width: 100%; box-sizing: border-box; font-family: ui-monospace, monospace; }
pre { background: var(--card); padding: .7rem 1rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
._dash-loading { color: var(--soft); }
"""

_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<title>{%title%}</title>
<link rel="icon" href="data:,">
{%css%}
<style>STYLE</style>
</head>
<body>
<noscript>This page needs JavaScript; <code>--tui</code> shows the same in a terminal.</noscript>
{%app_entry%}
<footer>
{%config%}
{%scripts%}
{%renderer%}
</footer>
</body>
</html>"""

# What the page asks for by itself, under its base.
_READS: Final = ("", "_dash-layout", "_dash-dependencies")
_POSTS: Final = ("_dash-update-component",)
_SUITES: Final = "_dash-component-suites/"


def require_dash() -> None:
    """Raise UsageError, in one line, where Dash is not installed."""
    try:
        import dash  # noqa: F401
    except ImportError as error:
        raise UsageError(MISSING) from error


def new_page(title: str, access: Access) -> Any:
    """A Dash application that lies under the base of `access`. Raises UsageError without Dash."""
    require_dash()
    import dash

    # The name is also that of Flask's logger, which is silenced below: never the package's own.
    page = dash.Dash(
        __name__,
        server=True,
        requests_pathname_prefix=access.base,
        routes_pathname_prefix=access.base,
        serve_locally=True,
        assets_folder="",
        include_assets_files=False,
        use_pages=False,
        compress=False,
        add_log_handler=False,
        index_string=_PAGE.replace("STYLE", _STYLE),
        title=title,
        update_title="",
        suppress_callback_exceptions=False,
    )
    page.server.logger.disabled = True
    return page


def guarded(
    page: Any, access: Access, work: Callable[[threading.Event], None] | None = None
) -> Application:
    """The finished application: what exists is known once its index was made."""
    page.server.config["MAX_CONTENT_LENGTH"] = 1 << 20
    page.server.test_client().get(access.base)
    suites = _suite_paths(page, access.base)
    inner = Guard(
        page.server.wsgi_app,
        access,
        reads=[*(access.base + name for name in _READS), *suites],
        posts=[access.base + name for name in _POSTS],
        policy=policy(page.csp_hashes()),
    )
    return Application(inner, access, work)


def _suite_paths(page: Any, base: str) -> list[str]:
    """Every file of Dash's own components."""
    return [
        f"{base}{_SUITES}{package}/{name}"
        for package, names in page.registered_paths.items()
        for name in names
        if name.endswith(".js")
    ]
