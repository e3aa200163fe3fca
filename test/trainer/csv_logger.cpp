// CSVLogger: what it writes is read back, and what it cannot write is an error.
#include "test.hpp"

#include <filesystem>
#include <ikebana/fit/csv_logger.hpp>
#include <sstream>

using namespace ikebana;

namespace test::csv_logger {

/// A path that no other test uses, removed at the end.
struct Path {
  explicit Path(const std::string& name)
      : text(std::filesystem::temp_directory_path() /
             ("csv_logger_" + std::to_string(getpid()) + "_" + name)) {}
  ~Path() { std::filesystem::remove(text); }
  std::string read() const {
    std::ostringstream all;
    all << std::ifstream(text).rdbuf();
    return all.str();
  }
  std::string text;
};
Report report(std::int64_t step) {
  Report r;
  r.step = step, r.learning_rate = 1e-3, r.seconds = 0.25;
  r.value.parts.push_back({{"", at::scalar_tensor(0.1f + float(step)), 1}});
  return r;
}

TEST_CASE("csv: a step is a line, written at once, with the columns that the report has") {
  Path path("steps");
  CSVLogger log(path.text), copy = log;
  log(report(0));
  CHECK(path.read() == "step,loss,lr,skipped,seconds\n0,0.10000000149011612,0.001,0,0.25\n");
  copy(report(1));
  CHECK(test::contains(path.read(), "\n1,1.100000023841858,0.001,0,0.25\n"));

  Path other("all");
  Report all = report(12345678);
  all.value.parts.clear();
  all.value.parts.push_back({{"policy", at::scalar_tensor(3.f), 2}});
  all.value.parts.push_back({{"a, \"b\"", at::scalar_tensor(1.f), 2, -2}});
  all.norm = at::scalar_tensor(2.f), all.found_inf = at::scalar_tensor(1.f);
  all.peak_bytes = 9007199254740991;
  CSVLogger full(other.text);
  full(all);
  CHECK(other.read() ==
        "step,loss,policy,\"a, \"\"b\"\"\",lr,grad_norm,peak_bytes,skipped,seconds\n"
        "12345678,0.5,1.5,0.5,0.001,2,9007199254740991,1,0.25\n");
}

TEST_CASE("csv: an epoch is a line, with its validation") {
  Path path("epochs");
  CSVLogger log(path.text);
  Epoch epoch{.epoch = 2, .steps = 10, .loss = 0.5, .seconds = 1.5, .validation = {}};
  epoch.validation = Evaluation{.loss = 0.75, .count = 8, .metrics = {{"accuracy", 0.25}}};
  log(epoch);
  CHECK(path.read() == "epoch,steps,loss,seconds,val_loss,val_accuracy\n2,10,0.5,1.5,0.75,0.25\n");
}

TEST_CASE("csv: every number reads back to the bit") {
  Path path("numbers");
  CSVLogger log(path.text);
  torch::manual_seed(0);
  std::vector<double> numbers = {0, -0.0, 1.0 / 3, 1e-310, 1.7976931348623157e308, -1e15};
  for (int i = 0; i < 1000; ++i)
    numbers.push_back(at::randn({}, at::kDouble).item<double>() * std::pow(10, i % 40 - 20));
  for (double number : numbers) log({{"number", number}});
  std::ifstream file(path.text);
  std::string line;
  std::getline(file, line);
  for (double number : numbers) {
    REQUIRE(std::getline(file, line));
    double back = std::strtod(line.c_str(), nullptr);
    CHECK(std::memcmp(&back, &number, sizeof back) == 0);
  }
}

TEST_CASE("csv: other columns, and a file that cannot be written, are errors") {
  Path path("errors");
  CSVLogger log(path.text);
  log(report(0));
  std::string said = test::message_of<Error>([&] { log({{"kl", 0.5}}); });
  CHECK(test::contains(said, "has the columns step,loss,lr,skipped,seconds"));
  CHECK(test::contains(said, "this row has kl"));
  CHECK_NOTHROW(log(report(1)));
  CHECK(test::contains(test::message_of<Error>([&] { CSVLogger("/no/such/folder/log.csv"); }),
                       "cannot write to `/no/such/folder/log.csv`"));
  CHECK(test::contains(test::message_of<FileFailed>([&] { CSVLogger("/dev/full"); }),
                       "`/dev/full`: it is a pipe, a socket or a device. Name a regular file."));
}

}  // namespace test::csv_logger
