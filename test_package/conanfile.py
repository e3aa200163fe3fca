"""Builds main.cpp against the package and runs it.

LibTorch is found as in ikebana's LibTorch.cmake: by IKEBANA_LIBTORCH or CMAKE_PREFIX_PATH of the
environment, or -c tools.cmake.cmaketoolchain:extra_variables="{'IKEBANA_LIBTORCH': '<folder>'}".
"""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class TestPackage(ConanFile):
    settings = "os", "arch", "compiler", "build_type"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        package = self.dependencies["ikebana"]
        toolchain.cache_variables["COMPILED"] = not package.options.header_only
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(os.path.join(self.cpp.build.bindir, "app"), env="conanrun")
