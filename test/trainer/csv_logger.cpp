// Loggers: what they write is read back, a resumed log goes on, and what cannot be written is an
// error.
#include "test.hpp"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <ikebana/fit/callbacks.hpp>
#include <ikebana/fit/csv_logger.hpp>
#include <ikebana/loggers.hpp>
#include <sstream>

using namespace ikebana;

namespace test::csv_logger {

/// A path that no other test uses, removed at the end.
struct Path {
  explicit Path(const std::string& name)
      : text(std::filesystem::temp_directory_path() /
             ("csv_logger_" + std::to_string(getpid()) + "_" + name)) {}
  ~Path() { std::filesystem::remove(text), std::filesystem::remove(text + ".former"); }
  std::string read(const std::string& suffix = {}) const {
    std::ostringstream all;
    all << std::ifstream(text + suffix).rdbuf();
    return all.str();
  }
  void append(const std::string& more) const { std::ofstream(text, std::ios::app) << more; }
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
  const std::string first =
      "step,loss,lr,count,items_per_second,skipped,seconds\n"
      "0,0.10000000149011612,0.001,1,4,0,0.25\n";
  CHECK(path.read() == first);
  copy(report(1));
  CHECK(path.read() == first + "1,1.100000023841858,0.001,1,4,0,0.25\n");

  Path other("all");
  Report all = report(12345678);
  all.value.parts.clear();
  all.value.parts.push_back({{"policy", at::scalar_tensor(3.f), 2}});
  all.value.parts.push_back({{"a, \"b\"", at::scalar_tensor(1.f), 2, -2}});
  all.norm = at::scalar_tensor(2.f), all.found_inf = at::scalar_tensor(1.f);
  all.peak_bytes = 9007199254740991, all.learning_rates = {0.5, 1e-3};
  all.microbatches = 4, all.undone = 2, all.position = BatchPosition{3, 7};
  all.offloaded = OffloadTraffic{1, 2, 3, 4, 5, 6, 7};
  CSVLogger full(other.text);
  full(all);
  CHECK(
      other.read() ==
      "step,loss,policy,\"a, \"\"b\"\"\",lr,lr.0,lr.1,grad_norm,peak_bytes,microbatches,undone,"
      "offload_activations_out,offload_activations_back,offload_parameters_back,"
      "offload_gradients_out,offload_copies_out,offload_copies_back,offload_peak_stored,"
      "count,items_per_second,skipped,seconds,epoch,batch\n"
      "12345678,0.5,1.5,0.5,0.001,0.5,0.001,2,9007199254740991,4,2,1,2,3,4,5,6,7,2,8,1,0.25,3,7\n");

  all.value.parts[0].name = "lr";
  CHECK(test::contains(test::message_of<Error>([&] { full(all); }),
                       "has the name `lr`, which another column of a log has"));
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
  CHECK(
      test::contains(said, "has the columns step,loss,lr,count,items_per_second,skipped,seconds"));
  CHECK(test::contains(said, "this row has kl"));
  CHECK_NOTHROW(log(report(1)));
  CHECK(test::contains(test::message_of<Error>([&] { CSVLogger("/no/such/folder/log.csv"); }),
                       "cannot write to `/no/such/folder/log.csv`"));
  CHECK(test::contains(test::message_of<FileFailed>([&] { CSVLogger("/dev/full"); }),
                       "`/dev/full`: it is a pipe, a socket or a device. Name a regular file."));
}

TEST_CASE("csv: a new log keeps the rows of an earlier one beside it, and nothing else") {
  Path path("former");
  {
    CSVLogger first(path.text);
    first(report(0));
  }
  const std::string rows = path.read();
  CSVLogger second(path.text);
  CHECK(path.read() == rows);  // until it has a row
  second(report(5));
  CHECK(path.read(".former") == rows);
  CHECK(test::contains(path.read(), "\n5,5.0999999"));
  CSVLogger third(path.text);
  CHECK(test::contains(test::message_of<FileFailed>([&] { third(report(0)); }),
                       "another logger is writing to it"));
  CHECK(path.read(".former") == rows);
}

TEST_CASE("csv: a log is written where a symbolic link points, and the link stays") {
  Path path("target"), link("link");
  std::filesystem::create_symlink(path.text, link.text);
  CSVLogger log(link.text);
  log(report(0));
  CHECK(std::filesystem::is_symlink(link.text));
  CHECK((!std::filesystem::is_symlink(path.text) && path.read() == link.read()));
  CHECK(path.read().size() > 40);
}

TEST_CASE("csv: a resumed log has the rows before the resume, without a torn one") {
  Path path("resumed");
  {
    CSVLogger log(path.text);
    for (int step = 0; step < 5; ++step) log(report(step));
  }
  const std::string all = path.read(), before = all.substr(0, all.find("\n3,") + 1);
  path.append("5,0.1");  // a process was killed while it wrote this
  CSVLogger log(path.text);
  log.begin({.step = 5, .resumed = true});
  CHECK(path.read() == all);
  log.begin({.step = 3, .resumed = true});
  CHECK(path.read() == before);
  log(report(3)), log(report(4));
  CHECK(path.read() == all);
  CHECK(!std::filesystem::exists(path.text + ".former"));
  CHECK(test::contains(test::message_of<Error>([&] { log({{"kl", 0.5}}); }), "this row has kl"));
  log.begin({.step = 0, .resumed = true});  // nothing is left but the columns
  CHECK(path.read() == all.substr(0, all.find('\n') + 1));
}

TEST_CASE("csv: a resumed log of epochs, and files that are no logs") {
  Path path("resumed_epochs"), other("no_log");
  CSVLogger log(path.text, LogRows::epochs);
  log.log(report(0));  // is not of its kind
  for (std::int64_t e = 0; e < 3; ++e)
    log.log(Epoch{.epoch = e, .steps = 2, .loss = 1, .seconds = 1, .validation = {}});
  log.begin({.step = 99, .epoch = 1, .resumed = true});
  CHECK(path.read() == "epoch,steps,loss,seconds\n0,2,1,1\n");
  CHECK(
      test::contains(test::message_of<BadValue>([&] { log.begin({.step = 99, .resumed = true}); }),
                     "LogStart::epoch is not set"));
  CHECK(path.read() == "epoch,steps,loss,seconds\n0,2,1,1\n");  // as it was
  other.append("name,age\nA,1\nB\n");
  CHECK(test::contains(
      test::message_of<BadFile>([&] { CSVLogger(other.text).begin({.step = 1, .resumed = true}); }),
      "has the line `B`. Name another"));
  CHECK(other.read() == "name,age\nA,1\nB\n");
}

TEST_CASE("csv: a row that the disk cannot hold is an error, and leaves whole rows") {
  Path path("full");
  CSVLogger log(path.text);
  log(report(0));
  const std::string before = path.read();
  rlimit kept{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &kept) == 0);
  const rlimit small{.rlim_cur = before.size() + 10, .rlim_max = kept.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string said = test::message_of<FileFailed>([&] { log(report(1)); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &kept) == 0);
  CHECK(test::contains(said, "cannot write to `" + path.text + "`: File too large"));
  CHECK(path.read() == before);
  log(report(1));
  CHECK(test::contains(path.read(), before + "1,1.1000000"));
}

TEST_CASE("json lines: one object per row, of three kinds, with every number") {
  Path path("run.jsonl");
  const double infinity = std::numeric_limits<double>::infinity();
  JSONLinesLogger log(path.text);
  log.log(report(0));
  log.log(Epoch{.epoch = 0, .steps = 1, .loss = -infinity, .validation = {}, .last_step = 0});
  Validation validation;
  validation.loss = 0.5, validation.metrics = {{"a \"b\"", infinity}};
  validation.step = 3, validation.epoch = 1;
  log(validation);
  log.write("mine", {{"x", -0.0}, {"y", 1e300}, {"z", 9007199254740991}});
  const std::string rows =
      "{\"kind\":\"step\",\"step\":0,\"loss\":0.10000000149011612,\"lr\":0.001,\"count\":1,"
      "\"items_per_second\":4,\"skipped\":0,\"seconds\":0.25}\n"
      "{\"kind\":\"epoch\",\"epoch\":0,\"steps\":1,\"loss\":\"-Infinity\",\"seconds\":\"NaN\"}\n"
      "{\"kind\":\"validation\",\"step\":3,\"epoch\":1,\"val_loss\":0.5,"
      "\"val_a \\\"b\\\"\":\"Infinity\"}\n"
      "{\"kind\":\"mine\",\"x\":-0.0,\"y\":1e+300,\"z\":9007199254740991}\n";
  CHECK(path.read() == rows);
  path.append("{\"kind\":\"st");
  log.begin({.step = 3, .epoch = 1, .resumed = true});  // the validation is made again
  CHECK(path.read() ==
        rows.substr(0, rows.find("{\"kind\":\"val")) + rows.substr(rows.find("{\"kind\":\"mine")));
  path.append("{\"kind\":}\n");
  CHECK(test::contains(test::message_of<BadFile>([&] { log.begin({.epoch = 9, .resumed = true}); }),
                       "is not a log: "));
}

TEST_CASE("tensorboard: checksums are CRC-32C, and buckets those of torch.utils.tensorboard") {
  CHECK(ikebana::detail::crc32c("123456789") == 0xe3069283U);
  CHECK(ikebana::detail::crc32c(std::string(32, '\0')) == 0x8a9136aaU);  // RFC 3720, B.4
  auto of = [](const at::Tensor& t) { return ikebana::detail::histogram_of(t, "w"); };
  const auto made = of(at::tensor({0., 0., 1e-12, 3e20}, at::kDouble));
  CHECK((made.min == 0 && made.max == 3e20 && made.count == 4));
  REQUIRE((made.limits.size() == 3 && made.limits[0] == 0 && made.limits[1] == 1e-12));
  CHECK(made.buckets == std::vector<double>{0, 2, 1});
  CHECK(test::contains(test::message_of<BadValue>([&] { of(at::empty({0})); }), "`w` is of a"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(test::contains(test::message_of<BadValue>([&] { of(at::tensor({1., nan})); }),
                       "1 elements that are not finite"));
  CHECK(
      test::contains(test::message_of<BadValue>([&] { of(at::full({2}, 1e30)); }), "beyond 1e20"));
}

/// A logger of a user's own, which is copied unless it is given by reference.
struct Losses {
  std::vector<double> all;
  int begun = 0;
  void begin(const LogStart& start) { begun += start.step == 7 && !start.resumed; }
  void log(const Report& report) { all.push_back(report.loss()); }
};

TEST_CASE("logger: one of a user's own is copied, or referred to") {
  Losses own;
  Logger copied = own, same = std::ref(own);
  for (const Logger& logger : {copied, same}) {
    logger.begin({.step = 7});
    logger.log(report(0));
    logger.log(Epoch{});  // it logs no epochs
    CHECK(logger.logs_steps());
  }
  CHECK((own.all.size() == 1 && own.begun == 1));
}

TEST_CASE("callbacks: one or several are called, in their order") {
  std::string calls;
  auto a = [&](const Report&) { calls += 'a'; };
  auto b = [&](const Report&) { calls += 'b'; };
  const std::function<void(const Report&)> none;
  Callbacks<Report> list = {a, b, a}, one = a, empty = none, nothing = nullptr;
  list(Report()), one(Report()), empty(Report()), nothing(Report());
  CHECK(calls == "abaa");
  CHECK((list && one && !empty && !nothing && !Callbacks<Report>()));
  one = {}, list = {b};
  list(Report());
  CHECK((!one && calls == "abaab"));
}

}  // namespace test::csv_logger
