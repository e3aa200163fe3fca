#pragma once
// Measures what each policy of a recipe does to memory and time. Recipes take turns, round by
// round, so that other load on the machine affects all of them.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "text.hpp"

/// The model and the data that every recipe trains.
struct Trial {
  GPTConfig config;
  at::Tensor text;
  at::Device device;
  std::int64_t rows = 32;
  int rounds = 2, steps = 3;  // steps per round; the first one is not timed
};

/// A recipe and its measurements.
struct Row {
  const char* name;
  void (*round)(Row&, const Trial&);
  std::vector<double> milliseconds = {};
  std::optional<std::int64_t> peak_bytes = {};
  double loss = 0;

  double median() {
    auto middle = milliseconds.begin() + static_cast<std::ptrdiff_t>(milliseconds.size() / 2);
    std::nth_element(milliseconds.begin(), middle, milliseconds.end());
    return *middle;
  }
};

/// Trains a new model for a few steps; its initial weights are the same in every round and for
/// every recipe.
template <class... Policies>
void round_of(Row& row, const Trial& trial) {
  using Clock = std::chrono::steady_clock;
  using namespace ikebana;
  torch::manual_seed(1);
  GPT model(trial.config);
  model->to(trial.device);
  Trainer<GPT, AdamW, CosineAnnealingLR, Policies...> trainer{model,
                                                              CosineAnnealingLR{.T_max = 100}};
  Windows windows(trial.text, trial.rows, trial.config.context, /*seed=*/1);
  for (int step = 0; step < trial.steps; ++step) {
    Tokens batch = windows.next();
    auto begin = Clock::now();
    Report report = trainer.step(batch);
    row.loss = report.loss();  // waits for the device
    std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    if (step == 0) continue;  // it also allocates the optimizer's state
    row.milliseconds.push_back(took.count());
    row.peak_bytes = report.peak_bytes;
  }
}

inline void print_rows(std::vector<Row>& rows) {
  const double whole = rows[0].median();
  std::printf("%-26s%11s%13s%16s\n", "", "peak MiB", "ms per step", "last loss");
  for (Row& row : rows) {
    std::string peak = row.peak_bytes ? std::to_string(*row.peak_bytes >> 20) : "-";
    std::printf("%-26s%11s%13.0f%7.2fx%9.4f\n", row.name, peak.c_str(), row.median(),
                row.median() / whole, row.loss);
  }
}

/// Measures the rows, the first of which is the whole recipe, and prints them.
inline void compare(std::vector<Row> rows, const Trial& trial) {
  bool terminal = isatty(STDERR_FILENO);
  for (int round = 1; round <= trial.rounds; ++round)
    for (Row& row : rows) {
      if (terminal)
        std::fprintf(stderr, "\rround %d of %d: %s\033[K", round, trial.rounds, row.name);
      row.round(row, trial);
    }
  if (terminal) std::fprintf(stderr, "\r\033[K");
  print_rows(rows);
}
