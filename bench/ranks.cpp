// Measures what each policy on several ranks costs one of them: the peak of its memory in a step,
// what it sends, and the time of the step. Ranks are processes on this machine. First argument: how
// many, by default two. Writes a Markdown table.
#include <chrono>
#include <cstdlib>
#include <gpt.hpp>
#include <ikebana/shard.hpp>

#include "conditions.hpp"

namespace {

using namespace ikebana;

/// Counts the bytes that this rank sends by another process group.
class Counting : public c10d::Backend {
 public:
  explicit Counting(c10::intrusive_ptr<c10d::Backend> inner)
      : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& list, int to, int tag) override {
    for (const at::Tensor& t : list) bytes += static_cast<double>(t.nbytes());
    return inner_->send(list, to, tag);
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& list, int from, int tag) override {
    return inner_->recv(list, from, tag);
  }
  double bytes = 0;

 private:
  c10::intrusive_ptr<c10d::Backend> inner_;
};

struct Trial {
  World world;
  c10::intrusive_ptr<c10d::Store> store;
  GPTConfig config{.layers = 6, .width = 384, .heads = 6, .context = 64};
  std::int64_t rows = 4, trainers = 0;
  int rounds = 5;

  c10::intrusive_ptr<Counting> group() {
    const auto limit = std::chrono::minutes(5);
    auto keys = c10::make_intrusive<c10d::PrefixStore>(std::to_string(trainers++), store);
    return c10::make_intrusive<Counting>(
        ikebana::detail::make_gloo(keys, world.rank, world.size, limit, /*all_local=*/true));
  }
};

/// One row of the table, in units of the parameters' bytes.
template <std::int64_t N, class How>
void measure(Trial& trial, const char* policy, Shard<How> values = {}) {
  auto group = trial.group();
  values.process_group = ProcessGroup(group);
  Trainer trainer{GPT(trial.config), AdamW{}, Accumulate<N>{}, Observe<Memory>{}, values};
  double parameters = 0;
  trainer.with_full_weights([&](GPT& model) {
    for (const auto& p : model->parameters()) parameters += static_cast<double>(p.nbytes());
  });
  const at::Tensor text = at::randint(256, {trial.rows * N, trial.config.context + 1});
  const Tokens batch{text.slice(1, 0, -1).contiguous(), text.slice(1, 1).contiguous()};
  for (int i = 0; i < 2; ++i) trainer.step(batch);  // the first allocates the optimizer's state
  std::vector<double> milliseconds;
  std::int64_t peak = 0;
  group->bytes = 0;
  for (int i = 0; i < trial.rounds; ++i) {
    const Report report = trainer.step(batch);
    milliseconds.push_back(1000 * report.seconds);
    peak = std::max(peak, report.peak_bytes.value_or(0));
  }
  if (trial.world.rank == 0)
    std::printf("| %s | %lld | %.2f | %.2f | %.0f |\n", policy, static_cast<long long>(N),
                static_cast<double>(peak) / parameters, group->bytes / trial.rounds / parameters,
                bench::median(milliseconds));
}

template <std::int64_t N>
void measure_all(Trial& trial) {
  measure<N, DDP>(trial, "DDP");
  measure<N, ZeRO1>(trial, "ZeRO1");
  measure<N, ZeRO2>(trial, "ZeRO2");
  measure<N, FSDP>(trial, "FSDP");
  if (N == 1) return;
  measure<N, ZeRO2>(trial, "ZeRO2, reduce_each_microbatch = false",
                    {.reduce_each_microbatch = false});
  measure<N, FSDP>(trial, "FSDP, reduce_each_microbatch = false",
                   {.reduce_each_microbatch = false});
}

void measure_ranks(const World& world) {
  const auto limit = std::chrono::minutes(5);
  Trial trial{.world = world, .store = make_store(world, limit)};
  if (world.rank == 0) {
    std::printf("%lld ranks; ", static_cast<long long>(world.size));
    bench::print_conditions("", trial.rounds);
    std::puts("| policy | microbatches | peak | sent | ms |\n|---|---:|---:|---:|---:|");
  }
  measure_all<1>(trial);
  measure_all<4>(trial);
  finish_store(*trial.store, world, limit);
}

}  // namespace

int main(int argc, char** argv) {
  return launch(argc, argv, argc > 1 ? std::atoll(argv[1]) : 2, measure_ranks);
}
