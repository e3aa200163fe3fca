// A copy of the process in which something is tried.
#include "test.hpp"

#include <ikebana/error.hpp>
#include <ikebana/posix/process_copy.hpp>
#include <thread>

namespace test::process_copy {

using ikebana::detail::in_process_copy;

TEST_CASE("process copy: returns what a function returns there, and changes nothing here") {
  int changed = 1;
  const std::string long_text(1 << 20, 'x');
  CHECK(in_process_copy([&] { return ++changed, long_text + std::to_string(changed); }) ==
        long_text + "2");
  CHECK(changed == 1);
  CHECK(in_process_copy([] { return std::string(); }) == "");
  CHECK_FALSE(in_process_copy([]() -> std::string { throw ikebana::Error("no"); }));
  CHECK_FALSE(in_process_copy([]() -> std::string { std::abort(); }));
  CHECK_FALSE(in_process_copy([]() -> std::string { std::_Exit(0); }));
}

TEST_CASE("process copy: one that does not end is killed") {
  ikebana::detail::ProcessCopy copy;
  REQUIRE(copy.start([]() -> std::string {
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }));
  CHECK_FALSE(copy.result(std::chrono::milliseconds(50)));
}

}  // namespace test::process_copy
