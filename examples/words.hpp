#pragma once
// What each word of a recipe does to memory and time: rounds over several recipes in turn, so that
// whatever else the machine does meets them all.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>

#include "text.hpp"

/// The model that is trained, and on what; the same for every recipe.
struct Trial {
  GPTConfig config;
  at::Tensor text;
  std::int64_t rows = 16;
  at::Device device = at::kCPU;
  int rounds = 3, steps = 3;  // of each round the first step is not timed
};

/// One recipe and what was seen of it.
struct Row {
  const char* name;
  void (*round)(Row&, const Trial&);
  std::vector<double> milliseconds = {};
  std::optional<std::int64_t> peak_bytes = {};
  double loss = 0;

  double median() {
    std::sort(milliseconds.begin(), milliseconds.end());
    return milliseconds.at(milliseconds.size() / 2);
  }
};

/// A few steps of a fresh model, which is the same in every round and for every recipe.
template <class Recipe>
void round_of(Row& row, const Trial& trial) {
  using Clock = std::chrono::steady_clock;
  torch::manual_seed(1);
  GPT model(trial.config);
  model->to(trial.device);
  Recipe trainer{model};
  Windows windows(trial.text, trial.rows, trial.config.context, /*seed=*/1);
  for (int step = 0; step < trial.steps; ++step) {
    Tokens batch = windows.next();
    auto begin = Clock::now();
    ikebana::Report report = trainer.step(batch);
    row.loss = report.loss();  // waits for the device
    if (step == 0) continue;   // it also allocates the optimizer's state
    row.milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    row.peak_bytes = report.peak_bytes;
  }
}

inline void print_rows(std::vector<Row>& rows) {
  std::printf("%-28s%10s%12s%12s\n", "", "peak MiB", "ms a step", "last loss");
  for (Row& row : rows) {
    std::string peak = row.peak_bytes ? std::to_string(*row.peak_bytes >> 20) : "-";
    std::printf("%-28s%10s%12.0f%12.4f\n", row.name, peak.c_str(), row.median(), row.loss);
  }
}

/// Fills the rows round by round, and prints them.
inline void compare(std::vector<Row> rows, const Trial& trial) {
  bool terminal = isatty(STDERR_FILENO);
  for (int round = 0; round < trial.rounds; ++round)
    for (Row& row : rows) {
      if (terminal) std::fprintf(stderr, "\rround %d of %d, %s\033[K", round + 1, trial.rounds, row.name);
      row.round(row, trial);
    }
  if (terminal) std::fprintf(stderr, "\r\033[K");
  print_rows(rows);
}
