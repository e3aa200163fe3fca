// Writes a log to a file: one line of comma-separated values per step, and one per epoch.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "side_by_side.hpp"

namespace csv_log {

using namespace ikebana;
namespace nn = torch::nn;

nn::Sequential by_hand(const std::vector<Rows>& loader, std::ostream& log) {
  nn::Sequential model = net();
  torch::optim::AdamW optimizer(model->parameters(), 1e-2);
  log << "step,loss,lr,grad_norm\n";
  for (std::size_t step = 0; step < loader.size(); ++step) {
    optimizer.zero_grad();
    at::Tensor output = model->forward(loader[step].input);
    at::Tensor loss = nn::functional::cross_entropy(output, loader[step].target);
    loss.backward();
    double norm = nn::utils::clip_grad_norm_(model->parameters(), 0.5);
    optimizer.step();
    log << step << ',' << loss.item<double>() << ',' << 1e-2 << ',' << norm << '\n';
  }
  return model;
}

/// Returns the values of a column of a table.
std::vector<double> column(std::istream& table, const std::string& name) {
  auto cells = [](const std::string& line) {
    std::vector<std::string> all;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) all.push_back(cell);
    return all;
  };
  table.clear(), table.seekg(0);
  std::string line;
  std::getline(table, line);
  std::vector<std::string> names = cells(line);
  auto at = std::size_t(std::find(names.begin(), names.end(), name) - names.begin());
  std::vector<double> values;
  while (std::getline(table, line)) values.push_back(std::stod(cells(line).at(at)));
  return values;
}

TEST_CASE("from PyTorch: a log of comma-separated values") {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("from_pytorch_csv_log_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string steps_csv = folder / "steps.csv", epochs_csv = folder / "epochs.csv";
  std::vector<Rows> loader = some_batches(40), validation = some_batches(4);
  nn::Sequential model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}, ClipGradNorm{.max_norm = 0.5}};

  trainer.fit(loader, {.validate = validation,
                       .metrics = {Accuracy{}},
                       .loggers = {CSVLogger(steps_csv), CSVLogger(epochs_csv, LogRows::epochs)}});

  std::stringstream hand_log;
  hand_log.precision(17);
  nn::Sequential hand_model = by_hand(loader, hand_log);
  same_end("csv_log", model->parameters(), hand_model->parameters(), net()->parameters());
  std::ifstream steps(steps_csv), epochs(epochs_csv);
  for (const char* name : {"step", "loss", "lr", "grad_norm"}) {
    std::vector<double> values = column(steps, name), expected = column(hand_log, name);
    REQUIRE(values.size() == 40);
    for (std::size_t i = 0; i < 40; ++i)
      CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  }
  CHECK(column(epochs, "val_accuracy").at(0) ==
        trainer.evaluate(validation, Accuracy{})["accuracy"]);
  std::filesystem::remove_all(folder);
}

}  // namespace csv_log
