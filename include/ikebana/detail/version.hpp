#pragma once
// Defines the version of the library. CMakeLists.txt and conanfile.py read it from here.

#define IKEBANA_VERSION_MAJOR 0
#define IKEBANA_VERSION_MINOR 1
#define IKEBANA_VERSION_PATCH 0

/// IKEBANA_VERSION is the version as one number, for comparisons: `#if IKEBANA_VERSION >= 200 //
/// 0.2.0`.
#define IKEBANA_VERSION \
  (IKEBANA_VERSION_MAJOR * 10000 + IKEBANA_VERSION_MINOR * 100 + IKEBANA_VERSION_PATCH)
