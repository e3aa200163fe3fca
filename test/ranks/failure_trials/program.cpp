// Runs one rank of a trial. It trains until the failure that the environment plans, and writes what
// happens to it to a file, which run.py reads.
#include "traced.hpp"

using namespace ikebana;
using namespace trials;

namespace {

constexpr std::int64_t steps = 6, rows = 12;  // `rows` is the number of rows of a batch, of all
                                              // ranks
constexpr std::int64_t traced_save = 4;       // after that many steps; another one was before

template <class How>
class Rank {
 public:
  Rank(const Plan& plan, const ProcessGroup& group, Log& log)
      : plan_(plan), log_(log), group_(group), harm_{plan, log, group.rank() == plan.victim} {}

  /// Trains until the end, or an error that no repetition mends.
  void train() {
    if (harms("kill") && plan_.call < 0) harm_.strike_later(SIGKILL);
    if (harms("stop") && plan_.call < 0) harm_.strike_later(SIGSTOP);
    torch::manual_seed(harms("model") ? 2 : 1);
    Net model(harms("model") ? 5 : 3);
    Trainer trainer{model, SGD{.lr = harms("recipe") ? 0.2 : 0.1}, Harmed{&harm_},
                    Shard<How>{.process_group = group_}};
    log_.line("made");
    if (std::filesystem::exists(state())) trainer.load(state());
    if (plan_.harm == "lengths") return fit(trainer, model);
    while (trainer.steps() < steps) step(trainer, model);
    finish(trainer);
  }

 private:
  using T = Trainer<Net, SGD, Harmed, Shard<How>>;

  bool harms(const std::string& what) const { return harm_.is_victim && plan_.harm == what; }
  std::string state() const { return plan_.folder + "/state"; }
  static Rows batch(std::int64_t i, std::int64_t rank, std::int64_t ranks) {
    torch::manual_seed(100 + i);
    const Rows all{at::randn({rows, 8}), at::randint(3, {rows}, at::kLong)};
    const std::int64_t count = rows / ranks;
    return {all.input.narrow(0, rank * count, count), all.target.narrow(0, rank * count, count)};
  }
  Rows own_batch(std::int64_t i) const {
    Rows own = batch(i, group_.rank(), group_.size());
    if (harms("rows")) own = {own.input.narrow(0, 0, 1), own.target.narrow(0, 0, 1)};
    return own;
  }
  void step(T& trainer, Net& model) {
    const std::int64_t i = trainer.steps();
    if (i == plan_.call % steps) {
      if (harms("order")) diverge(model, {0, 2, 1, 3});
      if (harms("skip")) diverge(model, {0, 1, 3});
      if (harms("twice")) diverge(model, {0, 1, 1, 2, 3});
    }
    try {
      trainer.step(own_batch(i));
      if (i % 2 == 1) save(trainer);
    } catch (const std::exception& error) {
      log_.line("error", error.what());
      const bool goes_on = plan_.harm == "throw" || (plan_.harm == "rejoin" && !has_failed_);
      if (!goes_on || std::exchange(has_failed_, true)) std::quick_exit(3);
      // Another one dies while the ranks meet again.
      if (plan_.harm == "rejoin" && group_.rank() == (plan_.victim + 1) % group_.size())
        harm_.strike_later(SIGKILL);
    }
  }
  void diverge(Net& model, std::vector<std::size_t> order) {
    log_.line("event", "diverges");
    model->order = std::move(order);
  }
  void save(T& trainer) {
    if (harms("save") && trainer.steps() >= 4) harm_.strike_later(SIGKILL);
    const bool is_traced = harms("call") && trainer.steps() == traced_save;
    if (is_traced) begin_traced();
    trainer.save(state());
    if (is_traced) end_traced();
  }
  /// The loaders of ranks have different lengths.
  void fit(T& trainer, Net&) {
    std::vector<Rows> own;
    for (std::int64_t i = 0; i < (harm_.is_victim ? steps / 2 : steps); ++i)
      own.push_back(own_batch(i));
    trainer.fit(own, {.epochs = 1, .progress = false});
    finish(trainer);
  }
  void finish(T& trainer) {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    trainer.with_full_weights([&](Net& model) {
      for (const at::Tensor& p : model->parameters()) {
        const at::Tensor t = p.detach().contiguous();
        const auto* bytes = static_cast<const unsigned char*>(t.const_data_ptr());
        for (std::size_t i = 0; i < t.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3;
      }
    });
    log_.line("calls", std::to_string(harm_.calls));
    log_.line("end", std::to_string(hash));
    if (plan_.harm == "kill" || plan_.harm == "stop") return;  // a late one may strike yet
  }

  const Plan& plan_;
  Log& log_;
  ProcessGroup group_;
  Harm harm_;
  bool has_failed_ = false;
};

template <class How>
void train(const Plan& plan, const ProcessGroup& group, Log& log) {
  Rank<How>(plan, group, log).train();
}
void run(const Plan& plan, const World& world, Log& log) {
  const ProcessGroup group(world, {.timeout = std::chrono::milliseconds(plan.limit_ms)});
  log.line("met");
  const std::map<std::string, void (*)(const Plan&, const ProcessGroup&, Log&)> policies{
      {"DDP", train<DDP>},
      {"ZeRO1", train<ZeRO1>},
      {"ZeRO2", train<ZeRO2>},
      {"FSDP", train<FSDP>},
      {"HSDP", train<HSDP<2>>}};
  policies.at(plan.policy)(plan, group, log);
}

}  // namespace

int main() {
  const Plan plan = Plan::of_environment();
  const World world = World::from_environment();
  if (plan.harm == "call" && world.rank == plan.victim) continue_traced(plan, world.rank);
  Log log(plan.folder, world.rank);
  at::set_num_threads(1);
  int code = 0;
  try {
    run(plan, world, log);
  } catch (const std::exception& error) {
    log.line("error", error.what());
    code = 3;
  }
  // Rank 0 serves the store, which a stopped process would be waited for by: none waits here.
  std::quick_exit(code);
}
