"""The Conan 2 package: `conan create .` packs the headers and tries them by test_package."""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class Ikebana(ConanFile):
    name = "ikebana"
    license = "BSD-3-Clause"
    description = "One type is a training strategy for LibTorch"
    package_type = "header-library"
    # No requirement names LibTorch or Boost, and no setting C++20: ikebanaConfig.cmake finds the
    # two where the package is used (so also the Boost of a graph that has one) and asks for C++20.
    settings = "os", "arch", "compiler", "build_type"
    exports = "include/ikebana/detail/version.hpp"
    exports_sources = "CMakeLists.txt", "cmake/*", "include/*", "scripts/*", "LICENSE"
    no_copy_source = True

    def set_version(self):
        header = Path(self.recipe_folder) / "include" / "ikebana" / "detail" / "version.hpp"
        numbers = re.findall(r"define IKEBANA_VERSION_\w+ (\d+)", header.read_text())
        self.version = ".".join(numbers)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["IKEBANA_BUILD_TESTS"] = False
        toolchain.cache_variables["IKEBANA_BUILD_EXAMPLES"] = False
        toolchain.user_presets_path = False
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/ikebana"]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
