"""The commands on pages of the documentation, as a reader types them."""

import pathlib
import re
import subprocess
import tempfile

from case import BINARY, ENVIRONMENT, SOURCE, Case, main

PAGES = ("tutorial_kernel", "fusion")


class Pages(Case):
    def test_every_command_runs(self):
        for page in PAGES:
            text = (SOURCE / "docs" / f"{page}.md").read_text(encoding="utf-8")
            blocks = re.findall(r"(?s)```sh\n(.*?)```", text)
            self.assertGreater(len(blocks), 0, page)
            with tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, "stepfuse").symlink_to(BINARY)
                environment = {**ENVIRONMENT, "PATH": f"{folder}:{ENVIRONMENT['PATH']}"}
                for block in blocks:
                    done = subprocess.run(["bash", "-euc", block], cwd=folder, capture_output=True, text=True, env=environment,
                                          timeout=300, check=False)
                    self.assertEqual((done.returncode, done.stderr if "error" in done.stderr else ""), (0, ""), block + done.stderr)

    def test_the_numbers_about_fusion_are_what_explain_counts(self):
        text = (SOURCE / "docs" / "fusion.md").read_text(encoding="utf-8")
        said = self.ok("explain", "adamw", "--loss-scale", "--clip", "--no-compile")
        fused, _, unfused = re.search(r"bytes per parameter +(\d+) +(\d+) +(\d+)", said).groups()
        self.assertEqual(re.findall(r"\*\*total\*\* \| \| \| \*\*(\d+)\*\*", text), [unfused, fused])


if __name__ == "__main__":
    main()
