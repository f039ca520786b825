"""Python imports this by itself in every process that `specscope run` starts.

It attaches the hooks, then runs the `sitecustomize` that it stands in front of. Nothing that
goes wrong in the first part reaches the process; what the other one does is its own affair.
"""

import os
import sys


def _attach() -> None:
    try:
        from specscope.profiler.plugins import start_up

        start_up()
    except Exception as error:
        # Said once: the processes that this one starts inherit the variable.
        if not os.environ.get("SPECSCOPE_SAID"):
            os.environ["SPECSCOPE_SAID"] = "1"
            sys.stderr.write(f"specscope: not attached in {sys.executable}: {error}\n")


def _next() -> None:
    import importlib.util
    from importlib.machinery import PathFinder

    here = os.path.realpath(os.path.join(__file__, os.pardir))  # noqa: PTH118 - start-up is dear
    others = [path for path in sys.path if os.path.realpath(path or os.curdir) != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


# The other one may look for the next itself, and find this file again.
if not getattr(sys, "_specscope_started", False):
    setattr(sys, "_specscope_started", True)  # noqa: B010 - unknown to the types of sys
    _attach()
    _next()
