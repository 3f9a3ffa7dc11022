"""The array libraries of this machine: a broken install of one leaves the others usable."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from gpu.namespaces import available


def without(monkeypatch, *libraries):
    """As if these libraries weren't installed."""
    monkeypatch.setattr("gpu.namespaces.find_spec", lambda name: None if name in libraries else find_spec(name))


def test_numpy_alone_is_enough(monkeypatch):
    without(monkeypatch, "torch", "cupy")
    (numpy,) = available()
    assert numpy.label == "numpy float64 on cpu"
    assert numpy.xp.asarray([1.0], dtype=numpy.dtype, device=numpy.device).dtype == np.float64


def test_torch_comes_in_both_precisions(monkeypatch):
    pytest.importorskip("torch")
    without(monkeypatch, "cupy")
    labels = [found.label for found in available()]
    assert labels[:3] == ["numpy float64 on cpu", "torch float64 on cpu", "torch float32 on cpu"]


def test_every_namespace_multiplies_matrices_in_its_precision():
    for found in available():
        a = found.xp.asarray([[1.0, 2.0], [3.0, 4.0]], dtype=found.dtype, device=found.device)
        product = found.xp.matmul(a, a)
        assert product.dtype == found.dtype
        assert float(product[1, 0]) == 15.0


def test_a_broken_install_is_left_out_with_a_warning(tmp_path, monkeypatch):
    without(monkeypatch, "torch")
    (tmp_path / "cupy.py").write_text("raise OSError('libcublas.so.12: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    with pytest.warns(UserWarning, match="cupy is installed but left out: OSError: libcublas"):
        found = available()
    assert [x.label for x in found] == ["numpy float64 on cpu"]
