"""`stepfuse explore`: the page, and that a browser lights up what belongs together."""

import json
import re
import shutil
import subprocess
import sys
import unittest

from case import SOURCE, Case, main

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
        dom = self.dom(file, f"L{line}")
        self.assertIn("sgd --clip", dom)
        for index, stage in enumerate(stages):
            section = re.search(f'<section[^>]* id="stage{index}".*?</section>', dom, re.S).group(0)
            lit = [int(n) for n in re.findall(r'<li class="of pin"[^>]* value="(\d+)"', section)]
            expected = [n for n, entry in enumerate(stage["lines"], 1) if not isinstance(entry, str) and line in entry[1]]
            self.assertEqual(lit, expected, stage["name"])
            if stage["lines"]:
                self.assertTrue(lit, stage["name"])

    def dom(self, file, address, size="1360,800"):
        call = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={size}", "--dump-dom", f"file://{file}#{address}"]
        return subprocess.run(call, capture_output=True, text=True, timeout=1500, check=True).stdout

    @unittest.skipUnless(BROWSER, "no Chromium here")
    def test_the_address_has_the_line_and_the_stages(self):
        file = self.page("sgd", "--clip")
        ir = self.data_of(file)["stages"][0]["lines"]
        line = next(i for i, text in enumerate(ir, 1) if "store @weight" in text[0])
        dom = self.dom(file, f"L{line}&show=plan,c")
        hidden = {n: "hidden" in attributes for attributes, n in re.findall(r'<section([^>]* id="stage(\d)"[^>]*)>', dom)}
        self.assertEqual([n for n, is_hidden in hidden.items() if not is_hidden], ["3", "8"])
        details = re.search(r"<aside.*?</aside>", dom, re.S)[0]
        for term, description in (("type", "f32"), ("one value per", "element"), ("stage", "optimizer"), ("memory", "4 bytes per element written")):
            self.assertIn(f"<dt>{term}</dt><dd>{description}</dd>", details)
        self.assertIn("phase</dt><dd>update", details)

    @unittest.skipUnless(BROWSER, "no Chromium here")
    def test_a_phone_shows_one_stage_with_tabs(self):
        file = self.page("sgd", "--clip")
        for size, tabs in (("390,844", 1), ("820,1180", 3), ("1600,900", 3)):
            dom = self.dom(file, "show=ir,plan,c", size)
            self.assertEqual(len(re.findall(r'aria-pressed="true"', dom)), tabs, size)
            self.assertEqual("<details id=\"about\" open" in dom, tabs == 3, size)
            self.assertEqual(len(re.findall(r'<section[^>]*class="current"', dom)), 1)

    @unittest.skipUnless(BROWSER, "no Chromium here")
    def test_stages_that_fit_have_no_scroll_bar_below_all_of_them(self):
        file = self.page("sgd", "--clip")
        probe = "const m = document.querySelector('main'); document.documentElement.dataset.spare = m.scrollWidth - m.clientWidth"
        file.write_text(f"{file.read_text(encoding='utf-8')}<script>{{ {probe} }}</script>", encoding="utf-8")
        for size in ("390,844", "1600,900"):
            self.assertIn('data-spare="0"', self.dom(file, "show=ir,plan,c", size), size)

    def test_open_calls_the_desktops_program(self):
        said, file = self.file("said", ""), self.file("page.html", "")
        opener = self.file("xdg-open", f'#!/bin/sh\necho "$1" > {said}\nexit ${{CODE:-0}}\n')
        opener.chmod(0o755)
        environment = {"PATH": f"{opener.parent}:/usr/bin:/bin"}
        self.ok("explore", "sgd", "--open", "-o", file, environment=environment)
        self.assertEqual(said.read_text().strip(), str(file))
        self.fails(3, ["--open: xdg-open could not open", "open the file in a browser"], "explore", "sgd", "--open", "-o", file,
                   environment={**environment, "CODE": "4"})

    def test_the_picture_in_the_docs_shows_todays_facts(self):
        sys.path.insert(0, str(SOURCE / "tools"))
        import explore_picture

        now = explore_picture.facts_of(self.page(*explore_picture.OPTIONS))
        if not now["pinned"]["SASS"]:
            self.skipTest(now["machine code"])
        text = (SOURCE / "docs/explore.json").read_text(encoding="utf-8")
        code, message = explore_picture.verdict(now, json.loads(text))
        if code == 3:
            self.skipTest(message)
        self.assertEqual(code, 0, message)
        stale = explore_picture.verdict(now, json.loads(text.replace('"5.8"', '"5.9"')))
        self.assertEqual(stale[0], 1, "instructions per element differ")

    def test_the_page_names_the_command_that_makes_it(self):
        file = self.page("sgd", "--clip", "--form", "split", "--cuda-options", "unroll=2")
        data = self.data_of(file)
        self.assertEqual(data["command"], f"stepfuse explore sgd --clip=l2 --form split --cuda-options unroll=2 -o {file}")
        self.assertRegex(data["version"], r"^stepfuse \d+\.\d+\.\d+, \d{4}-\d\d-\d\d$")


if __name__ == "__main__":
    main()
