"""The CUDA source compiles for sm_80 and sm_90, by nvcc or by NVRTC, where one of them is at hand."""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from gpu.cupy_kernels.declared import RECURRENT
from gpu.cupy_kernels.recurrent import OPTIONS, source

ARCHITECTURES = ("80", "90")
NVCC, NVRTC = shutil.which("nvcc"), ctypes.util.find_library("nvrtc")
CODE = str(files("gpu.cupy_kernels").joinpath("cuda/recurrent.cu"))


def kernel_names() -> list[str]:
    systems = [x.home.split(":")[1] for x in RECURRENT if x.home.split(":")[1] != "normalised_linear_attention"]
    return [f"{name}_{precision}" for name in systems for precision in ("float32", "float64")]


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc on the path")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvcc_makes_every_kernel(architecture: str, tmp_path: Path) -> None:
    assert NVCC is not None
    compiled = tmp_path / "recurrent.cubin"
    strict = ["-Werror", "all-warnings", "-cubin", f"-arch=sm_{architecture}", "-o", str(compiled)]
    subprocess.run([NVCC, *OPTIONS, *strict, CODE], check=True)
    binary = compiled.read_bytes()
    assert [name for name in kernel_names() if name.encode() not in binary] == []


@pytest.mark.skipif(NVRTC is None, reason="there is no NVRTC, the compiler that CuPy uses")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvrtc_makes_every_kernel(architecture: str) -> None:
    assert NVRTC is not None
    library, program, size = ctypes.CDLL(NVRTC), ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), source().encode(), b"recurrent.cu", 0, None, None)
    options = [option.encode() for option in (*OPTIONS, f"--gpu-architecture=sm_{architecture}")]
    status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    assert status == 0, log.value.decode()
    library.nvrtcGetCUBINSize(program, ctypes.byref(size))
    binary = ctypes.create_string_buffer(size.value)
    library.nvrtcGetCUBIN(program, binary)
    assert [name for name in kernel_names() if name.encode() not in binary.raw] == []
