"""The Conan 2 package: `conan create .` packs the headers and tries them by test_package; with
`-o header_only=False` also the library of ikebana::compiled, built with the LibTorch that is found.
"""

import os
import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.scm import Version


def libtorch_version(folder):
    """Of the folder that IKEBANA_LIBTORCH names; CMake finds others, whose version is not known."""
    for name in ("headeronly/version.h", "csrc/api/include/torch/version.h"):
        header = Path(folder, "include", "torch", name)
        if folder and header.exists():
            numbers = re.findall(r"define TORCH_VERSION_[MP][A-Z]+ (\d+)", header.read_text())
            return ".".join(numbers[:3])
    return "unknown"


class Ikebana(ConanFile):
    name = "ikebana"
    license = "BSD-3-Clause"
    url = homepage = "https://ikebana.example"
    description = "One type is a training strategy for LibTorch"
    topics = "pytorch", "libtorch", "deep-learning", "training", "header-only"
    # What is built is headers, or a static library too. `libtorch` is the version of LibTorch for
    # which the library is compiled. A LibTorch or Boost of `system` is found where the package is
    # used, as ikebanaConfig.cmake does; one of `conan` is a requirement. A LibTorch of `conan` was
    # not tried: a program must name it as IKEBANA_LIBTORCH, too, and Conan Center's is built
    # without torch.distributed, which `Shard` needs, and oneDNN.
    package_type = "library"
    options = {"shared": [False], "header_only": [True, False], "libtorch": [None, "ANY"],
               "libtorch_from": ["system", "conan"], "boost_from": ["system", "conan"]}
    default_options = {"shared": False, "header_only": True, "libtorch": None,
                       "libtorch_from": "system", "boost_from": "conan",
                       "boost/*:header_only": True, "libtorch/*:shared": True}
    oldest = {"gcc": "11", "clang": "14"}  # which have what ikebana uses of C++20
    settings = "os", "arch", "compiler", "build_type"
    exports = "include/ikebana/detail/version.hpp"
    exports_sources = "CMakeLists.txt", "cmake/*", "include/*", "src/*", "scripts/*", "LICENSE"
    no_copy_source = True

    def set_version(self):
        header = Path(self.recipe_folder) / "include" / "ikebana" / "detail" / "version.hpp"
        numbers = re.findall(r"define IKEBANA_VERSION_\w+ (\d+)", header.read_text())
        self.version = ".".join(numbers)

    def configure(self):
        """The library's package is one of a LibTorch, whose version is an option."""
        of_system = not self.options.header_only and self.options.libtorch_from == "system"
        if of_system and not self.options.libtorch:
            self.options.libtorch = libtorch_version(os.environ.get("IKEBANA_LIBTORCH", ""))

    def requirements(self):
        if self.options.boost_from == "conan":
            self.requires("boost/[>=1.74 <2]", transitive_headers=True)
        if self.options.libtorch_from == "conan":
            self.requires("libtorch/[>=2.8 <3]", transitive_headers=True, transitive_libs=True)

    def validate(self):
        check_min_cppstd(self, 20)
        compiler = str(self.settings.compiler)
        if Version(self.settings.compiler.version) < self.oldest.get(compiler, "0"):
            raise ConanInvalidConfiguration(f"ikebana needs {compiler} {self.oldest[compiler]}")
        if self.settings.os != "Linux" or self.settings.arch != "x86_64":
            raise ConanInvalidConfiguration("ikebana runs on Linux on x86-64 alone")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["IKEBANA_BUILD_TESTS"] = False
        toolchain.cache_variables["IKEBANA_BUILD_EXAMPLES"] = False
        toolchain.cache_variables["IKEBANA_INSTALL_COMPILED"] = not self.options.header_only
        if self.options.libtorch_from == "conan":
            libtorch = self.dependencies["libtorch"].package_folder
            toolchain.cache_variables["IKEBANA_LIBTORCH"] = libtorch
        toolchain.user_presets_path = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        if not self.options.header_only:
            cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")

    def package_id(self):
        if self.info.options.header_only:
            self.info.clear()

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/ikebana"]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = [] if self.options.header_only else ["lib"]
