// Runs the cases one after the other and prints a line when a case begins and one when it ends, so
// that run.py knows in which case a program died. Exits with 3 if the device is unusable after a
// case: the others need a new process.
#define DOCTEST_CONFIG_IMPLEMENT
#include "device.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "cuda.hpp"
#include "listener.hpp"

namespace {

std::string why_not_run;
bool device_erred = false;

void print(const char* what, const std::string& text) {
  std::printf("%s: %s\n", what, text.c_str());
  std::fflush(stdout);
}

struct Lines : test::Listener {
  const doctest::TestCaseData* current = nullptr;

  explicit Lines(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData& data) override {
    current = &data;
    why_not_run.clear();
    print("begin", data.m_name);
  }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    const std::string name = current->m_name;
    const bool usable = gpu::is_usable();
    const auto errors = gpu::take_errors();
    for (const auto& error : errors) std::printf("%s: %s\n", name.c_str(), error.c_str());
    device_erred = device_erred || !errors.empty();
    if (!stats.testCaseSuccess || !usable || !errors.empty()) print("failed", name);
    else if (!why_not_run.empty()) print("not run", name + ": " + why_not_run);
    else print("passed", name);
    if (!usable) std::_Exit(3);
  }
};

REGISTER_LISTENER("lines", 1, Lines);

}  // namespace

void gpu::not_run(const std::string& why) { why_not_run = why; }

int main(int argc, char** argv) {
  // Without it cuBLAS may choose other algorithms in another run; it reads this when it starts.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  try {
    doctest::Context context(argc, argv);
    if (gpu::devices() == 0) {
      std::fprintf(stderr,
                   "test_gpu: there is no CUDA device that this LibTorch can use. Run it where "
                   "nvidia-smi lists one, or set IKEBANA_TEST_DEVICE to cpu or simulated.\n");
      return 2;
    }
    if (gpu::on_cuda()) print("device", gpu::cuda::description(0));
    const int failed = context.run();
    return failed || device_erred;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "test_gpu: %s\n", error.what());
    return 2;
  }
}
