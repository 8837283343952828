"""`stepfuse explore`: the page, and that a browser lights up what belongs together."""

import json
import re
import shutil
import subprocess
import unittest

from case import Case, main

BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)


class Explore(Case):
    def page(self, *words):
        file = self.file("page.html", "")
        self.ok("explore", *words, "-o", file)
        return file

    def data_of(self, file):
        before, data, after = re.split(r"^const data = (.*);$", file.read_text(encoding="utf-8"), flags=re.M)
        self.assertNotRegex(before + after, r"(src|href)\s*=|https?:|@import|url\(", "it needs nothing else")
        return json.loads(data)

    def test_all_stages_are_there_and_know_their_lines(self):
        data = self.data_of(self.page("sgd", "--clip", "--arch", "sm_80"))
        stages = {s["name"]: s for s in data["stages"]}
        self.assertEqual(list(stages), ["IR", "passes", "schedule", "plan", "CUDA", "PTX", "SASS", "LLVM IR", "C"])
        for name, stage in stages.items():
            if name in ("PTX", "SASS") and not stage["lines"]:
                self.assertIn("not here", stage["note"])
                continue
            known = [line for line in stage["lines"] if not isinstance(line, str)]
            self.assertGreater(len(known), 10, name)
        self.assertEqual([row[0] for row in data["facts"]["rows"]], ["reduce", "update"])
        self.assertEqual([row[2] for row in data["facts"]["rows"]], ["4+0", "8+4"])

    def test_no_text_is_markup(self):
        step = 'step @s {\n  report @r : f32\n  %c = const 1 : f32\n  write @r, %c\n}\n'
        text = self.page(self.file("<script>.sf", step)).read_text(encoding="utf-8")
        self.assertEqual(text.count("<script>"), 1)
        self.assertIn(r"\u003cscript>.sf", text)

    def test_faults_name_the_option(self):
        self.fails(2, "--output is required", "explore", "sgd")
        self.fails(2, "--arch", "explore", "sgd", "--arch", "sm_9", "-o", "page.html")

    @unittest.skipUnless(BROWSER, "no Chromium here")
    def test_a_browser_lights_the_lines_of_an_instruction_in_every_stage(self):
        file = self.page("sgd", "--clip")
        stages = self.data_of(file)["stages"]
        line = next(i for i, text in enumerate(stages[0]["lines"], 1) if "%g_square = mul" in text[0])
        call = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"file://{file}#line={line}"]
        dom = subprocess.run(call, capture_output=True, text=True, timeout=120, check=True).stdout
        self.assertIn("sgd --clip", dom)
        for index, stage in enumerate(stages):
            section = re.search(f'<section[^>]* id="stage{index}".*?</section>', dom, re.S).group(0)
            lit = [int(n) for n in re.findall(r'<li class="of pin"[^>]* value="(\d+)"', section)]
            expected = [n for n, entry in enumerate(stage["lines"], 1) if not isinstance(entry, str) and line in entry[1]]
            self.assertEqual(lit, expected, stage["name"])
            if stage["lines"]:
                self.assertTrue(lit, stage["name"])


if __name__ == "__main__":
    main()
