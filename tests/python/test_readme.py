"""The README's program in Python, as it stands there."""

import pathlib
import re
import subprocess
import sys

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def test_the_readmes_program_runs_and_learns():
    program = re.search(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.S | re.M)[1]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    assert float(re.search(r"loss (\S+),", done.stdout)[1]) < 1, done.stdout
