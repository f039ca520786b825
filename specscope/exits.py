"""The edge of every command: errors become one line on stderr and an exit code.

0 done, 1 a check failed, 2 wrong usage, 3 the input cannot be read, 4 the evidence does not
support what was demanded (docs/commands.md); 70 a fault of specscope itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable

import click

from specscope.dashboards.safe_text import clean
from specscope.traces.errors import SpecscopeError

DONE, CHECK_FAILED, WRONG_USAGE, UNREADABLE, UNSUPPORTED = range(5)
INTERNAL_ERROR = 70
INTERRUPTED = 130
OUTPUT_CLOSED = 141
DEBUG = "--debug"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def call(command: click.Command, args: list[str] | None = None) -> int:
    """Run the command on `args`, or on the arguments of this process; its exit code."""
    _open_what_is_closed()
    _survive_any_encoding()
    try:
        code = command.main(args, standalone_mode=False)
    except click.Abort:
        say("interrupted")
        return INTERRUPTED
    except click.ClickException as error:
        say(_usage_line(error))
        return error.exit_code
    return code if isinstance(code, int) else DONE


def guarded(work: Callable[[], int], *, debug: bool) -> int:
    """Run `work`; its exit code, whatever happens. With `debug` tracebacks are shown."""
    try:
        code = work()
        sys.stdout.flush()
    except BrokenPipeError:
        _close_stdout()
        return OUTPUT_CLOSED
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except SpecscopeError as error:
        _traceback(debug)
        say(str(error))
        return error.exit_code
    except OSError as error:
        _traceback(debug)
        say(_io_line(error))
        return WRONG_USAGE
    except MemoryError:
        _traceback(debug)
        say("needs more memory than there is; give fewer files, or one --rank")
        return UNREADABLE
    except Exception as error:
        _traceback(debug)
        again = "" if debug else f", run with {DEBUG} to see where"
        say(f"internal error ({type(error).__name__}: {error}){again}; please report it")
        return INTERNAL_ERROR
    return code


def say(text: str) -> None:
    """One line to stderr, in the name of the program."""
    click.echo(f"specscope: {clean(text)}", err=True)


def _io_line(error: OSError) -> str:
    """What the system said, and what to do about it."""
    where = f" {error.filename}" if error.filename else ""
    mend = "make room and try again" if error.errno in _FULL else "check where the report goes"
    return f"cannot write{where}: {error.strerror or error}; {mend}"


def _usage_line(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    name = context.command_path if context is not None else "specscope"
    message = " ".join(error.format_message().split()).rstrip(".")
    return f"{message}; see {name} --help"


def _traceback(debug: bool) -> None:
    if not debug:
        return
    import traceback

    for line in traceback.format_exc().splitlines():
        click.echo(clean(line), err=True)


def _open_what_is_closed() -> None:
    """Streams that the caller closed lead nowhere, instead of failing at the first use."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123


def _survive_any_encoding() -> None:
    """Letters that a terminal of another encoding does not have are written as escapes."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _close_stdout() -> None:
    """Point stdout at nothing, so that the last flush of the interpreter stays silent."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
