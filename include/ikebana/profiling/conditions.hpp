#pragma once
// Defines the conditions under which a training was measured.
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ikebana {

/// The conditions on which a measured time depends, beyond the program: versions, the processor,
/// threads. A text that the system does not tell is empty.
struct Conditions {
  std::string ikebana = {};     ///< the version of this library
  std::string libtorch = {};    ///< the version of LibTorch
  std::string compiler = {};    ///< the compiler of the program, with its version
  bool is_optimized = false;    ///< whether the compiler was asked to optimize the program
  bool has_assertions = false;  ///< whether the program was compiled without `NDEBUG`
  std::string processor = {};   ///< the model name of the processor
  /// Its instructions on which LibTorch's speed depends, as Linux names them: `avx2`, `amx_bf16`.
  std::vector<std::string> instruction_sets = {};
  std::string vector_code = {};       ///< the vector code that LibTorch chose: `AVX512`, `DEFAULT`
  std::int64_t cores = 0;             ///< the processors that this process may use, by its affinity
                                      ///< mask and by its control group
  std::int64_t threads = 0;           ///< the threads of one operator
  std::int64_t interop_threads = 0;   ///< the threads that run operators beside each other
  std::string parallel_backend = {};  ///< the library of these threads: `OpenMP`
  std::string blas = {};              ///< the library of matrix products: `mkl`
  bool flushes_denormals = false;     ///< whether this thread computes with denormals as zeros
  std::uint64_t seed = 0;             ///< the seed of LibTorch's default generator on the CPU
  std::string device = "cpu";         ///< the device of the training, as c10::Device::str writes it
  std::string revision = {};          ///< the git revision of the working directory; `-dirty` at
                                      ///< its end if files differ from it
  std::string time = {};              ///< when they were read, in UTC: `2026-05-04T12:30:00Z`
  /// The environment variables that change how fast LibTorch is, as far as they are set.
  std::vector<std::pair<std::string, std::string>> environment = {};

  /// Returns all of them as a JSON object.
  std::string json() const;
  /// Returns all of them as a text for people, one on a line.
  std::string table() const;
};

namespace detail {

/// The way in which the program was compiled. Its members are read where `conditions` is called.
struct BuildFlags {
  bool is_optimized, has_assertions;
};
#ifdef __OPTIMIZE__
#define IKEBANA_IS_OPTIMIZED true
#else
#define IKEBANA_IS_OPTIMIZED false
#endif
#ifdef NDEBUG
#define IKEBANA_HAS_ASSERTIONS false
#else
#define IKEBANA_HAS_ASSERTIONS true
#endif
namespace {
/// The flags of the translation unit that includes this header, so each has its own.
constexpr BuildFlags flags_of_this_file{IKEBANA_IS_OPTIMIZED, IKEBANA_HAS_ASSERTIONS};
}  // namespace
#undef IKEBANA_IS_OPTIMIZED
#undef IKEBANA_HAS_ASSERTIONS

Conditions read_conditions(c10::Device device, BuildFlags flags);

}  // namespace detail

/// Reads the conditions of this process, for a training on this device. Reads a few files of the
/// system, and runs `git` for the revision.
inline Conditions conditions(c10::Device device = at::kCPU,
                             detail::BuildFlags flags = detail::flags_of_this_file) {
  return detail::read_conditions(device, flags);
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/conditions.ipp>
#endif
