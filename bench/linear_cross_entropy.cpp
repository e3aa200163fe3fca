// Compares modules::linear_cross_entropy with at::linear and at::cross_entropy_loss: time of one
// forward and backward, interleaved, peak memory, and the error of losses and gradients against
// double precision. Writes a Markdown table, or csv.
#include <ATen/autocast_mode.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/modules/linear_cross_entropy.hpp>

#include "conditions.hpp"

namespace {

using ikebana::modules::linear_cross_entropy;
using Tensors = std::vector<at::Tensor>;

struct Settings {
  int rounds = 9, threads = 1;
  std::size_t only = 0;  // the number of a row; 0: all
  std::int64_t chunk_rows = 0;
  bool quick = false, csv = false;
};

enum class Form { Plain, Chunked };

struct Row {
  const char* kind;
  bool bf16;
  std::int64_t tokens, width, classes;
  double ignored = 0;
  bool head_learns = true;
};

std::vector<Row> rows(bool quick) {
  if (quick) return {{"", false, 256, 64, 1000}, {"", true, 256, 64, 1000}};
  return {{"", false, 2048, 384, 32000},
          {"", true, 2048, 384, 32000},
          {"half of the targets ignored", false, 2048, 384, 32000, 0.5},
          {"the head is not trained", false, 2048, 384, 32000, 0, false},
          {"", false, 768, 128, 256},
          {"", true, 768, 128, 256}};
}

struct Problem {
  Row row;
  std::int64_t chunk_rows;
  at::Tensor hidden, weight, target;

  Problem(const Row& r, std::int64_t chunk) : row(r), chunk_rows(chunk) {
    at::manual_seed(5);
    hidden = at::randn({r.tokens, r.width}).set_requires_grad(true);
    weight = at::randn({r.classes, r.width}).mul_(0.05).set_requires_grad(r.head_learns);
    target = at::randint(r.classes, {r.tokens}, at::kLong);
    target.masked_fill_(at::rand({r.tokens}) < r.ignored, -100);
  }
  Tensors inputs() const { return row.head_learns ? Tensors{hidden, weight} : Tensors{hidden}; }

  at::Tensor sum(Form form, const at::Tensor& h, const at::Tensor& w) const {
    if (form == Form::Chunked)
      return linear_cross_entropy(h, w, target, {.chunk_rows = chunk_rows}).sum;
    const auto logits = at::linear(h, w);
    const auto wide = logits.scalar_type() == at::kBFloat16 ? logits.to(at::kFloat) : logits;
    return at::cross_entropy_loss(wide, target, {}, at::Reduction::Sum);
  }
  /// Returns the loss and the gradients of its mean.
  Tensors run(Form form) const {
    at::Tensor loss;
    {
      at::autocast::set_autocast_enabled(at::kCPU, row.bf16);
      at::autocast::increment_nesting();
      loss = sum(form, hidden, weight);
      if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(at::kCPU, false);
    }
    const auto start = at::full({}, 1.0 / static_cast<double>(row.tokens));
    auto all = torch::autograd::grad({loss}, inputs(), {start});
    all.push_back(loss.detach());
    return all;
  }
  Tensors exact() const {
    auto h = hidden.detach().to(at::kDouble).set_requires_grad(true),
         w = weight.detach().to(at::kDouble).set_requires_grad(row.head_learns);
    const auto loss = sum(Form::Plain, h, w);
    const auto start = at::full({}, 1.0 / static_cast<double>(row.tokens), at::kDouble);
    auto all = torch::autograd::grad({loss}, row.head_learns ? Tensors{h, w} : Tensors{h}, {start});
    all.push_back(loss.detach());
    return all;
  }
};

double seconds_of(const Problem& problem, Form form) {
  const auto start = std::chrono::steady_clock::now();
  problem.run(form);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Returns MiB, without the memory that was in use before.
double peak_of(const Problem& problem, Form form) {
  ikebana::bridge::MemoryCounter counter(at::kCPU);
  const auto before = counter.now();
  problem.run(form);
  return static_cast<double>(counter.peak() - before) / (1 << 20);
}

/// Returns the largest |error| / |exact| of gradients and loss.
double error_of(const Problem& problem, Form form, const Tensors& exact) {
  const auto got = problem.run(form);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, ((got[i] - exact[i]).norm() / exact[i].norm()).item<double>());
  return worst;
}

void measure(const Row& row, const Settings& settings) {
  const Problem problem(row, settings.chunk_rows);
  std::vector<double> plain, chunked, ratios;
  const auto exact = problem.exact();
  const double errors[] = {error_of(problem, Form::Plain, exact),
                           error_of(problem, Form::Chunked, exact)};
  for (int i = 0; i < settings.rounds; ++i) {
    plain.push_back(seconds_of(problem, Form::Plain));
    chunked.push_back(seconds_of(problem, Form::Chunked));
    ratios.push_back(chunked.back() / plain.back());
  }
  const double peaks[] = {peak_of(problem, Form::Plain), peak_of(problem, Form::Chunked)};
  const auto type = row.bf16 ? "BF16" : "FP32";
  std::printf(settings.csv
                  ? "%s,%lld,%lld,%lld,\"%s\",%.2f,%.2f,%.3f,%.1f,%.1f,%.3f,%.2g,%.2g\n"
                  : "| %s | %lld, %lld, %lld | %s | %.1f | %.1f | %.2f | %.1f | %.1f | %.3f | "
                    "%.1e | %.1e |\n",
              type, static_cast<long long>(row.tokens), static_cast<long long>(row.width),
              static_cast<long long>(row.classes), row.kind, 1e3 * bench::median(plain),
              1e3 * bench::median(chunked), bench::median(ratios), peaks[0], peaks[1],
              peaks[1] / peaks[0], errors[0], errors[1]);
  std::fflush(stdout);
}

void print_head(const Settings& settings) {
  bench::print_conditions(settings.csv ? "# " : "", settings.rounds);
  std::puts(settings.csv
                ? "type,tokens,width,classes,kind,plain_ms,ours_ms,time_ratio,plain_mib,ours_mib,"
                  "memory_ratio,plain_error,our_error"
                : "\n| type | tokens, width, classes | kind | plain ms | ours ms | ratio | plain "
                  "MiB | ours MiB | ratio | plain error | our error |\n"
                  "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|");
}

bool parse(int argc, char** argv, Settings& s) {
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (!std::strcmp(argv[i], "--csv")) s.csv = true;
    else if (!std::strcmp(argv[i], "--quick")) s.quick = true, s.rounds = 3;
    else if (!std::strcmp(argv[i], "--rounds") && more) s.rounds = std::atoi(argv[++i]);
    else if (!std::strcmp(argv[i], "--threads") && more) s.threads = std::atoi(argv[++i]);
    else if (!std::strcmp(argv[i], "--rows") && more) s.chunk_rows = std::atoll(argv[++i]);
    else if (!std::strcmp(argv[i], "--only") && more) s.only = std::strtoul(argv[++i], nullptr, 10);
    else return false;
  }
  return s.rounds > 0 && s.threads > 0 && s.chunk_rows >= 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!parse(argc, argv, settings)) {
    std::fprintf(stderr,
                 "usage: %s [--rounds N] [--threads N] [--rows N] [--only N] [--quick] [--csv]\n",
                 argv[0]);
    return 2;
  }
  at::set_num_threads(settings.threads);
  print_head(settings);
  const auto all = rows(settings.quick);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (settings.only == 0 || settings.only == i + 1) measure(all[i], settings);
}
