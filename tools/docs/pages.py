#!/usr/bin/env python3
"""Collects the pages of the documentation site: the Markdown files as they are, and reference pages made from the sources.

    pages.py TOOL FOLDER      TOOL is the command line tool, whose help becomes pages

docs/README.md is the landing page. Its sections and their links are the navigation.
"""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = {
    "cpp": ("C++ API", ["runtime/include/stepfuse/stepfuse.hpp", "runtime/include/stepfuse/checkpoint.hpp",
                        "runtime/include/stepfuse/monitor.hpp", "runtime/include/stepfuse/ranks.hpp",
                        "ir/include/stepfuse/recipes.hpp", "ir/include/stepfuse/recipe_options.hpp",
                        "ir/include/stepfuse/format.hpp", "ir/include/stepfuse/error.hpp",
                        "ir/include/stepfuse/types.hpp", "ir/include/stepfuse/program.hpp",
                        "ir/include/stepfuse/parser.hpp", "ir/include/stepfuse/printer.hpp",
                        "compiler/include/stepfuse/form.hpp"]),
    "c": ("C API", ["runtime/include/stepfuse/stepfuse.h", "runtime/include/stepfuse/version.h"]),
}
GENERATED = {"command_line": "Command line", "environment": "Environment variables", "cpp": "C++ API", "c": "C API",
             "python": "Python API"}
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")


def markdown_files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], capture_output=True,
                            text=True, check=True)
    names = [n for n in listed.stdout.split() if not n.startswith((".github/", "docs/README.md"))]
    return [n for n in names if (ROOT / n).exists()]


def by_block(text):
    """Yields (piece, whether it is a fenced block)."""
    for number, piece in enumerate(re.split(r"(^```.*?^```$)", text, flags=re.S | re.M)):
        yield piece, number % 2 == 1


class Stage:
    """The folder that Sphinx reads. It has the repository's paths, so that links between pages stay what they are."""

    def __init__(self, folder):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def take(self, name, to=None):
        """Copies a page, with what its links need."""
        text = (ROOT / name).read_text(encoding="utf-8")

        def link(found):
            shown, target = found.groups()
            file, hash_sign, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target) or not file:
                return found[0]
            path = pathlib.Path(os.path.normpath(pathlib.Path(name).parent / file))
            if (ROOT / path).is_dir():
                if not (ROOT / path / "README.md").exists():
                    return shown[1:-1]  # a folder has no page
                path /= "README.md"
            elif not (ROOT / path).exists():
                sys.exit(f"docs: {name}: the link to {target} has no target")
            if str(path) == "docs/README.md":
                path = pathlib.Path("index.md")
            elif path.suffix != ".md":
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, self.folder / path)
            place = pathlib.Path(to or name).parent
            return f"{shown}({os.path.relpath(path, place)}{hash_sign}{anchor})"

        self.write(to or name, "".join(piece if code else LINK.sub(link, piece) for piece, code in by_block(text)))


def command_line(tool):
    def ask(*words):
        return subprocess.run([tool, *words], capture_output=True, text=True, check=True).stdout

    parts = ["# Command line\n\nThis page is `stepfuse help` of every verb. `man stepfuse-VERB` has the same text.\n"]
    verbs = re.findall(r"(?m)^  (\w+) ", re.search(r"(?s)Verbs:\n(.*?)\n\n", ask("-h"))[1])
    for words in (["help"], *(["help", v] for v in verbs), ["help", "recipe-options"]):
        parts.append(f"\n## stepfuse {' '.join(words[1:]) or '--help'}\n\n```text\n{ask(*words)}```\n")
    return "".join(parts)


def environment(tool):
    text = subprocess.run([tool, "help", "environment"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"(?m)^  (\w+)=(\S+)\n((?:        .*\n)+)", text)
    table = "".join(f"| `{name}` | {' or '.join(f'`{v}`' for v in values.split('|'))} | {' '.join(meaning.split())} |\n"
                    for name, values, meaning in rows)
    return ("# Environment variables\n\nThe library and the tool read these. `stepfuse env` shows those that are set.\n\n"
            f"| variable | value | meaning, and what holds without it |\n|---|---|---|\n{table}")


def blocks_of(lines):
    """(comment lines, code lines) of a header: each comment with the declarations that stand under it."""
    comment, code = [], []
    for line in lines:
        bare = line.strip()
        if bare.startswith("//") and not bare.startswith("// ---") and not code:
            comment.append(bare.removeprefix("///" if bare.startswith("///") else "//").removeprefix(" "))
        elif not bare or bare.startswith("// ---"):
            # A blank line ends a declaration, not the body of a class.
            if code and sum(x.count("{") - x.count("}") for x in code) > 0:
                code.append("")
            elif comment or code:
                yield comment, code
                comment, code = [], []
        else:
            code.append(line)
    if comment or code:
        yield comment, code


# Doxygen's commands, and how they read on the page.
COMMANDS = {"@return ": "Returns ", "@throws ": "Throws ", "@thread ": "Threads: "}


def prose(comment):
    """A comment as Markdown. An indented part of it is a program, or continues one of Doxygen's commands."""
    parts, program, command = [], [], False
    for line in [*comment, ""]:
        word = next((w for w in COMMANDS if line.startswith(w)), None)
        if word:
            line = f"\n*{COMMANDS[word].strip()}* {line.removeprefix(word)}"
        command = word is not None or (command and line.startswith("  "))
        if command and word is None:
            line = line.lstrip()
        if line.startswith("  "):
            program.append(line)
            continue
        if program:
            parts.append("\n```cpp\n" + "\n".join(program) + "\n```\n")
            program = []
        parts.append(line if word else re.sub(r"([<>*_\[\]])", r"\\\1", line))
    return "\n".join(parts)


SKIPPED = re.compile(r"\s*(#|namespace |\}  // namespace|extern \"C\")")


def headers(title, names):
    parts = [f"# {title}\n\nMade from the headers. A comment describes the declarations under it.\n"]
    for name in names:
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        parts.append(f"\n## `{name.partition('include/')[2]}`\n\n")
        for comment, code in blocks_of([line for line in lines if not SKIPPED.match(line)]):
            if comment:
                parts.append(prose(comment) + "\n")
            if code and code != ["}"]:  # the end of extern "C"
                parts.append("```cpp\n" + "\n".join(code) + "\n```\n\n")
    return "".join(parts)


def signature(function):
    arguments = ast.unparse(function.args)
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"{function.name}({arguments}){returns}"


def doc(node):
    return re.sub(r"^( *)(Args|Returns|Raises):$", r"\1**\2**\n", ast.get_docstring(node) or "", flags=re.M)


def described(text):
    """A docstring as Markdown: `name: what` under Args is a list."""
    text = re.sub(r"(?m)^    (\w+): ", r"- `\1`: ", text)
    return re.sub(r"(?m)^     +", "  ", text)


def python_api():
    """Classes and functions of stepfuse.torch and what they say of themselves."""
    folder = ROOT / "python" / "stepfuse" / "torch"
    public = ast.literal_eval(re.search(r"(?s)__all__ = (\[.*?\])", (folder / "__init__.py").read_text(encoding="utf-8"))[1]
                              .replace("*built_in.__all__, ", ""))
    found = {}
    for path in sorted([*folder.glob("*.py"), folder / "built_in.pyi"]):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            is_built_in = path.suffix == ".pyi" and isinstance(node, ast.ClassDef)
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and (node.name in public or is_built_in):
                found.setdefault(node.name, node)
    missing = [name for name in public if name not in found]
    if missing:
        sys.exit(f"docs: {', '.join(missing)} of stepfuse.torch: no class and no function of that name was found")
    parts = ["# Python API\n\n`import stepfuse.torch`. Made from the docstrings. The methods of torch.optim's classes are inherited.\n"]
    for name, node in sorted(found.items(), key=lambda item: item[0].lower()):
        if isinstance(node, ast.FunctionDef):
            parts.append(f"\n## {name}\n\n```python\n{signature(node)}\n```\n\n{described(doc(node))}\n")
            continue
        methods = [m for m in node.body if isinstance(m, ast.FunctionDef)]
        init = next((m for m in methods if m.name == "__init__"), None)
        parts.append(f"\n## {name}\n\n")
        if init is not None:
            parts.append(f"```python\n{signature(init).replace('__init__', name, 1).replace('(self, ', '(').removesuffix(' -> None')}\n```\n\n")
        parts.append(described(doc(node)) + "\n")
        for m in methods:
            if not m.name.startswith("_") and doc(m):
                parts.append(f"\n### {name}.{m.name}\n\n```python\n{signature(m)}\n```\n\n{described(doc(m))}\n")
    return "".join(parts)


def navigation(text):
    """Tables of contents: the links of each section of the landing page, in their order."""
    out = []
    for section in re.split(r"(?m)^## ", text)[1:]:
        title, _, body = section.partition("\n")
        pages = [target.partition("#")[0] for _, target in LINK.findall(body) if not re.match(r"[a-z]+:", target)]
        pages = [os.path.normpath(os.path.join("docs", p)).removesuffix(".md") for p in dict.fromkeys(pages) if p.endswith(".md")]
        if title == "Reference":
            pages += [f"reference/{name}" for name in GENERATED]
        if title != "Which door?":
            out.append(f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(pages) + "\n```\n")
    return "".join(out)


def mark_orphans(folder):
    """Pages that only links lead to say so, since Sphinx warns of pages that no table of contents has."""
    listed = set(re.findall(r"(?m)^[\w/.-]+$", (folder / "index.md").read_text(encoding="utf-8")))
    for path in folder.rglob("*.md"):
        name = str(path.relative_to(folder).with_suffix(""))
        if name not in listed and name != "index":
            path.write_text("---\norphan: true\n---\n" + path.read_text(encoding="utf-8"), encoding="utf-8")


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    stage = Stage(folder)
    for name in markdown_files():
        stage.take(name)
    stage.take("docs/README.md", "index.md")
    landing = (folder / "index.md").read_text(encoding="utf-8")
    stage.write("index.md", landing + navigation((ROOT / "docs/README.md").read_text(encoding="utf-8")))
    stage.write("reference/command_line.md", command_line(tool))
    stage.write("reference/environment.md", environment(tool))
    for name, (title, files) in HEADERS.items():
        stage.write(f"reference/{name}.md", headers(title, files))
    stage.write("reference/python.md", python_api())
    mark_orphans(folder)


if __name__ == "__main__":
    main()
