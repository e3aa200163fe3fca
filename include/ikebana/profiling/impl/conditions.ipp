#pragma once
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/detail/version.hpp>
#include <ikebana/posix/process_use.hpp>
#include <ikebana/profiling/conditions.hpp>
#include <ikebana/state/files/json_writer.hpp>

namespace ikebana::detail {

/// Returns the text after the first colon of the line that begins with `name`, or "".
inline std::string line_in(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name))
      if (const auto begin = line.find_first_not_of(" \t", line.find(':') + 1);
          begin != std::string::npos && line.find(':') != std::string::npos)
        return line.substr(begin);
  return {};
}

inline std::vector<std::string> known_instruction_sets() {
  const std::string flags = " " + line_in("/proc/cpuinfo", "flags") + " ";
  std::vector<std::string> found;
  for (const char* name : {"avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
                           "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"})
    if (flags.find(" " + std::string(name) + " ") != std::string::npos) found.emplace_back(name);
  return found;
}

/// Returns the text after `name` and before the next comma, in a text of lines such as `ATen
/// parallel backend: OpenMP` or items such as `BLAS_INFO=mkl,`.
inline std::string text_after(const std::string& text, const std::string& name) {
  const auto at = text.find(name);
  if (at == std::string::npos) return {};
  const auto begin = at + name.size();
  return text.substr(begin, text.find_first_of(",\n", begin) - begin);
}

inline std::string compiler_text() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#elif defined(__GNUC__)
  return "GCC " __VERSION__;
#else
  return {};
#endif
}

/// Returns the first line that a command of the shell prints, if it succeeds.
inline std::string first_line_of(const char* command) {
  std::FILE* pipe = ::popen(command, "r");
  if (pipe == nullptr) return {};
  std::string line;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
    if (line.empty() || line.back() != '\n') line.push_back(static_cast<char>(c));
  if (::pclose(pipe) != 0) return {};
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

/// Returns whether this thread computes with denormals as zeros.
inline bool flushes_denormals() {
  volatile float smallest = 1e-40F;
  const volatile float sum = smallest * 1.0F;
  return sum == 0;
}

inline std::string utc_text(std::time_t seconds) {
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc));
}

inline std::vector<std::pair<std::string, std::string>> speed_environment() {
  std::vector<std::pair<std::string, std::string>> found;
  for (const char* name : {"OMP_NUM_THREADS",
                           "OMP_WAIT_POLICY",
                           "OMP_PROC_BIND",
                           "OMP_PLACES",
                           "GOMP_SPINCOUNT",
                           "GOMP_CPU_AFFINITY",
                           "KMP_BLOCKTIME",
                           "KMP_AFFINITY",
                           "MKL_NUM_THREADS",
                           "MKL_ENABLE_INSTRUCTIONS",
                           "MKL_CBWR",
                           "ATEN_CPU_CAPABILITY",
                           "ONEDNN_MAX_CPU_ISA",
                           "DNNL_MAX_CPU_ISA",
                           "MALLOC_ARENA_MAX",
                           "MALLOC_TRIM_THRESHOLD_",
                           "LD_PRELOAD",
                           "CUDA_LAUNCH_BLOCKING",
                           "PYTORCH_CUDA_ALLOC_CONF",
                           "NVIDIA_TF32_OVERRIDE"})
    if (const char* value = std::getenv(name)) found.emplace_back(name, escaped(value));
  return found;
}

IKEBANA_INLINE Conditions read_conditions(c10::Device device, BuildFlags flags) {
  Conditions c;
  c.ikebana = std::to_string(IKEBANA_VERSION_MAJOR) + "." + std::to_string(IKEBANA_VERSION_MINOR) +
              "." + std::to_string(IKEBANA_VERSION_PATCH);
  c.libtorch = TORCH_VERSION;
  c.compiler = compiler_text();
  c.is_optimized = flags.is_optimized, c.has_assertions = flags.has_assertions;
  c.processor = line_in("/proc/cpuinfo", "model name");
  c.instruction_sets = known_instruction_sets();
  c.vector_code = at::get_cpu_capability();
  c.cores = usable_cores();
  c.threads = at::get_num_threads(), c.interop_threads = at::get_num_interop_threads();
  c.parallel_backend = text_after(at::get_parallel_info(), "ATen parallel backend: ");
  c.blas = text_after(at::show_config(), "BLAS_INFO=");
  c.flushes_denormals = flushes_denormals();
  c.seed = at::globalContext().defaultGenerator(at::kCPU).current_seed();
  c.device = bridge::with_index(device).str();
  c.revision =
      escaped(first_line_of("git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null"));
  c.time = utc_text(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
  c.environment = speed_environment();
  return c;
}

/// Calls `f(name, value)` for each condition that is known.
template <class F>
void each_condition(const Conditions& c, F f) {
  f("ikebana", c.ikebana), f("libtorch", c.libtorch), f("compiler", c.compiler);
  f("is_optimized", c.is_optimized), f("has_assertions", c.has_assertions);
  f("processor", c.processor), f("instruction_sets", c.instruction_sets);
  f("vector_code", c.vector_code), f("cores", c.cores), f("threads", c.threads);
  f("interop_threads", c.interop_threads), f("parallel_backend", c.parallel_backend);
  f("blas", c.blas), f("flushes_denormals", c.flushes_denormals), f("seed", c.seed);
  f("device", c.device), f("revision", c.revision), f("time", c.time);
}

inline std::string condition_text(const std::string& value) { return value; }
inline std::string condition_text(bool value) { return value ? "yes" : "no"; }
template <std::integral Number>
std::string condition_text(Number value) {
  return std::to_string(value);
}
inline std::string condition_text(const std::vector<std::string>& values) {
  std::string all;
  for (const std::string& one : values) all += (all.empty() ? "" : " ") + one;
  return all;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::string Conditions::json() const {
  detail::JsonWriter json({.spaces = true});
  json.object([&] {
    detail::each_condition(*this, [&](const char* name, const auto& v) { json.member(name, v); });
    json.object("environment", [&] {
      for (const auto& [name, value] : environment) json.member(name, value);
    });
  });
  return std::move(json).text();
}

IKEBANA_INLINE std::string Conditions::table() const {
  std::string text;
  auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) text += detail::left(name, 20) + " " + value + "\n";
  };
  detail::each_condition(
      *this, [&](std::string name, const auto& v) { add(name, detail::condition_text(v)); });
  for (const auto& [name, value] : environment) add(name, value);
  return text;
}

}  // namespace ikebana
