// Contains doctest's main, which prints at the end of a run the names of the cases that failed.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "listener.hpp"

namespace {

/// A program is one test of ctest, whose output must name the cases that failed.
struct FailedCases : test::Listener {
  const doctest::TestCaseData* current = nullptr;
  std::vector<std::string> names;

  explicit FailedCases(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData& data) override { current = &data; }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (!stats.testCaseSuccess) names.push_back(current->m_name);
  }
  void test_run_end(const doctest::TestRunStats&) override {
    for (const std::string& name : names) std::printf("failed: %s\n", name.c_str());
    std::fflush(stdout);
  }
};

REGISTER_LISTENER("failed cases", 1, FailedCases);

}  // namespace
