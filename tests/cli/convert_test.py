"""`stepfuse convert` as a user calls it: a checkpoint's moments into other forms and back, and what is refused.

tests/cli/adamw.safetensors is what save_checkpoint wrote of three steps of AdamW over tensors of 300 and 5 elements.
"""

import json
import math
import struct

from case import SOURCE, Case, main

CHECKPOINT = SOURCE / "tests/cli/adamw.safetensors"
MOMENTS = {"exp_avg": (300, 5), "exp_avg_sq": (300, 5)}


def read(path):
    """The metadata, and the arrays: dtype, bytes."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    metadata = header.pop("__metadata__")
    return metadata, {name: (a["dtype"], content[8 + size:][slice(*a["data_offsets"])]) for name, a in header.items()}


def floats(array):
    assert array[0] == "F32", array[0]
    return struct.unpack(f"<{len(array[1]) // 4}f", array[1])


def f32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


class Convert(Case):
    def converted(self, source, moments, *more):
        path = self.file("new.safetensors", "")
        self.ok("convert", source, path, f"--moments={moments}", *more)
        return path

    def test_moments_become_codes_and_scales_and_numbers_again(self):
        before, old = read(CHECKPOINT)
        path = self.converted(CHECKPOINT, "fp8")
        after, new = read(path)
        digest = "xxh3_128"
        self.assertNotEqual(before.pop(digest), after.pop(digest))
        self.assertEqual(before, after)
        names = {"state.step"} | {f"buffer.{m}.fp8.{part}.{t}" for m in MOMENTS for part in ("code", "scale") for t in (0, 1)}
        self.assertEqual(set(new), names)
        self.assertEqual(new["state.step"], old["state.step"])
        _, back = read(self.converted(path, "f32"))
        self.assertEqual(set(back), set(old))
        for moment, sizes in MOMENTS.items():
            for t, size in enumerate(sizes):
                numbers, rounded = floats(old[f"buffer.{moment}.{t}"]), floats(back[f"buffer.{moment}.{t}"])
                codes, scales = new[f"buffer.{moment}.fp8.code.{t}"], floats(new[f"buffer.{moment}.fp8.scale.{t}"])
                self.assertEqual((codes[0], len(codes[1]), len(scales)), ("F8_E4M3", size, math.ceil(size / 256)))
                for block, scale in enumerate(scales):
                    mine = numbers[256 * block:256 * block + 256]
                    self.assertEqual(scale, f32(max(map(abs, mine)) / 448))
                for i, (x, y) in enumerate(zip(numbers, rounded)):
                    # Four bits of the number, or what lies below the type's normal numbers.
                    self.assertLessEqual(abs(x - y), max(abs(x) / 16, scales[i // 256] * 2**-10) * 1.0001)
                    self.assertEqual(codes[1][i] & 0x7F == 0, y == 0)

    def test_some_moments_keep_their_bits(self):
        _, old = read(CHECKPOINT)
        _, new = read(self.converted(CHECKPOINT, "exp_avg_sq=sqrt8"))
        self.assertEqual({n for n in new if n in old}, {"state.step", "buffer.exp_avg.0", "buffer.exp_avg.1"})
        self.assertTrue(all(new[name] == old[name] for name in new if name in old))
        # In the form already: the same file.
        path = self.converted(CHECKPOINT, "exp_avg=dyn4|exp_avg_sq=lin4")
        self.assertEqual(path.read_bytes(), self.converted(path, "exp_avg=dyn4|exp_avg_sq=lin4").read_bytes())
        self.assertEqual(read(self.converted(CHECKPOINT, "f32"))[1], old)
        # One of two, as the message of a step that keeps it otherwise has it.
        _, one = read(self.converted(self.converted(CHECKPOINT, "fp8"), "exp_avg=f32"))
        self.assertIn("buffer.exp_avg.1", one)
        self.assertIn("buffer.exp_avg_sq.fp8.code.1", one)

    def test_small_tensors_keep_f32(self):
        _, old = read(CHECKPOINT)
        path = self.converted(CHECKPOINT, "dyn8", "--moments-below=300")
        _, new = read(path)
        self.assertEqual({n for n in new if n in old}, {"state.step", "buffer.exp_avg.1", "buffer.exp_avg_sq.1"})
        self.assertEqual(new["buffer.exp_avg.1"], old["buffer.exp_avg.1"])
        self.assertIn("buffer.exp_avg.dyn8.code.0", new)
        self.assertEqual(read(self.converted(CHECKPOINT, "dyn8", "--moments-below=301"))[1], old)
        # And the codes of those that are small become numbers.
        self.assertEqual(self.converted(self.converted(CHECKPOINT, "dyn8"), "dyn8", "--moments-below=300").stat().st_size,
                         path.stat().st_size)
        self.fails(2, "--moments-below", "convert", CHECKPOINT, path, "--moments=dyn8", "--moments-below=few")
        self.fails(2, "add one, as in", "convert", CHECKPOINT, path, "--moments=bf16", "--moments-below=300")

    def test_a_file_may_be_converted_in_place(self):
        path = self.file("run.safetensors", "")
        path.write_bytes(CHECKPOINT.read_bytes())
        self.ok("convert", path, path, "--moments=int8")
        self.assertEqual(path.read_bytes(), self.converted(CHECKPOINT, "int8").read_bytes())

    def test_what_is_refused_leaves_the_file(self):
        target = self.file("new.safetensors", "mine")
        for moments, message in (("momentum=fp8", "has no moment 'momentum'; it has exp_avg, exp_avg_sq"),
                                 ("fp9", "there is no format 'fp9'; there are")):
            self.fails(2, message, "convert", CHECKPOINT, target, f"--moments={moments}")
            self.assertEqual(target.read_text(), "mine")
        damaged = self.file("bad.safetensors", "")
        damaged.write_bytes(CHECKPOINT.read_bytes()[:-1] + b"\x7f")
        self.fails(2, str(damaged), "convert", damaged, target, "--moments=fp8")
        self.assertEqual(target.read_text(), "mine")


if __name__ == "__main__":
    main()
