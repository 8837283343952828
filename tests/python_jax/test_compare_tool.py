"""tools/compare_optax.py from end to end at a small size."""

import json
import pathlib
import subprocess
import sys

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/compare_optax.py"


def run(*arguments):
    return subprocess.run([sys.executable, str(TOOL), *arguments], capture_output=True, text=True, timeout=1500)


def test_both_are_timed(tmp_path):
    file = tmp_path / "times.json"
    done = run("--layouts", "3x37", "--rounds", "2", "--seconds", "0.01", "--json", str(file))
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())["layouts"]["3x37"]
    assert all(len(found[who]["ms"]) == 2 and found[who]["median_ms"] > 0 for who in ("stepfuse", "optax"))
    assert "3x37" in done.stdout


def test_an_unknown_layout():
    done = run("--layouts", "gpt9")
    assert done.returncode == 1 and "--layouts: expected one of" in done.stderr and "got 'gpt9'" in done.stderr
