"""The Conan recipe and the vcpkg port fit the build: version, options, libraries, and the folders that the recipe exports. Runs neither
Conan nor vcpkg.

    recipes_test.py SOURCE_DIR
"""

import ast
import json
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1])
CONAN = (SOURCE / "conanfile.py").read_text(encoding="utf-8")
PORT = SOURCE / "tools/vcpkg/stepfuse"
PORTFILE = (PORT / "portfile.cmake").read_text(encoding="utf-8")
MANIFEST = json.loads((PORT / "vcpkg.json").read_text(encoding="utf-8"))
BUILD = "\n".join(file.read_text(encoding="utf-8") for file in [SOURCE / "CMakeLists.txt", *sorted((SOURCE / "cmake").glob("*.cmake"))])
# The build looks for these libraries; Conan and vcpkg have their own names for them. Only the tool needs the last one.
LIBRARIES = {"fmt": ("fmt", "fmt"), "TBB": ("onetbb", "tbb"), "nlohmann_json": ("nlohmann_json", "nlohmann-json"),
             "xxHash": ("xxhash", "xxhash"), "CLI11": ("cli11", "cli11")}


def names(dependencies: list) -> set[str]:
    return {d if isinstance(d, str) else d["name"] for d in dependencies}


class Recipes(unittest.TestCase):
    def test_the_version_is_the_library_s(self):
        self.assertEqual(MANIFEST["version"], re.search(r"project\(stepfuse VERSION ([\d.]+)", BUILD)[1])
        pattern = re.search(r're\.search\(r"(.*)", text\)', CONAN)[1]
        self.assertEqual(re.search(pattern, (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8"))[1], MANIFEST["version"])

    def test_every_option_is_one_of_the_build(self):
        options = set(re.findall(r"option\((STEPFUSE_\w+)|set\((STEPFUSE_\w+) [^)]*CACHE", BUILD))
        options = {name for pair in options for name in pair if name}
        for text in (CONAN, PORTFILE):
            used = set(re.findall(r"STEPFUSE_\w+", text))
            self.assertGreater(len(used), 3)
            self.assertLessEqual(used, options)

    def test_every_library_of_the_build_is_required(self):
        fetched = set(re.findall(r"(?m)^\s*stepfuse_fetch(?:_headers)?\((\w+)", BUILD)) - {"name"}
        self.assertEqual({name for name in fetched if "$" not in name}, set(LIBRARIES))
        self.assertEqual(set(re.findall(r'self\.requires\("(\w+)/', CONAN)), {conan for conan, _ in LIBRARIES.values()})
        tool = names(MANIFEST["features"]["tool"]["dependencies"])
        self.assertEqual(tool, {"cli11"})
        self.assertEqual(names(MANIFEST["dependencies"]) | tool, {port for _, port in LIBRARIES.values()} | {"vcpkg-cmake", "vcpkg-cmake-config"})

    def test_the_recipe_exports_what_the_build_reads(self):
        recipe = next(node for node in ast.parse(CONAN).body if isinstance(node, ast.ClassDef))
        exported = next(ast.literal_eval(node.value) for node in recipe.body
                        if isinstance(node, ast.Assign) and node.targets[0].id == "exports_sources")
        for pattern in exported:
            self.assertTrue(list(SOURCE.glob(pattern)), pattern)
        text = (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8")
        folders = {name.split("/")[0] for name in re.findall(r"add_subdirectory\(([\w/]+)\)", text)} - {"tests", "python"}
        self.assertLessEqual({folder + "/*" for folder in folders}, set(exported))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
