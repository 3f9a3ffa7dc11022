"""Triton kernels on a machine without a GPU: Triton's own interpreter, with what it lacks for kernels in the wild.

The interpreter runs a kernel's Python with NumPy, one program of the grid after another. Three things of compiled
Triton are added: the variable of a loop over a range is a scalar of Triton's and no Python integer; a function of the
language may have another name (`gather = tl.gather`); and what is tuned takes its first configuration, since there is
nothing to measure. It shows whether a kernel's formula is right, and nothing of races, shared memory, or what its
compiled code rounds. In bfloat16 Triton's interpreter computes wrong values: use float32 or float16.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

SWITCH = "TRITON_INTERPRET"


def interpret_triton() -> None:
    """Lets Triton kernels that are imported after this call run on the CPU, in this process.

    Raises:
        ImportError: Triton isn't installed, or has an interpreter that this doesn't know.
        RuntimeError: Triton was imported before, for a GPU.
    """
    if "triton" in sys.modules and os.environ.get(SWITCH) != "1":
        raise RuntimeError("Triton has been imported already: call interpret_triton() before what imports it")
    if find_spec("triton") is None:
        raise ImportError("Triton isn't installed: pip install 'attnproof[triton]'")
    os.environ[SWITCH] = "1"
    autotuner, interpreter = (import_module(f"triton.runtime.{name}") for name in ("autotuner", "interpreter"))
    try:
        rewriter, transformer = interpreter.FunctionRewriter, interpreter.ASTTransformer
        executor = interpreter.GridExecutor
        known = isinstance(rewriter.ast_transformer, transformer) and callable(autotuner.Autotuner._bench)
    except AttributeError:
        known = False
    if not known:
        raise ImportError("this version of Triton has another interpreter: pip install 'attnproof[triton]'")
    if not isinstance(rewriter.ast_transformer, _ScalarLoops):
        rewriter.ast_transformer = type("ScalarLoops", (_ScalarLoops, transformer), {})()
        rewriter.rewrite_ast = _with_names_looked_up(rewriter.rewrite_ast)
        executor.__call__ = np.errstate(all="ignore")(executor.__call__)  # what a mask hides later may overflow
        autotuner.Autotuner._bench = _first_configuration


class _ScalarLoops(ast.NodeTransformer):
    """`for i in range(n)` begins with `i = i`, which the interpreter's own transformer makes a scalar of Triton's."""

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name) and _is_range(node.iter):
            name = node.target.id
            itself = ast.Assign([ast.Name(name, ast.Store())], ast.Name(name, ast.Load()))
            node.body.insert(0, ast.copy_location(self.visit(itself), node))
        return node


def _is_range(iterated: ast.expr) -> bool:
    """`range(...)` or `tl.range(...)`; a static range counts at compile time, and its variable is a constant."""
    function = iterated.func if isinstance(iterated, ast.Call) else None
    return (isinstance(function, ast.Name) and function.id == "range") or (
        isinstance(function, ast.Attribute) and function.attr == "range"
    )


def _with_names_looked_up(rewrite: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The interpreter exchanges the functions of `triton.language` while a kernel runs: other names of them in the
    kernel's module are looked up there when they are called.
    """
    language = import_module("triton.language")

    def later(name: str) -> Callable[..., Any]:
        return functools.wraps(getattr(language, name))(lambda *x, **options: getattr(language, name)(*x, **options))

    def rewritten(self: Any) -> Any:
        names = self.fn.__globals__
        for name, value in list(names.items()):
            if getattr(value, "__triton_builtin__", False) and hasattr(language, value.__name__):
                names[name] = later(value.__name__)
        return rewrite(self)

    return rewritten


def _first_configuration(self: Any, *arguments: Any, config: Any, **meta: Any) -> list[float]:
    """In the place of measured times: the order in which configurations are listed."""
    del arguments, meta
    return [float(self.configs.index(config))] * 3
