// Compares the forms of modules::attention: time of one forward and backward, the form that is
// chosen, and the error of each form against double precision. Writes a Markdown table, or csv.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <ikebana/modules/attention.hpp>

#include "conditions.hpp"

namespace {

using ikebana::modules::attention;
using ikebana::modules::attention_form;
using ikebana::modules::AttentionForm;
using ikebana::modules::AttentionOptions;
using Tensors = std::vector<at::Tensor>;

constexpr AttentionForm forms[] = {AttentionForm::Fused, AttentionForm::Composed,
                                   AttentionForm::Widened};

struct Settings {
  int rounds = 21, threads = 1;
  bool quick = false, csv = false;
};

enum class Mask { No, Causal, Padding };

struct Row {
  at::ScalarType type;
  std::int64_t batch, heads, length, width;
  Mask mask = Mask::Causal;
  std::int64_t groups = 0, value_width = 0;  // 0: the number of heads, the width of the query
  double dropout_p = 0;
  bool training = true;
};

std::vector<Row> rows(bool quick) {
  constexpr auto b = at::kBFloat16, f = at::kFloat, h = at::kHalf;
  if (quick) return {{b, 12, 4, 64, 32}, {b, 2, 2, 32, 16}, {f, 12, 4, 64, 32}};
  // clang-format off
  return {
      {b, 1, 1, 16, 16},      {b, 1, 2, 64, 16},      {b, 4, 4, 32, 32},
      {b, 64, 4, 16, 32},     {b, 12, 4, 64, 32},     {b, 12, 4, 64, 32, Mask::No},
      {b, 12, 4, 128, 32},    {b, 8, 6, 256, 64},     {b, 8, 6, 256, 64, Mask::No},
      {b, 4, 6, 512, 64},     {b, 4, 6, 512, 64, Mask::No},
      {b, 2, 6, 1024, 64},    {b, 2, 6, 1024, 64, Mask::No},
      {b, 1, 6, 2048, 64},    {b, 8, 6, 256, 64, Mask::Padding},
      {b, 8, 6, 256, 64, Mask::Causal, 2},
      {b, 8, 6, 256, 64, Mask::Causal, 0, 32},
      {b, 8, 6, 256, 64, Mask::Causal, 0, 0, 0.1},
      {b, 12, 4, 64, 32, Mask::Causal, 0, 0, 0, false},
      {b, 8, 6, 256, 64, Mask::Causal, 0, 0, 0, false},
      {f, 1, 1, 16, 16},      {f, 64, 4, 16, 32},     {f, 12, 4, 64, 32},
      {f, 8, 6, 256, 64},     {f, 4, 6, 512, 64},     {f, 2, 6, 1024, 64},
      {f, 8, 6, 256, 64, Mask::Padding},
      {f, 8, 6, 256, 64, Mask::Causal, 2},
      {f, 8, 6, 256, 64, Mask::Causal, 0, 32},
      {f, 8, 6, 256, 64, Mask::Causal, 0, 0, 0.1},
      {h, 12, 4, 64, 32},     {h, 8, 6, 256, 64},
  };
  // clang-format on
}

struct Problem {
  Row row;
  at::Tensor query, key, value, seed;  // in the layout of a model: (B, T, heads * width)
  AttentionOptions options;

  explicit Problem(const Row& r) : row(r) {
    torch_seed();
    const auto groups = r.groups ? r.groups : r.heads;
    const auto out = r.value_width ? r.value_width : r.width;
    const auto make = [&](std::int64_t features) {
      return at::randn({r.batch, r.length, features}).to(r.type).set_requires_grad(r.training);
    };
    query = make(r.heads * r.width);
    key = make(groups * r.width);
    value = make(groups * out);
    seed = make(r.heads * out).detach();
    options.is_causal = r.mask == Mask::Causal;
    options.dropout_p = r.dropout_p;
    options.enable_gqa = groups != r.heads;
    if (r.mask == Mask::Padding) {
      const auto lengths = at::randint(r.length / 2, r.length + 1, {r.batch, 1, 1, 1});
      options.attn_mask = at::arange(r.length).lt(lengths);
    }
  }
  static void torch_seed() { at::manual_seed(11); }

  at::Tensor heads(const at::Tensor& x, std::int64_t count) const {
    return x.view({row.batch, row.length, count, -1}).transpose(1, 2);
  }
  Tensors heads(const Tensors& x) const {
    const auto groups = row.groups ? row.groups : row.heads;
    return {heads(x[0], row.heads), heads(x[1], groups), heads(x[2], groups)};
  }
  /// Returns the output and, when training, the three gradients.
  Tensors run(AttentionForm form, const Tensors& x) const {
    auto with = options;
    with.form = form;
    const auto h = heads(x);
    const auto out = attention(h[0], h[1], h[2], with).transpose(1, 2).flatten(2);
    if (!row.training) return {out};
    auto all = torch::autograd::grad({out}, x, {seed.to(out.scalar_type())});
    all.push_back(out.detach());
    return all;
  }
  Tensors inputs() const { return {query, key, value}; }
  Tensors in_double() const {
    Tensors x;
    for (const auto& t : inputs())
      x.push_back(t.detach().to(at::kDouble).set_requires_grad(row.training));
    return x;
  }
  AttentionForm chosen() const {
    const auto h = heads(inputs());
    return attention_form(h[0], h[1], h[2], options);
  }
};

double seconds_of(const Problem& problem, AttentionForm form) {
  const at::AutoGradMode mode(problem.row.training);
  const auto start = std::chrono::steady_clock::now();
  problem.run(form, problem.inputs());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Returns the largest |error| / |exact| of output and gradients. Dropout uses the same mask each
/// time.
double error_of(const Problem& problem, AttentionForm form, const Tensors& exact) {
  Problem::torch_seed();
  const auto got = problem.run(form, problem.inputs());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, ((got[i] - exact[i]).norm() / exact[i].norm()).item<double>());
  return worst;
}

struct Result {
  std::map<AttentionForm, double> seconds, error;
  AttentionForm chosen;
  double gain;  // the gain of the chosen form over the fused one
};

Result measure(const Row& row, const Settings& settings) {
  const Problem problem(row);
  Problem::torch_seed();
  const auto exact = problem.run(AttentionForm::Composed, problem.in_double());
  Result result{{}, {}, problem.chosen(), 1};
  for (const auto form : forms) result.error[form] = error_of(problem, form, exact);
  std::map<AttentionForm, std::vector<double>> seconds;
  std::vector<double> gains;
  for (int i = 0; i < settings.rounds; ++i) {
    for (const auto form : forms) seconds[form].push_back(seconds_of(problem, form));
    gains.push_back(seconds[AttentionForm::Fused].back() / seconds[result.chosen].back());
  }
  for (const auto form : forms) result.seconds[form] = bench::median(seconds[form]);
  result.gain = bench::median(gains);
  return result;
}

std::string describe(const Row& r) {
  const char* masks[] = {"full", "causal", "padded"};
  std::string text = masks[static_cast<int>(r.mask)];
  if (r.groups) text += ", " + std::to_string(r.groups) + " key heads";
  if (r.value_width) text += ", values " + std::to_string(r.value_width) + " wide";
  if (r.dropout_p > 0) text += ", dropout";
  if (!r.training) text += ", forward only";
  return text;
}

void print(const Row& r, const Result& m, bool csv) {
  using F = AttentionForm;
  const char* type = r.type == at::kFloat ? "FP32" : r.type == at::kHalf ? "FP16" : "BF16";
  const auto us = [&](F form) { return 1e6 * m.seconds.at(form); };
  std::printf(csv ? "%s,%lld,%lld,%lld,%lld,\"%s\",%.1f,%.1f,%.1f,%s,%.3f,%.3g,%.3g,%.3g\n"
                  : "| %s | %lld, %lld, %lld, %lld | %s | %.0f | %.0f | %.0f | %s | %.2f | %.1e | "
                    "%.1e | %.1e |\n",
              type, static_cast<long long>(r.batch), static_cast<long long>(r.heads),
              static_cast<long long>(r.length), static_cast<long long>(r.width),
              describe(r).c_str(), us(F::Fused), us(F::Composed), us(F::Widened), name(m.chosen),
              m.gain, m.error.at(F::Fused), m.error.at(F::Composed), m.error.at(F::Widened));
  std::fflush(stdout);
}

void print_head(const Settings& settings) {
  bench::print_conditions(settings.csv ? "# " : "", settings.rounds);
  std::puts(settings.csv ? "type,B,H,T,E,kind,fused_us,composed_us,widened_us,chosen,gain,"
                           "fused_error,composed_error,widened_error"
                         : "\n| type | B, H, T, E | kind | fused us | composed us | widened us | "
                           "chosen | gain | fused error | composed error | widened error |\n"
                           "|---|---|---|---:|---:|---:|---|---:|---:|---:|---:|");
}

bool parse(int argc, char** argv, Settings& settings) {
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (!std::strcmp(argv[i], "--csv")) settings.csv = true;
    else if (!std::strcmp(argv[i], "--quick")) settings.quick = true, settings.rounds = 3;
    else if (!std::strcmp(argv[i], "--rounds") && more) settings.rounds = std::atoi(argv[++i]);
    else if (!std::strcmp(argv[i], "--threads") && more) settings.threads = std::atoi(argv[++i]);
    else return false;
  }
  return settings.rounds > 0 && settings.threads > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  if (!parse(argc, argv, settings)) {
    std::fprintf(stderr, "usage: %s [--rounds N] [--threads N] [--quick] [--csv]\n", argv[0]);
    return 2;
  }
  at::set_num_threads(settings.threads);
  // glibc keeps freed blocks up to the size of the largest block freed so far. Frees a large one
  // before the first row, as a training process has done.
  {
    const auto large = at::zeros({30 << 18});
  }
  print_head(settings);
  for (const auto& row : rows(settings.quick)) print(row, measure(row, settings), settings.csv);
}
