"""Compares built-in formulas with real peers on the CPU: random hyperparameters and awkward sizes, bit for bit if the
peer is elementwise.

    tests/torch/formulas_check.py [--draws N] [NAME...]

Needs PyTorch and the Python package (PYTHONPATH); other peers (tools/peers/cases.py) where they are installed.
"""

import argparse
import pathlib
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/peers"))
from cases import CASES, compare, find, leave_out_init  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    parser.add_argument("--backend", default="interpret")
    parser.add_argument("names", nargs="*")
    a = parser.parse_args()
    leave_out_init("timm", "timm.optim", "timm.utils")
    failed = 0
    for name in a.names or CASES:
        case = CASES[name]
        try:
            find(case.cls)
        except ImportError as e:
            print(f"{name:23} skipped: {e}")
            continue
        exact, worst, first = 0, 0.0, None
        for seed in range(a.seed, a.seed + a.draws):
            bits, difference, hyper = compare(name, seed, a.backend)
            exact += bits == 0
            worst = max(worst, difference)
            bad = bits > 0 if case.near is None else not difference < case.near[0]
            if bad and first is None:
                first = f"draw {seed}: {bits} elements differ, by {difference:.1e}, {hyper}"
        print(f"{name:23} {case.cls:38} {exact}/{a.draws} draws bit-identical, largest difference {worst:.1e}", flush=True)
        if first:
            failed += 1
            print(f"  FAILED at {first}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
