"""The Conan 2 recipe: `conan create .` builds the library, packs it, and builds a project that uses the package."""

import pathlib
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import load, rmdir
from conan.tools.system.package_manager import Apt


class Stepfuse(ConanFile):
    name = "stepfuse"
    description = "JIT kernel fusion for the optimizer step of mixed-precision training"
    license = "Apache-2.0"
    topics = ("optimizer", "mixed precision", "kernel fusion", "jit", "cuda")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "tool": [True, False]}
    default_options = {"shared": False, "tool": True}
    exports_sources = ("CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md", "cmake/*", "compiler/*", "docs/*", "ir/*",
                       "runtime/*", "samples/*", "tools/*")
    test_package_folder = "tests/consumer"

    def set_version(self):
        text = load(self, pathlib.Path(self.recipe_folder) / "CMakeLists.txt")
        self.version = re.search(r"project\(stepfuse VERSION ([0-9.]+)", text).group(1)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("fmt/[>=9.1 <12]")
        self.requires("onetbb/[>=2021.8 <2023]")
        self.requires("nlohmann_json/[>=3.11 <4]", visible=False)
        self.requires("xxhash/[>=0.8.1 <1]", visible=False)
        if self.options.tool:
            self.requires("cli11/[>=2.1 <3]", visible=False)

    def system_requirements(self):
        # LLVM's C headers. The library opens libLLVM when it compiles a kernel.
        Apt(self).install_substitutes(["llvm-19-dev"], ["llvm-20-dev"], ["llvm-21-dev"])

    def validate(self):
        check_min_cppstd(self, 20)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False  # nothing is written into the clone
        toolchain.cache_variables.update({
            "STEPFUSE_TESTS": False,
            "STEPFUSE_SAMPLES": False,
            "STEPFUSE_WERROR": False,
            "STEPFUSE_CLI": bool(self.options.tool),
            "STEPFUSE_LIBRARIES": "shared" if self.options.shared else "static",
        })
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        for folder in ("docs", "samples"):
            rmdir(self, pathlib.Path(self.package_folder) / "share" / "doc" / "stepfuse" / folder)

    def package_info(self):
        # The installed package for CMake is the library's own.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/stepfuse"]
        self.cpp_info.libs = ["stepfuse"]
        self.cpp_info.system_libs = ["dl", "m", "pthread"]
