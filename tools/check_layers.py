#!/usr/bin/env python3
"""Checks what no compiler does: who includes whom, file sizes, opening sentences, and retired words.

    tools/check_layers.py [FILE...]      checks all sources if no file is named

Exit code 1 and one line per fault, each saying what to do about it.
"""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Each folder with the folders that it may include. Only tests include tests/.
MAY_INCLUDE = {
    "ir": {"ir"},
    "compiler": {"ir", "compiler"},
    "runtime": {"ir", "compiler", "runtime"},
    "tools": {"ir", "compiler", "runtime", "tools"},
    "python": {"python"},
    "samples": {"tools", "samples"},
    "tests": {"ir", "compiler", "runtime", "tools", "samples", "tests"},
}
# Libraries of their own inside of a layer: they include nothing but themselves, and only tests them.
LIBRARIES = ("tools/ptx_machine/",)
# The compiler's folders, and what of the project each includes besides itself: files, or folders with all
# that they hold. A file belongs to the longest row that its path begins with. Who knows a Schedule is
# in the rows that name it; below it everybody reads the plan.
IR = ("ir/", "stepfuse/")
PLAN = ("compiler/plan/plan.hpp", "compiler/plan/traffic.hpp", "compiler/plan/arg_layout.hpp")
EMITTER = ("compiler/plan/plan.hpp", "compiler/plan/expansions.hpp", "compiler/abi.hpp", "compiler/embedded.hpp",
           "compiler/names.hpp", "compiler/spelling.hpp", "compiler/text.hpp", "ir/semantics/random.hpp",
           "ir/semantics/reduction.hpp", "ir/text/words.hpp", "stepfuse/error.hpp", "stepfuse/ops.hpp", "stepfuse/types.hpp")
SHOWN = (*IR, *PLAN, "compiler/abi.hpp", "compiler/signature.hpp", "compiler/variant.hpp",
         "compiler/passes/pass_manager.hpp", "compiler/cuda/emit.hpp", "compiler/cuda/options.hpp",
         "compiler/llvm/emit.hpp", "compiler/c/emit.hpp")
MACHINE = ("runtime/caches/", "runtime/device/", "runtime/files/", "runtime/process/", "runtime/tables/",
           "runtime/saved/reproducer.hpp")
ROOMS = {
    "ir/program/": ("stepfuse/", "ir/semantics/", "ir/text/printable.hpp", "ir/text/words.hpp"),
    "ir/text/": ("stepfuse/", "ir/program/", "ir/semantics/", "ir/formula/"),
    "ir/semantics/": ("stepfuse/", "ir/formats/code_table.hpp"),
    "ir/formats/": ("stepfuse/", "ir/program/", "ir/semantics/", "ir/formula/", "ir/text/near_names.hpp", "ir/text/words.hpp"),
    "ir/formula/": IR,
    "ir/recipes/": IR,
    "compiler/passes/": (*IR, "compiler/signature.hpp"),
    "compiler/schedule/": (*IR, "compiler/levels.hpp", "compiler/signature.hpp", "compiler/names.hpp"),
    "compiler/plan/": (*IR, "compiler/abi.hpp", "compiler/levels.hpp", "compiler/names.hpp"),
    "compiler/plan/expansions.": (*IR, "compiler/plan/plan.hpp", "compiler/embedded.hpp", "compiler/names.hpp", "compiler/text.hpp"),
    "compiler/plan/lower.": (*IR, *PLAN, "compiler/plan/lines.hpp", "compiler/abi.hpp", "compiler/names.hpp", "compiler/schedule/"),
    "compiler/variant.": (*IR, *PLAN, "compiler/signature.hpp", "compiler/plan/lower.hpp"),
    "compiler/cuda/": EMITTER,
    "compiler/llvm/": EMITTER,
    "compiler/c/": EMITTER,
    "runtime/": SHOWN,
    # The folders in the order of their dependencies: process and files know no step; tables and caches know the compiled
    # step; backends run it; step joins them all; saved, ranks and the C API use the step.
    "runtime/process/": IR,
    "runtime/files/": IR,
    "runtime/tables/": (*SHOWN, "runtime/device/device_memory.hpp", "runtime/process/"),
    "runtime/caches/": (*SHOWN, "runtime/files/", "runtime/process/"),
    "runtime/cpu/": (*SHOWN, *MACHINE),
    "runtime/cuda/": (*SHOWN, *MACHINE),
    "runtime/device/": (*SHOWN, *MACHINE, "runtime/cpu/", "runtime/cuda/"),
    "runtime/step/": (*SHOWN, *MACHINE, "runtime/cpu/", "runtime/cuda/", "runtime/saved/record.hpp"),
    "runtime/saved/": (*SHOWN, *MACHINE, "runtime/step/"),
    "runtime/ranks/": (*SHOWN, "runtime/process/", "runtime/step/"),
    "runtime/c_api/": (*SHOWN, "runtime/step/"),
    "tools/": (*SHOWN, "runtime/"),
    "tools/cli/dump.cpp": (*SHOWN, "runtime/", "tools/", "compiler/schedule/schedule.hpp"),
    "tools/explore/stages.cpp": (*SHOWN, "runtime/", "tools/", "compiler/schedule/schedule.hpp"),
}
SHARED = ("support/", "source_dir.hpp")  # by the folders of tests/
PUBLIC = "stepfuse/"  # the public headers, <stepfuse/...>, stand in <layer>/include/ of three layers
LAYERS = ("ir", "compiler", "runtime")
STRANGERS = "consumer"  # a folder of somebody else's projects: their includes are theirs
EXCEPTIONS = {  # (file, what it includes)
    # The memory's speed is measured on the very threads that the steps run on.
    ("samples/fused_vs_unfused/stream.hpp", "runtime/cpu/cpu_executor.hpp"),
}

# Headers with which ir and compiler could reach a machine. They are pure functions of their input.
MACHINE_HEADERS = re.compile(
    r"(fstream|iostream|filesystem|chrono|ctime|thread|mutex|shared_mutex|condition_variable|future"
    r"|random|unistd\.h|dlfcn\.h|stdio\.h|cstdio|sys/.*|pthread\.h|cuda.*|nvrtc.*|llvm.*|tbb/.*"
    r"|oneapi/.*|xxhash\.h|CLI/.*|nlohmann/.*|fmt/os\.h)$"
)
MACHINE_CALLS = re.compile(r"\b(getenv|secure_getenv|std::system|fopen|dlopen)\s*\(")

ACYCLIC_PACKAGES = ("python/stepfuse/torch",)
LLVM_USERS_MAX = 1  # files that may include llvm-c/, so that a change of LLVM is a change of one file
LINES_MAX = 800
# Files that may be longer, and why each is one concept all the same.
LONG_FILES = {
    "runtime/include/stepfuse/stepfuse.h": "C has one header, and the C API is one concept",
}
FILETESTS = "tests/filetests/*/*"  # texts of plans and kernels, too, which have comments of their own
FILETEST_LINES_MAX = 5000  # in all, so that the differences are read
SENTENCE_MIN = 20  # characters of the opening comment

CXX = {".cpp", ".hpp", ".c", ".h", ".cuh", ".def"}
HASH = {".sh", ".cmake"}
TESTS_FILE = re.compile(r"tests/[\w./-]+")

# Words that the style guide retires (CONTRIBUTING.md), and what to write instead.
RETIRED = {
    r"\banew\b": "again",
    r"\bto the bit\b": "bit for bit",
    r"\bequal bits\b": "bit-identical",
    r"\bby chance\b": "stochastically",
    r"\b[Ss]hall\b": "should, must",
    r"\bin the place of\b": "instead of",
    r"\bwhat (it|they) lacks?\b": "the missing",
    r"\b(is|are) of\b": "has, belongs to, per",
    r"\bof which\b": "a sentence of its own",
    r"(?<![Tt]here )\b(is|are) none\b": "is not",
    r"\bso many\b": "a number with a name",
    r"\b(struct|class) (Kept|Place)\b": "a name that says what is kept or placed",
}
# Habits that make prose hard to read: in pages, and in the comments and messages of all code but tests.
HABITS = {
    r"\b[Bb]eside\b": "next to, compared with",
    r"\b(go|goes|going|went) on\b": "continue",
    r"\bwhat (is|are) not \w": "a noun with its property, as in 'values other than 0'",
    r"\b(rounded|stored|kept|written|read|made|done|scaled) so\b(?! far\b)": "this way",
    r"\b(in|by|of|with) another (way|order|form|kind|type|dtype|version|rule|result)\b": "different",
    r"(?<![Tt]here )\b(is|are) no (?!longer|more|less|better|worse|different|such)": "is not a",
    r"(?:^|[.;:] )Of (?!course\b)": "a sentence that begins with its subject",
    r"\b(bytes?|bits|instructions|registers|KiB|launches|cycles|kernels?|[mnu]s) an?"
    r" (parameter|element|step|row|block|multiprocessor|tensor|call|second|chunk|group|turn|rank|thread)\b": "per",
}
COLUMNS_MAX = 120
SENTENCE_MAX = 40  # words
LONG_SHARE_MAX = 0.03  # of a page's sentences may be longer
# A comment or docstring that begins with one of these words is rarely a sentence.
FRAGMENT = re.compile(r'^\s*((?://|#|;)+/? ?|""")(Of|What|Those|Such|So many|Whose|With which|In whose|To each|Who|Where) ')
COMMENT = re.compile(r"^\s*(//|#|;)")
PROSE = {".cpp", ".hpp", ".c", ".h", ".cuh", ".def", ".sh", ".cmake", ".py", ".md", ".opt", ".sf"}
QUOTES = ("check_layers.py", "house_test.py", "combinations.md")  # files that quote retired words
QUOTED = '| "'  # begins a row of the style guide's table of words
INCLUDE = re.compile(r"^\s*#\s*include\s*([<\"])([^>\"]+)[>\"]")


def sources():
    for folder in MAY_INCLUDE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and (path.suffix in CXX | HASH | {".py"} or path.name == "CMakeLists.txt"):
                yield path


def opening_comment(path, lines):
    """The text of the comment on the first line (the second, after a #!), or an empty string."""
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    first = lines[0] if lines else ""
    if path.suffix in CXX:
        marks = ("//",)
    elif path.suffix == ".py":
        marks = ('"""', "#")
    else:
        marks = ("#",)
    for mark in marks:
        if first.startswith(mark):
            return first.removeprefix(mark).strip('/"# ')
    return ""


def public_name(target):
    """How <layer>/NAME or <layer>/recipes/NAME is included where NAME is a public header of that layer."""
    layer, _, name = target.partition("/")
    public = PUBLIC + name.rpartition("/")[2]
    moved = layer in LAYERS and not (ROOT / target).exists() and (ROOT / layer / "include" / public).exists()
    return public if moved else None


def check_include(layer, quote, target, at):
    """Yields what is wrong with one #include."""
    top = target.split("/")[0]
    for room in LIBRARIES:
        inside, own = at.startswith(room), target.startswith(room)
        if inside and not own and (quote == '"' or target.startswith(PUBLIC)):
            yield f'{at}: {room} is a library of its own; it may not include "{target}"'
            return
        if own and not inside and layer != "tests":
            yield f'{at}: {layer}/ may not include "{target}": only tests may use {room}'
            return
    room = max((r for r in ROOMS if at.startswith(r)), key=len, default=None)
    ours = quote == '"' or target.startswith(PUBLIC)
    if quote == '"' and top not in MAY_INCLUDE:
        yield f'{at}: write "{target}" from the repository root, as in #include "ir/program/types.hpp"'
    elif quote == '"' and top not in MAY_INCLUDE[layer]:
        allowed = ", ".join(sorted(MAY_INCLUDE[layer]))
        yield (f'{at}: {layer}/ may not include "{target}"; it knows only {allowed}.'
               " Move the code to the layer that knows both, or pass the value in")
    elif top == "tests" and not target[6:].startswith((*SHARED, at.split("/")[1] + "/")):
        yield f'{at}: tests of one folder may not include "{target}"; what several need stands in tests/support/'
    elif room and ours and not target.startswith((room, *ROOMS[room])):
        yield (f'{at}: {room} may not include "{target}"; of others it knows {", ".join(ROOMS[room])}.'
               " What several need is computed once, left of them all, and stands in the plan")
    elif quote == '"' and (public := public_name(target)):
        yield f"{at}: write <{public}>: it is a public header"
    elif quote == "<" and target.startswith(PUBLIC) and layer in LAYERS:
        owner = next((o for o in LAYERS if (ROOT / o / "include" / target).exists()), None)
        if owner not in MAY_INCLUDE[layer]:
            yield f"{at}: {layer}/ may not include <{target}>: that belongs to {owner}/, which {layer}/ does not know"
    elif quote == "<" and layer in ("ir", "compiler") and MACHINE_HEADERS.match(target):
        yield f"{at}: {layer}/ may not include <{target}>: it does no I/O and touches no machine; runtime/ does"


def check_file(path):
    where = path.relative_to(ROOT)
    layer = where.parts[0]
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if len(lines) > LINES_MAX and str(where) not in LONG_FILES:
        yield (f"{where}: {len(lines)} lines; above {LINES_MAX} a file needs a reason. Split it by concept,"
               " or add it with its reason to LONG_FILES in tools/check_layers.py")
    if len(lines) <= LINES_MAX and str(where) in LONG_FILES:
        yield f"{where}: {len(lines)} lines need no reason: take the file out of LONG_FILES in tools/check_layers.py"
    if lines and len(opening_comment(path, lines)) < SENTENCE_MIN:
        yield f"{where}:1: open the file with a one-sentence comment: what it is and what it knows"
    if path.suffix == ".py":
        yield from check_python(path, layer, lines)
    if path.suffix not in CXX:
        return
    for number, line in enumerate(lines, start=1):
        at = f"{where}:{number}"
        if found := INCLUDE.match(line):
            if path.suffix == ".cuh":
                yield f"{at}: kernel text has no #include: NVRTC compiles it without any header"
            elif (str(where), found[2]) not in EXCEPTIONS and STRANGERS not in where.parts:
                yield from check_include(layer, *found.groups(), at)
        elif layer in ("ir", "compiler") and MACHINE_CALLS.search(line.split("//")[0]):
            yield f"{at}: {layer}/ may not ask the machine; take the value as a parameter"


def check_python(path, layer, lines):
    """Yields where a script takes a file of tests/: by a path made of strings, or by a module's name."""
    if layer == "tests":
        return
    modules, where = {p.stem for p in ROOT.glob("tests/**/*.py")}, path.relative_to(ROOT)
    what = "may not use a file of tests/, which know everything and are known to nobody; move what both need to tools/"
    for node in ast.walk(ast.parse("\n".join(lines))):
        at = f"{where}:{getattr(node, 'lineno', 0)}"
        joined = isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) and node.right.value == "tests"
        if joined or (isinstance(node, ast.Constant) and TESTS_FILE.fullmatch(str(node.value))):
            yield f"{at}: {layer}/ {what}"
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            for name in names:
                if name.split(".")[0] in modules | {"tests"}:
                    yield f"{at}: {layer}/ {what}: '{name}'"


def check_circles(package):
    """Modules of a Python package that import each other in a circle, in functions and for types included."""
    known = {}
    for path in sorted((ROOT / package).glob("*.py")):
        found = known[path.stem] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                found |= {node.module} if node.module else {alias.name for alias in node.names}
    while leaves := {name for name, imports in known.items() if not imports & known.keys()}:
        known = {name: imports for name, imports in known.items() if name not in leaves}
    # Modules that only import a circle are in none: remove modules that no remaining one imports.
    while roots := known.keys() - set().union(*known.values()):
        known = {name: imports for name, imports in known.items() if name not in roots}
    if known:
        yield (f"{package}: {', '.join(sorted(known))} import each other in a circle; move what both sides need into a module below them, "
               "or name what one reads of the other in a Protocol (owner.py)")


def check_llvm_users(paths):
    """LLVM's API changes with every version, so only so many files may know it."""
    users = []
    for path in paths:
        if path.suffix in CXX:
            matches = map(INCLUDE.match, path.read_text(encoding="utf-8").splitlines())
            if any(found and found[2].startswith("llvm-c/") for found in matches):
                users.append(str(path.relative_to(ROOT)))
    if len(users) > LLVM_USERS_MAX:
        yield (f"llvm-c/ is included by {', '.join(users)}; at most {LLVM_USERS_MAX} may:"
               " go through the header of the one that has it")


def check_filetests():
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in ROOT.glob(FILETESTS) if path.is_file())
    if lines > FILETEST_LINES_MAX:
        yield f"{FILETESTS}: {lines} lines; the cap is {FILETEST_LINES_MAX}. Make steps smaller, or leave out what another file shows"


def texts():
    """All files whose prose is checked."""
    for folder in (*MAY_INCLUDE, "docs", "cmake"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and (path.suffix in PROSE or path.name == "CMakeLists.txt"):
                yield path
    yield from sorted(ROOT.glob("*.md"))


def prose_of(path):
    """Yields the faults of one file: its line, and a remedy."""
    where = str(path.relative_to(ROOT))
    is_page, is_test = path.suffix == ".md", where.startswith("tests/")
    words = RETIRED if is_page or is_test else {**RETIRED, **HABITS}  # check_pages() finds the habits of pages
    any_word = re.compile("|".join(f"(?:{word})" for word in words))
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        found = FRAGMENT.match(line)
        if found and not is_page and not (is_test and found[1] == '"""'):  # in a page it is a heading
            yield number, f"the text begins with '{found[2]}': write a sentence with subject and verb"
        if len(line) > COLUMNS_MAX and COMMENT.match(line) and not is_page and not path.match(FILETESTS):
            yield number, f"{len(line)} columns; wrap comments at {COLUMNS_MAX}"
        if line.startswith(QUOTED) or not any_word.search(line):
            continue
        for word, instead in words.items():
            if found := re.search(word, line):
                yield number, f"'{found[0].strip()}' is a retired word: write {instead}"


def prose_lines(text):
    """The numbered lines of a page outside of fenced code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            yield number, line


def sentences(text):
    """The sentences of a page outside of code, tables and headings; a code span and a link's target count as no words."""
    paragraphs = [""]
    for _, line in prose_lines(text):
        line = line.strip()
        if not line or line.startswith(("|", "#", "<!--")):
            paragraphs.append("")
        elif start := re.match(r"(?:[-*>]|\d+\.) ", line):
            paragraphs.append(line[start.end():])
        else:
            paragraphs[-1] += " " + line
    for paragraph in paragraphs:
        plain = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", paragraph))
        yield from (s for s in re.split(r"(?<=[.!?])[)\"*]* +", plain) if s.strip())


def check_pages(paths):
    """Yields the faults of Markdown pages: long lines, long sentences, and habits that make prose hard to read."""
    for path in paths:
        if path.suffix != ".md":
            continue
        where = path.relative_to(ROOT)
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), start=1):
            if len(line) > COLUMNS_MAX and not line.lstrip().startswith("|"):
                yield f"{where}:{number}: {len(line)} columns; wrap at {COLUMNS_MAX}"
        for number, line in prose_lines(text) if path.name not in QUOTES else ():
            for habit, instead in HABITS.items() if not line.startswith(QUOTED) else ():
                if found := re.search(habit, re.sub(r"`[^`]*`", "code", line)):
                    yield f"{where}:{number}: '{found[0].strip()}' is hard to read: write {instead}"
        every = list(sentences(text))
        long = [s.strip() for s in every if len(s.split()) > SENTENCE_MAX]
        if len(long) > LONG_SHARE_MAX * len(every):
            yield (f"{where}: {len(long)} of {len(every)} sentences have more than {SENTENCE_MAX} words; split '{long[0][:60]} …'")


def check_prose(paths):
    for path in paths:
        if path.name not in QUOTES:
            yield from (f"{path.relative_to(ROOT)}:{number}: {what}" for number, what in prose_of(path))


def faults_of(paths, prose=()):
    faults = [fault for path in paths for fault in check_file(path)]
    faults += [fault for package in ACYCLIC_PACKAGES for fault in check_circles(package)]
    return faults + list(check_llvm_users(paths)) + list(check_filetests()) + list(check_prose(prose)) + list(check_pages(prose))


def main():
    paths = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    faults = faults_of(paths, paths) if paths else faults_of(list(sources()), list(texts()))
    paths = paths or list(sources())
    print("\n".join(faults) if faults else f"check_layers: {len(paths)} files in order")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
