# The machine's command line: a kernel without a fault, one with a race, and commands that cannot be.
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BINARY, ROOT = sys.argv[1], Path(sys.argv[2])
SIZES = ["--grid", "2", "--block", "64"]
BUFFERS = ["--buffer", "u32:128=index", "--buffer", "u32:2"]


def run(*words):
    return subprocess.run([BINARY, *words], cwd=ROOT, capture_output=True, text=True, timeout=1500)


class PtxMachine(unittest.TestCase):
    def test_examples_of_the_help_do_what_it_says(self):
        help_text = run("--help").stdout
        examples = [l.split()[1:] for l in help_text.splitlines() if l.startswith("  ptx_machine samples")]
        self.assertEqual(len(examples), 2)
        clean, racy = (run(*words) for words in examples)
        self.assertEqual((clean.returncode, clean.stderr), (0, ""))
        self.assertIn("buffer 1: 2016 6112", clean.stdout)  # 0 + … + 63, and 64 + … + 127
        self.assertIn("20 interleavings", clean.stdout)
        self.assertEqual(racy.returncode, 1, racy.stdout)

    def test_a_race_is_reported_with_both_places(self):
        r = run("samples/ptx/block_sum_racy.ptx", *SIZES, "--buffer", "u32:128=index", "--buffer", "u32:2",
                "--interleavings", "50")
        self.assertEqual(r.returncode, 1)
        self.assertRegex(r.stdout, r"interleaving \d+: race: ")
        self.assertRegex(r.stdout, r"line \d+: ld.shared.u32")
        self.assertRegex(r.stdout, r"line \d+: st.shared.u32")
        self.assertIn("--seed", r.stdout)

    def test_a_buffer_that_is_too_small_or_never_written(self):
        r = run("samples/ptx/block_sum.ptx", *SIZES, "--buffer", "u32:127=0", "--buffer", "u32:2")
        self.assertEqual(r.returncode, 1)
        self.assertIn("out_of_bounds", r.stdout)
        self.assertIn("buffer 0 (u32:127=0)", r.stdout)
        r = run("samples/ptx/block_sum.ptx", *SIZES, "--buffer", "u32:128", "--buffer", "u32:2")
        self.assertEqual(r.returncode, 1)
        self.assertIn("uninitialised", r.stdout)

    def test_numbers_and_buffers_are_taken_in_their_order(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "scale.ptx"
            path.write_text("""
.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .f32 factor, .param .u64 data, .param .u32 add)
{
  .reg .f32 %f<4>; .reg .b32 %r<4>; .reg .b64 %rd<2>;
  ld.param.f32 %f1, [factor];
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [add];
  ld.global.f32 %f2, [%rd1];
  mul.rn.f32 %f2, %f2, %f1;
  cvt.rn.f32.u32 %f3, %r1;
  add.rn.f32 %f2, %f2, %f3;
  st.global.f32 [%rd1], %f2;
  ret;
}
""")
            r = run(str(path), "--grid", "1", "--block", "1", "--arg", "2.5", "--buffer", "f32:1=3",
                    "--arg", "4", "--kernel", "scale")
            self.assertEqual((r.returncode, r.stderr), (0, ""))
            self.assertIn("buffer 0: 11.5", r.stdout)
            path.write_text(path.read_text().replace("mul.rn.f32", "mul.approx.f32"))
            r = run(str(path), "--grid", "1", "--block", "1", "--arg", "2.5", "--buffer", "f32:1=3", "--arg", "4")
            self.assertEqual((r.returncode, r.stdout), (2, ""))
            self.assertIn("line 12", r.stderr)

    def test_what_cannot_be_run_is_said(self):
        for words, reason in (
            (["nowhere.ptx", *SIZES], "cannot be read"),
            (["samples/ptx/block_sum.ptx", *SIZES], "takes 2 parameters, 0 were given"),
            (["samples/ptx/block_sum.ptx", *SIZES, "--kernel", "sum", *BUFFERS], "it has block_sum"),
            (["samples/ptx/block_sum.ptx", *SIZES, "--buffer", "f16:2", "--buffer", "u32:2"], "TYPE:COUNT"),
            (["samples/ptx/block_sum.ptx", *SIZES, "--buffer", "u32:2=x", "--buffer", "u32:2"], "is not a number"),
            (["samples/ptx/block_sum.ptx", "--grid", "2", "--block", "2000", *BUFFERS], "2000 threads a block"),
            (["samples/ptx/block_sum.ptx", "--block", "64", *BUFFERS], "--grid"),
            (["README.md", *SIZES, *BUFFERS], "line 1"),
        ):
            r = run(*words)
            self.assertEqual((r.returncode, r.stdout), (2, ""), words)
            self.assertIn(reason, r.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
