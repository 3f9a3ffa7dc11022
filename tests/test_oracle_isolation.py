"""A kernel in a process of its own: whatever it does is a verdict, nothing is left running, and no flood is kept."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from attnproof.commands import attnproof as command
from attnproof.oracle.isolation import Isolated, Step, entries, watched

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
ROOT = Path(__file__).parent.parent
HEAD = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from attnproof.oracle.isolation import enter, note
here = Path(sys.argv[1])
journal = here / "journal"
enter(str(here), 1.0)
def check(name): note(journal, {{"check": {{"check": name, "verdict": "holds"}}, "seconds": 0.1}})
def record(): note(journal, {{"record": {{"ok": True}}}})
def started(*command):
    import subprocess
    (here / "pid").write_text(str(subprocess.Popen(command).pid))
"""


def isolated(code: str, folder: Path, seconds: float = 20, steps: list[Step] | None = None) -> Isolated:
    """What becomes of a program that does as `attnproof check` does in another process, and then something worse."""
    done = (lambda step: None) if steps is None else steps.append
    return watched([sys.executable, "-I", "-c", HEAD + code, str(folder)], folder, seconds, done)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("os._exit(0)", "its process ended with 0, while it was imported"),
        ("note(journal, {'imported': 1}); sys.exit(3)", "its process ended with 3"),
        ("note(journal, {'imported': 1}); raise MemoryError('too much')", "ended with 1: MemoryError: too much"),
        ("check('lengths'); check('split'); os.abort()", "its process was ended by SIGABRT, after the check 'split'"),
        ("check('lengths'); import ctypes; ctypes.string_at(0)", "was ended by SIGSEGV, after the check 'lengths'"),
        ("note(journal, {'imported': 1}); bytearray(2**33)", "ended with 1: MemoryError"),
        ("os.kill(os.getpid(), 9)", "ended by SIGKILL, as the system does when memory runs out"),
        ("os.write(1, b'\\x1b[31mred\\x07' + b'x' * 999); os._exit(4)", "its process ended with 4: [31mredxxx"),
        ("record(); os._exit(7)", ""),
        ('journal.write_text(\'{"record": {"ok": tr\'); os._exit(0)', "its process ended with 0, while it was"),
        ("note(journal, {'usage': 'no such layout'}); os._exit(2)", ""),
    ],
)
def test_how_a_process_may_end(code: str, said: str, tmp_path: Path) -> None:
    found = isolated(code, tmp_path)
    assert said in found.message
    assert len(found.message) < 400
    assert (found.record is not None) == code.startswith("record")
    assert found.usage == ("no such layout" if "usage" in code else "")


def test_what_was_found_before_a_crash_is_kept_and_shown_at_once(tmp_path: Path) -> None:
    steps: list[Step] = []
    found = isolated("check('lengths'); check('split'); os.abort()", tmp_path, steps=steps)
    assert [x.id for x in steps] == [x["check"] for x in found.checks] == ["lengths", "split"]


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int) -> bool:
    for _ in range(100):
        if not is_running(pid):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("ends", ["os._exit(0)", "record(); os._exit(0)", "os.abort()", "import time; time.sleep(60)"])
def test_nothing_that_it_started_is_left_running(ends: str, tmp_path: Path) -> None:
    isolated(f"started('sleep', '60'); {ends}", tmp_path, seconds=1)
    assert wait_until_gone(int((tmp_path / "pid").read_text()))


def test_a_process_that_ignores_signals_is_ended_in_time(tmp_path: Path) -> None:
    ignores = "import signal\nfor s in (1, 2, 10, 15): signal.signal(s, signal.SIG_IGN)\nwhile True: pass"
    begun = time.monotonic()
    found = isolated(f"note(journal, {{'imported': 1}})\n{ignores}", tmp_path, seconds=1)
    assert found.message == "it was not done after 1 s"
    assert time.monotonic() - begun < 4


def test_a_record_counts_though_a_thread_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnproof.oracle.isolation.GRACE", 0.2)
    begun = time.monotonic()
    found = isolated(
        "import threading, time; threading.Thread(target=time.sleep, args=[60]).start(); record()", tmp_path
    )
    assert found.record == {"ok": True}
    assert time.monotonic() - begun < 10


def test_megabytes_of_output_are_read_and_not_kept(tmp_path: Path) -> None:
    code = "for _ in range(300): os.write(1, b'x' * 2**17)\nos.write(2, b'\\nthe end\\n'); os._exit(5)"
    tracemalloc.start()
    try:
        found = isolated(code, tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "ended with 5: the end" in found.message
    assert peak < 2**20


def test_an_output_that_another_session_keeps_open_is_not_waited_for(tmp_path: Path) -> None:
    begun = time.monotonic()
    isolated("import subprocess; subprocess.Popen(['sleep', '8'], start_new_session=True); os._exit(0)", tmp_path)
    assert time.monotonic() - begun < 6


def test_a_line_that_was_cut_off_is_no_entry(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text('{"check": 1}\n{"check": 2')
    assert entries(tmp_path / "journal") == [{"check": 1}]
    assert entries(tmp_path / "nothing") == []


def test_a_hang_is_shown_in_the_kernels_own_file(tmp_path: Path) -> None:
    ours = tmp_path / "attnproof" / "oracle" / "subject.py"
    ours.parent.mkdir(parents=True)
    ours.write_text("def call(kernel): kernel()", encoding="utf-8")
    kernel = "import threading\ndef kernel():\n    waits()\ndef waits():\n    threading.Event().wait(60)\n"
    (tmp_path / "kernels.py").write_text(kernel, encoding="utf-8")
    loaded = "note(journal, {'imported': 1}); sys.path[:0] = [str(here), str(here / 'attnproof/oracle')]\n"
    found = isolated(f"{loaded}from subject import call\nfrom kernels import kernel\ncall(kernel)", tmp_path, seconds=1)
    assert found.message == "it was not done after 1 s, in waits (kernels.py, line 5)"


@pytest.mark.skipif(sys.platform != "linux", reason="the system tells a child of its parent's end on Linux alone")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_where_the_command_is_stopped_the_kernel_is_too(sent: signal.Signals, tmp_path: Path) -> None:
    hangs = f"{HEAD}(here / 'pid').write_text(str(os.getpid()))\nimport time\ntime.sleep(60)"
    parent = f"""
import sys
from pathlib import Path
from attnproof.oracle.isolation import watched
watched([sys.executable, "-c", {hangs!r}, {str(tmp_path)!r}], Path({str(tmp_path)!r}), 60, print)
"""
    process = subprocess.Popen([sys.executable, "-c", parent], env=ENVIRONMENT, stderr=subprocess.PIPE)
    pid = tmp_path / "pid"
    while not (pid.exists() and pid.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(sent)
    _, printed = process.communicate(timeout=10)
    assert (b"KeyboardInterrupt" in printed) == (sent == signal.SIGINT)
    assert wait_until_gone(int(pid.read_text()))


KERNELS = """
import numpy as np
def right(q, k, v):
    scores = np.tril(np.einsum("bthk,bshk->bhts", *(np.repeat(x, v.shape[2] // x.shape[2], 2) for x in (q, k))))
    print("noise " * 10000)
    return np.einsum("bhts,bshv->bthv", scores, v)
"""


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("right", 0, "right computes Linear attention in float32"),
        ("missing", 2, "can't import noisy:missing"),
    ],
)
def test_the_command_says_what_became_of_it(
    name: str, status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noisy.py").write_text(KERNELS, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    options = ["--library", "numpy", "--effort", "quick", "--chunk-size", "4", "--isolate"]
    done = CliRunner().invoke(command, ["check", f"noisy:{name}", "--as", "linear_attention", *options])
    assert done.exit_code == status, done.output
    assert said in done.output
    assert "noise" not in done.output
    assert len(done.output) < 4000


def test_a_module_that_ends_the_process_with_0_is_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "leaves_early.py").write_text("import sys; sys.exit(0)", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    done = CliRunner().invoke(command, ["check", "leaves_early:kernel", "--as", "linear_attention"])
    assert done.exit_code == 2
    assert "can't import leaves_early:kernel: SystemExit: 0" in done.output


def read_all(terminal: int) -> str:
    printed = b""
    with suppress(OSError):  # how a terminal says that nobody writes to it any more
        while chunk := os.read(terminal, 2**16):
            printed += chunk
    return printed.decode(errors="replace")


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudoterminals")
@pytest.mark.parametrize("isolated", [False, True])
def test_a_kernel_that_prints_to_a_terminal_leaves_bar_and_report_whole(isolated: bool, tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(KERNELS.replace('"noise " * 10000', '"[/bold] {} %"'), encoding="utf-8")
    options = ["--library", "numpy", "--effort", "quick", "--chunk-size", "4"]
    program = [sys.executable, "-m", "attnproof", "check", "noisy:right", "--as", "linear_attention", *options]
    terminal, slave = os.openpty()
    process = subprocess.Popen(
        [*program, *["--isolate"] * isolated], cwd=tmp_path, env=ENVIRONMENT, stdout=slave, stderr=slave
    )
    os.close(slave)
    printed = read_all(terminal)
    assert process.wait() == 0
    assert "Traceback" not in printed
    lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\r", "", printed).splitlines()
    [head] = [k for k, line in enumerate(lines) if line.startswith("right computes Linear attention in float32")]
    assert lines[head + 1].startswith("  lengths: right, ")
    assert ("[/bold] {}" in printed) != isolated
