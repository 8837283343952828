#!/usr/bin/env python3
"""The sample ranks under mpirun: one device's bits on any number of ranks, an overflow on one rank, a rank that ends or hangs.

    mpi_test.py RANKS MPIRUN
"""

import re
import subprocess
import sys
import unittest

RANKS, MPIRUN = sys.argv[1:3]
OPTIONS = ()
if "Open MPI" in subprocess.run([MPIRUN, "--version"], capture_output=True, text=True).stdout:
    OPTIONS = ("--allow-run-as-root", "--oversubscribe")


def run(ranks, *arguments):
    command = [MPIRUN, *OPTIONS, "-n", str(ranks), RANKS, "--steps", "12", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=1500)


class Ranks(unittest.TestCase):
    def test_bits_are_one_devices_on_any_number_of_ranks(self):
        want = run(1, "--whole", "--overflow", "0:5")
        self.assertEqual(want.returncode, 0, want.stderr)
        self.assertRegex(want.stdout, r"(?m)^ +5  norm \S+  scale 512  skipped$")
        self.assertRegex(want.stdout, r"(?m)^digest [0-9a-f]{16}$")
        for ranks in (1, 2, 3, 4, 7):
            got = run(ranks, "--overflow", f"{ranks - 1}:5" if ranks < 4 else "2:5")
            self.assertEqual(got.stdout, want.stdout, f"{ranks} ranks: {got.stderr}")
        other = run(2, "--overflow", "0:7")
        self.assertNotEqual(other.stdout, want.stdout)

    def test_a_rank_that_ends_ends_all(self):
        self.assertNotEqual(run(4, "--kill", "2:5").returncode, 0)

    def test_a_rank_that_hangs_is_named(self):
        done = run(4, "--stop", "2:5", "--timeout", "3")
        self.assertNotEqual(done.returncode, 0)
        said = re.findall(r"rank (\d): the all-gather did not finish in time; no answer from rank 2: dead", done.stderr)
        self.assertTrue(said, done.stderr)
        self.assertNotIn("2", said)
        self.assertNotIn("digest", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
