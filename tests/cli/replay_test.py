"""Recording a step and `stepfuse replay`, through the command line tool."""

import json
import pathlib
import tempfile

from case import ENV, SOURCE, Case, call, main


class Replay(Case):
    def record(self, folder, *words, when=":step=1"):
        """The record of one step of a run."""
        done = call("run", "adamw", "--clip", "--loss-scale", "--backend=interpret", "--params=2000", "--steps=3", *words,
                    environment={"STEPFUSE_RECORD": f"{folder}{when}"})
        self.assertEqual(done.returncode, 0, done.err)
        return done.err, sorted(pathlib.Path(folder).glob("*.safetensors"))

    def test_a_record_replays(self):
        with tempfile.TemporaryDirectory() as folder:
            said, files = self.record(f"{folder}/made/by/it")
            self.assertEqual([f.name for f in files], ["adamw-step1.safetensors"])
            self.assertIn(f"stepfuse replay {files[0]}", said)
            for words in ([], ["--form=unfused"], ["--form=split"]):
                text = self.ok("replay", files[0], "--backend=interpret", *words)
                self.assertIn("step 1 of @adamw: 1 tensor, 2000 elements, recorded in form fused\n", text)
                self.assertIn("equals the interpreter in every array and state", text)

    def test_the_first_step_is_the_callers(self):
        with tempfile.TemporaryDirectory() as folder:
            _, files = self.record(folder, when=":step=0")
            self.assertEqual([f.name for f in files], ["adamw-step0.safetensors"])

    def test_a_difference_is_exit_code_1(self):
        with tempfile.TemporaryDirectory() as folder:
            _, (one,) = self.record(f"{folder}/one")
            _, (two,) = self.record(f"{folder}/two", "--seed=2")
            result = f"{folder}/result.safetensors"
            same = ["replay", one, "--backend=interpret"]
            self.ok(*same, f"--result={result}")
            self.assertIn(f"equals {result} in every", self.ok(*same, f"--compare={result}"))
            done = call("replay", two, "--backend=interpret", f"--compare={result}")
            self.assertEqual(done.returncode, 1, done.err)
            self.assertRegex(done.stdout.decode(), r"differs from .* in \d+ values, first in @grad of tensor 0 .* element 0:")
            _, (other,) = self.record(f"{folder}/other", "--zero-grad")
            self.fails(2, "its step or layout differs", "replay", other, "--backend=interpret", f"--compare={result}")

    def test_what_is_no_record(self):
        with tempfile.TemporaryDirectory() as folder:
            self.fails(2, "it is not a file", "replay", folder)
            self.fails(2, "it is not a file", "replay", "/dev/null")
            self.fails(2, "No such file", "replay", f"{folder}/none")
            _, (record,) = self.record(folder)
            bad = pathlib.Path(folder, "bad.safetensors")
            bad.write_bytes(record.read_bytes() + bytes(8))
            self.fails(2, "8 bytes follow its arrays", "replay", bad)

    def test_a_result_does_not_replace_the_record(self):
        with tempfile.TemporaryDirectory() as folder:
            _, (record,) = self.record(folder)
            before = record.read_bytes()
            link = pathlib.Path(folder, "link")
            link.symlink_to(record)
            for result in (record, link):
                self.fails(2, f"--result {result}: this is the record itself", "replay", record, "--backend=interpret",
                           "--result", result)
            self.assertEqual(record.read_bytes(), before)
            self.fails(2, "cannot write", "replay", record, "--backend=interpret", "--result", f"{folder}/none/result")

    def test_a_record_needs_a_folder(self):
        for value in (":step=1", ":when=nonfinite"):
            self.fails(2, f"STEPFUSE_RECORD={value}: write folder, folder:when=nonfinite or folder:step=N", "run", "adamw",
                       "--params=10", "--backend=interpret", environment={"STEPFUSE_RECORD": value})

    def test_recording_that_fails_stops_no_run(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "file").write_text("not a folder")
            said, files = self.record(f"{folder}/file/inside", when=":step=0")
            self.assertEqual(files, [])
            self.assertIn("not recorded", said)


class Names(Case):
    """What comes from a file or a path, and what a terminal gets to see of it."""

    def test_a_path_that_is_no_utf_8(self):
        with tempfile.TemporaryDirectory() as folder:
            step = folder.encode() + b"/step-\xff\x1b[31m.sf"
            pathlib.Path(folder, "step.sf").write_text(self.ok("dump", "adamw", "--emit=ir"))
            pathlib.Path(folder, "step.sf").rename(step.decode(errors="surrogateescape"))
            name = step.decode(errors="surrogateescape")
            for words in (["run", "--backend=interpret", "--params=10", "--json"], ["run", "--backend=interpret", "--params=10"],
                          ["explain", "--no-compile", "--json"], ["explain", "--no-compile"]):
                self.assertNotIn("\x1b", self.ok(words[0], name, *words[1:]))
            missing = call("check", name + ".none")
            self.assertEqual(missing.returncode, 2)
            self.assertNotIn(b"\x1b", missing.stderr)
            self.assertNotIn(b"\xff", missing.stderr)

    def test_a_layout_in_a_file_whose_name_is_not_utf_8(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder.encode() + b"/\xff.safetensors"
            pathlib.Path(path.decode(errors="surrogateescape")).write_bytes((SOURCE / "tests/cli/adamw.safetensors").read_bytes())
            layout = f"--layout={path.decode(errors='surrogateescape')}"
            verbs = [["run", "sgd", "--backend=interpret"], ["explain", "sgd", "--no-compile"], ["explain", "sgd", "--ranks=8"]]
            if ENV["llvm"]["available"]:
                verbs.append(["bench", "sgd", "--rounds=1"])
            for words in verbs:
                data = json.loads(self.ok(*words, layout, "--json"))
                self.assertEqual(data.get("layout", "\ufffd"), "\ufffd", words)

    def test_layouts(self):
        for text, message in (('{"name": "a", "tensors": [{"name": "w", "shape": [1e999]}]}', "not JSON"),
                              ('{"name": "a\\u001b[2J", "tensors": []}', "control character"),
                              ('{"name": "a", "tensors": [{"name": "\\u009b2J", "shape": [1]}]}', "control character"),
                              ('{"name": "a", "tensors": [], "\\u001b[2J": 1}', 'no field "?[2J"')):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "layout.json")
                path.write_text(text)
                said = self.fails(1, message, "run", "adamw", "--backend=interpret", f"--layout={path}")
                self.assertNotIn("\x1b", said)

    def test_words_of_the_command_line(self):
        for words in (["\x1b[31mverb"], ["dump", "\x1b[31m"], ["dump", "adamw", "--\x1b[31m"], ["dump", "adamw", "--emit=\x1b[31m"]):
            self.assertNotIn("\x1b", self.fails(2, "?[31m", *words))


if __name__ == "__main__":
    main()
