// Writes event files of TensorBoard to a folder, and prints what events.py must read from them.
#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <ikebana/loggers.hpp>
#include <iostream>
#include <limits>

using namespace ikebana;
namespace fs = std::filesystem;

namespace {

/// Prints a value that must be read, with its bits.
void expect_scalar(const std::string& run, const std::string& tag, std::int64_t step,
                   double value) {
  std::printf("%s scalar %s %lld %08x\n", run.c_str(), tag.c_str(), static_cast<long long>(step),
              std::bit_cast<std::uint32_t>(static_cast<float>(value)));
}
void expect_row(const std::string& run, const LogRow& row, std::int64_t step,
                const std::string& left_out, const std::string& prefix = {}) {
  for (const auto& [name, value] : row)
    if (name != left_out) expect_scalar(run, prefix + name, step, value);
}

Report report(std::int64_t step, double loss) {
  Report made;
  made.step = step, made.seconds = 0.1 * static_cast<double>(step + 1);
  made.learning_rate = 1e-3 / static_cast<double>(step + 1);
  made.value.parts.push_back({{"", at::scalar_tensor(loss, at::kDouble), 3}});
  made.must_be_finite = false;
  return made;
}
Epoch epoch(std::int64_t number, std::int64_t last_step) {
  Epoch made{.epoch = number, .steps = 3, .loss = 1.0 / 3, .seconds = 0.5, .validation = {}};
  made.last_step = last_step;
  return made;
}
Validation validation(std::int64_t step, double loss) {
  Validation made;
  made.loss = loss, made.metrics = {{"accuracy", 2.0 / 3}}, made.step = step;
  return made;
}

/// Trains until step 9, and is killed; goes on from the state of step 6.
void resumed(const fs::path& root) {
  const double infinity = std::numeric_limits<double>::infinity();
  TensorBoardLogger first(root / "resumed");
  first.begin({});
  for (std::int64_t step = 0; step < 9; ++step) {
    const Report made = report(step, step == 2 ? -infinity : 1.0 / static_cast<double>(step + 3));
    first.log(made);
    if (step < 6) expect_row("resumed", columns_of(made), step, "step");
  }
  for (std::int64_t step : {5, 7}) first.log(validation(step, 0.1 * static_cast<double>(step)));
  first.log(epoch(1, 5)), first.log(epoch(2, 8));
  first = TensorBoardLogger(root / "resumed");
  first.begin({.step = 6, .epoch = 2, .resumed = true});
  for (std::int64_t step = 6; step < 12; ++step) {
    const Report made = report(step, std::sqrt(static_cast<double>(step)));
    first(made);
    expect_row("resumed", columns_of(made), step, "step");
  }
  first(validation(7, 9)), first(epoch(2, 8));
  for (const auto& [step, loss] : {std::pair{5, 0.5}, std::pair{7, 9.0}}) {
    expect_scalar("resumed", "val_loss", step, loss);
    expect_scalar("resumed", "val_accuracy", step, 2.0 / 3);
  }
  for (const std::int64_t e : {1, 2})
    expect_row("resumed", columns_of(epoch(e, 0)), 3 * e + 2, "epoch", "epoch/");
}

/// Writes the elements of a histogram to a file as well, from which Python makes its own.
void histogram(const TensorBoardLogger& log, const fs::path& root, const std::string& name,
               const at::Tensor& tensor, std::int64_t step) {
  log.add_histogram(name, tensor, step);
  const at::Tensor all = tensor.to(at::kDouble).flatten().contiguous();
  std::ofstream(root / (name + ".f64"), std::ios::binary)
      .write(static_cast<const char*>(all.const_data_ptr()),
             static_cast<std::streamsize>(all.nbytes()));
  std::printf("values histogram %s %lld %s\n", name.c_str(), static_cast<long long>(step),
              (name + ".f64").c_str());
}

void values(const fs::path& root) {
  TensorBoardLogger log(root / "values");
  torch::manual_seed(1);
  log.add_scalar("nan", std::numeric_limits<double>::quiet_NaN(), 3);
  expect_scalar("values", "nan", 3, std::numeric_limits<double>::quiet_NaN());
  log.add_scalar("largest_step", 1e-45, std::int64_t{1} << 52);
  expect_scalar("values", "largest_step", std::int64_t{1} << 52, 1e-45);
  histogram(log, root, "normal", at::randn({64, 33}), 5);
  histogram(log, root, "one_value", at::full({7}, -0.25), 6);
  histogram(log, root, "zeros", at::zeros({2, 2}), 6);
  histogram(log, root, "positive", at::rand({1000}, at::kDouble) * 1e19, 7);
  histogram(log, root, "beyond", at::tensor({1e25, -3e25, 1e-14, 2.5, -2.5}, at::kDouble), 8);
  histogram(log, root, "whole", at::arange(-500, 500), 9);
  log.add_text("notes", "# a\n\xc3\xa4, b", 4);
  std::printf("values text notes/text_summary 4 # a\\n\xc3\xa4, b\n");
}

/// Begins another training in the folder of an earlier one.
void replaced(const fs::path& root) {
  TensorBoardLogger(root / "replaced").log(report(5, 1));
  TensorBoardLogger second(root / "replaced");
  second.log(report(0, 2));
  expect_row("replaced", columns_of(report(0, 2)), 0, "step");
}

}  // namespace

int main(int, char** arguments) {
  const fs::path root = arguments[1];
  resumed(root);
  values(root);
  replaced(root);
  return 0;
}
