"""What the shared library exports: the functions of the C headers, each with its version, and what the public
C++ headers declare; nothing else.   symbols_test.py SOURCE_DIR LIBRARY"""

import pathlib
import re
import subprocess
import sys

source, library = pathlib.Path(sys.argv[1]), sys.argv[2]
headers = {p: p.read_text() for p in source.glob("*/include/stepfuse/*.h*")}
c_header = "\n".join(text for path, text in headers.items() if path.suffix == ".h")
declarations = re.sub(r"//.*", "", c_header)
inline = set(re.findall(r"static inline [^;{]*?\b(stepfuse_\w+)\(", declarations))  # these are compiled into the caller
declared = set(re.findall(r"\b(stepfuse_\w+)\(", declarations)) - inline
words = set(re.findall(r"\w+", "\n".join(headers.values())))

out = subprocess.run(["nm", "-DC", "--defined-only", library], capture_output=True, text=True, check=True).stdout
symbols = [line.split(maxsplit=2)[1:] for line in out.splitlines()]
faults, of_c, of_cpp = [], set(), set()
for kind, symbol in symbols:
    name, _, version = symbol.partition("@@")
    if kind == "A":  # the versions themselves
        continue
    if name.startswith("stepfuse_"):
        of_c.add(name)
        if version != "STEPFUSE_0.1":
            faults.append(f"{name} has the version '{version}', not the one it came with")
        continue
    plain = re.sub(r"^(typeinfo|typeinfo name|vtable|VTT) for ", "", name)
    path = re.sub(r"\[abi:\w+\]", "", plain.split("(")[0]).split("::")
    of_cpp.add("::".join(path))
    if path[0] != "stepfuse" or version != "STEPFUSE_CXX_0.1":
        faults.append(f"not ours: {symbol}")
    elif {"Impl", "Shared", "Shape"} & set(path):
        faults.append(f"inside of a public class: {symbol}")
    elif unknown := [part for part in path[1:] if not set(re.findall(r"[a-zA-Z]\w*", part)) <= words | {"operator"}]:
        faults.append(f"no public header has {unknown}: {symbol}")
for name in sorted(declared - of_c):
    faults.append(f"a C header declares {name}, which is not exported")
for name in sorted(of_c - declared):
    faults.append(f"{name} is exported, but in no C header")
for name in ("stepfuse::Step::run", "stepfuse::parse", "stepfuse::Error", "stepfuse::save_checkpoint",
             "stepfuse::Monitor::feed", "stepfuse::make_recipe", "stepfuse::use_kernels"):
    if name not in of_cpp:
        faults.append(f"{name} is not exported")
print("\n".join(sorted(of_c | of_cpp)))
print("\n".join(faults) or f"{len(of_c)} C functions and {len(of_cpp)} C++ names, all of them public", file=sys.stderr)
sys.exit(bool(faults))
