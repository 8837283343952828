"""Lets a PyTorch that was built for CUDA start without CUDA's libraries, which take gigabytes; knows its wheel, nm and cc.

The Python with that torch runs it. For each missing library it puts an empty one next to torch's own libraries. All of
them need one library whose functions report that there is no device.
"""

import importlib.util
import pathlib
import re
import subprocess
import sys

ABSENT = "libcuda_absent.so"
NO_DEVICE = 100  # cudaErrorNoDevice and CUDA_ERROR_NO_DEVICE


def said(*command: object) -> str:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def link(path: pathlib.Path, *sources: str, text: str = "") -> None:
    subprocess.run(["cc", "-shared", "-nostdlib", "-Wl,--no-as-needed", f"-Wl,-soname,{path.name}", "-o", str(path), *sources],
                   input=text, text=True, check=True)


def main() -> None:
    torch = importlib.util.find_spec("torch")
    if torch is None:
        sys.exit(f"{sys.executable} has no torch")
    folder = pathlib.Path(torch.origin).parent / "lib"
    own = [file for file in folder.glob("*.so*") if file.name != ABSENT]
    needed, wanted, defined = set(), set(), set()
    for file in own:
        needed |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", said("readelf", "-dW", file)))
        wanted |= set(re.findall(r" U ((?:_*cu|nv|nccl)\w*)", said("nm", "-D", "--undefined-only", file)))
        defined |= set(re.findall(r" [A-Za-z] (\w+)", said("nm", "-D", "--defined-only", file)))
    here = {file.name for file in own}
    known = said("ldconfig", "-p")
    missing = [name for name in needed if name not in here and f"\t{name} " not in known]
    functions = "".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in sorted(wanted - defined))
    link(folder / ABSENT, "-fPIC", "-x", "c", "-", text=functions)
    for name in missing:
        link(folder / name, "-x", "c", "/dev/null", "-x", "none", str(folder / ABSENT))


if __name__ == "__main__":
    main()
