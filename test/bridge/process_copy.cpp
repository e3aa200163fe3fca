// Tests a copy of the process in which something is tried.
#include "test.hpp"

#include <filesystem>
#include <fstream>
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

TEST_CASE("process copy: has no files, and keeps no connection open") {
  const std::string path = "process_copy_" + std::to_string(::getpid());
  std::ofstream file(path);
  file << "here" << std::flush;
  const auto written = in_process_copy([&] {
    file << "there" << std::flush;
    std::ofstream own(path + "_of_copy");  // a file that it opens itself, and no other one gets
    file << "there" << std::flush;
    own << "there";
    return std::string(file.good() && own.good() ? "written" : "failed");
  });
  CHECK(written == "written");
  file.close();
  CHECK(std::filesystem::file_size(path) == 4);
  CHECK(std::filesystem::file_size(path + "_of_copy") <= 5);
  std::filesystem::remove(path), std::filesystem::remove(path + "_of_copy");

  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ikebana::detail::ProcessCopy copy;
  REQUIRE(copy.start([&]() -> std::string {
    ::usleep(60'000'000);
    return {};
  }));
  ::close(ends[1]);
  pollfd end{ends[0], POLLIN, 0};
  CHECK(::poll(&end, 1, 10'000) == 1);  // and not when the copy ends
  CHECK((end.revents & POLLHUP) != 0);
  ::close(ends[0]);
}

}  // namespace test::process_copy
