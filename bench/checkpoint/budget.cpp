// Predicted against measured step times of plans of Checkpoint<Budget>, for a GPT on one thread:
// the twenty plans that the model ranks best among those within the budget, and twenty random ones.
// budget [ROUNDS] [LAYERS WIDTH ROWS]
#include <conditions.hpp>
#include <ikebana.hpp>
#include <models/gpt.hpp>
#include <random>

namespace {

using namespace ikebana;
using ikebana::detail::Choice, ikebana::detail::Costs, ikebana::detail::Plan;
using ikebana::detail::predict;
using Recipe = Trainer<GPT, AdamW, Checkpoint<Budget<>>, Observe<Memory>>;

struct Row {
  Plan plan;
  double predicted = 0;
  std::int64_t peak = 0, measured_peak = 0;
  std::vector<double> seconds = {};
  double measured() const { return bench::median(seconds); }
  double ratio() const { return predicted / measured(); }
};

Plan random_plan(const Costs& costs, std::mt19937& random) {
  Plan plan;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    Choice choice = static_cast<Choice>(random() % 4);
    const bool follows = i > 0 && (plan.back() == Choice::Full || plan.back() == Choice::Joined);
    if (!costs.units[i].allows(choice) || (choice == Choice::Joined && !follows))
      choice = Choice::Full;
    plan.push_back(choice);
  }
  return plan;
}

/// Returns feasible plans, each once: the best first, then random ones. Enumerates the changes of
/// one, two or three units of the best plan, and random plans.
std::vector<Plan> plans_within(const Costs& costs, std::int64_t budget, const Plan& best) {
  std::mt19937 random(1);
  std::vector<Plan> some{best};
  while (some.size() < 200'000) some.push_back(random_plan(costs, random));
  for (int i = 0; i < 100'000; ++i) {
    Plan near = best;
    const Plan other = random_plan(costs, random);
    for (int k = 0; k < 3; ++k) {
      const std::size_t place = random() % near.size();
      near[place] = other[place] == Choice::Joined ? Choice::Full : other[place];
    }
    some.push_back(near);
  }
  std::sort(some.begin(), some.end());
  some.erase(std::unique(some.begin(), some.end()), some.end());
  std::erase_if(some, [&](const Plan& plan) { return predict(costs, plan).peak > budget; });
  std::shuffle(some.begin(), some.end(), random);
  std::stable_sort(some.begin(), some.end(), [&](const Plan& a, const Plan& b) {
    return predict(costs, a).time < predict(costs, b).time;
  });
  std::vector<Plan> chosen(some.begin(),
                           some.begin() + std::min<std::ptrdiff_t>(20, std::ssize(some)));
  std::vector<Plan> rest(some.begin() + std::ssize(chosen), some.end());
  std::shuffle(rest.begin(), rest.end(), random);
  rest.resize(std::min<std::size_t>(20, rest.size()));
  chosen.insert(chosen.end(), rest.begin(), rest.end());
  return chosen;
}

double step_seconds(Recipe& trainer, const Tokens& batch, Row* row) {
  if (row) trainer.mechanism<Checkpoint<Budget<>>>().force(row->plan);
  const auto begin = std::chrono::steady_clock::now();
  const Report report = trainer.step(batch);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (row) row->seconds.push_back(seconds), row->measured_peak = *report.peak_bytes;
  return seconds;
}

void print_row(const Row& row) {
  constexpr double mebi = 1 << 20;
  std::printf("  %7.1f ms predicted %7.1f ms measured %6.3f   peak %6.1f MiB %6.1f   %s\n",
              1e3 * row.predicted, 1e3 * row.measured(), row.ratio(),
              static_cast<double>(row.peak) / mebi, static_cast<double>(row.measured_peak) / mebi,
              ikebana::detail::plan_text(row.plan).c_str());
}
/// The first row is the plan that is used.
void print_bars(const std::vector<Row>& rows) {
  const auto [least, most] = std::minmax_element(
      rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ratio() < b.ratio(); });
  const auto fastest = std::min_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.measured() < b.measured();
  });
  const bool fits = std::all_of(rows.begin(), rows.end(),
                                [](const Row& row) { return row.measured_peak <= row.peak; });
  const double chosen = rows[0].measured() / fastest->measured();
  std::printf("  predicted over measured %.3f to %.3f (0.97 to 1.10: %s)\n", least->ratio(),
              most->ratio(), least->ratio() >= 0.97 && most->ratio() <= 1.10 ? "yes" : "NO");
  std::printf("  the plan over the fastest %.3f (1.05: %s); peaks within predictions: %s\n", chosen,
              chosen <= 1.05 ? "yes" : "NO", fits ? "yes" : "NO");
  std::fflush(stdout);
}

void bench_at(Recipe& trainer, const Tokens& batch, double fraction, int rounds) {
  auto& mechanism = trainer.mechanism<Checkpoint<Budget<>>>();
  const Costs& measured = mechanism.planned().planned;
  const std::int64_t low = ikebana::detail::smallest_budget(measured);
  const std::int64_t high = predict(measured, Plan(measured.size(), Choice::Keep)).peak;
  trainer.get<Checkpoint<Budget<>>>().limit =
      low + static_cast<std::int64_t>(fraction * static_cast<double>(high - low));
  mechanism.force({});
  for (int i = 0; i < 3; ++i) step_seconds(trainer, batch, nullptr);
  const auto& planned = mechanism.planned();
  std::vector<Row> rows;
  for (Plan& plan : plans_within(planned.planned, planned.budget, planned.plan))
    rows.push_back({.plan = plan, .peak = predict(planned.planned, plan).peak});
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) step_seconds(trainer, batch, &row);
    mechanism.force({});  // what predictions are made from
    step_seconds(trainer, batch, nullptr);
  }
  for (Row& row : rows) row.predicted = mechanism.predicted_seconds(row.plan);
  std::printf("\nbudget %.1f MiB: %zu plans\n", static_cast<double>(planned.budget) / (1 << 20),
              rows.size());
  for (const Row& row : rows) print_row(row);
  print_bars(rows);
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
  const std::int64_t layers = argc > 4 ? std::atoll(argv[2]) : 8;
  const std::int64_t width = argc > 4 ? std::atoll(argv[3]) : 128;
  const std::int64_t rows = argc > 4 ? std::atoll(argv[4]) : 4;
  bench::print_conditions("", rounds);
  torch::manual_seed(0);
  GPT model(GPTConfig{.layers = layers, .width = width, .heads = 4, .context = 128});
  const at::Tensor text = torch::randint(256, {rows, 129}, at::kLong);
  const Tokens batch{text.slice(1, 0, 128), text.slice(1, 1, 129)};
  Recipe trainer(model, Checkpoint<Budget<>>{.limit = GiB(64)});
  for (int i = 0; i < 2; ++i) trainer.step(batch);
  for (const auto& unit : trainer.mechanism<Checkpoint<Budget<>>>().planned().planned.units)
    std::printf(
        "unit: keep %.2f MiB Selective %.2f MiB; recompute %.2f ms, Selective %.2f ms, rest "
        "%.2f ms; input %.2f MiB\n",
        static_cast<double>(unit.keep) / (1 << 20), static_cast<double>(unit.selective) / (1 << 20),
        1e-6 * static_cast<double>(unit.time), 1e-6 * static_cast<double>(unit.time_selective),
        1e-6 * static_cast<double>(unit.time_rest), static_cast<double>(unit.input) / (1 << 20));
  for (const double fraction : {0.0, 0.3, 0.7}) bench_at(trainer, batch, fraction, rounds);
}
