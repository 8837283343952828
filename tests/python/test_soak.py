"""The long runs of tools/soak_python.py, short."""

import pathlib
import subprocess
import sys

SOAK = pathlib.Path(__file__).resolve().parents[2] / "tools" / "soak_python.py"


def test_runs_short():
    done = subprocess.run([sys.executable, str(SOAK), "--steps", "2000", "--epochs", "2", "--processes", "3"],
                          capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 6
