// Defines rows of several ranks. They are compared with one process of Python, for which the batch
// of each rank is a microbatch.
#include <future>
#include <ikebana/shard.hpp>

#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace shard_parts {

const AdamW adamw{.lr = 1e-3, .weight_decay = 0.1};
const SparseAdam sparse{.lr = 1e-2, .otherwise = AdamW{.lr = 1e-2}};
const CrossEntropyLoss loss;

/// Two ranks with unequal batches. They cut each parameter of this GPT at a multiple of eight
/// elements: the fused AdamW rounds the elements after the last such multiple otherwise.
Work<GPT> halves() {
  auto work = gpt();
  for (auto& parts : work.batches) {
    const Batch whole = parts[0];
    parts = {narrow(whole, 0, 4), narrow(whole, 4, 6)};
  }
  return work;
}

/// Makes the model of each rank, all but that of rank 0 with weights of its own, which training
/// begins by replacing.
template <class Make>
auto works_of(Make make, std::size_t ranks) {
  std::vector<decltype(make())> works;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    torch::manual_seed(3 + static_cast<std::int64_t>(rank));
    works.push_back(make());
  }
  return works;
}

/// Calls `f(group)` in a thread for each rank. Throws the first error once all have ended.
template <class F>
void on_ranks(std::size_t ranks, F&& f) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  const auto size = static_cast<std::int64_t>(ranks);
  std::vector<std::future<void>> running;
  for (std::int64_t rank = 0; rank < size; ++rank)
    running.push_back(std::async(std::launch::async, [&, rank] {
      f(ProcessGroup(store, rank, size, {.timeout = std::chrono::minutes(1)}));
    }));
  for (auto& thread : running) thread.wait();
  for (auto& thread : running) thread.get();
}

/// On a CPU each microbatch of a step is that of a rank, and rank 0 writes what it trained. On a
/// device, of which there may be one, one rank takes them all.
template <class How, class Make, class... Policies>
Row sharded(std::string name, Agreement agreement, Make make, Shard<How> shard,
            Policies... policies) {
  auto train_row = [=, ... policies = with_native_products(policies)](const std::string& path,
                                                                      c10::Device device) {
    const std::size_t ranks = device.is_cpu() ? make().batches[0].size() : 1;
    auto works = works_of(make, ranks);
    const auto batches = works[0].batches;
    std::vector<StateDict> files(ranks);
    append(files[0], "initial.", *works[0].model);
    append(files[0], batches);
    torch::manual_seed(11);
    on_ranks(ranks, [&](const ProcessGroup& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      auto own = shard;
      own.process_group = group;
      if (!device.is_cpu()) works[rank].model->to(device);
      Trainer trainer{works[rank].model, policies..., own};
      record<Policies...>(files[rank], trainer, batches, [&](auto& t, const auto& parts) {
        return ranks == 1 ? t.step(parts) : t.step(parts[rank]);
      });
    });
    save_tensors(path, files[0], metadata_of(name, works[0].net, agreement, policies...));
  };
  return {name, recipe_words<Policies..., Shard<How>>(), agreement, train_row};
}

}  // namespace shard_parts

// clang-format off
std::vector<Row> shard_rows() {
  using namespace shard_parts;
  return {
      sharded("gpt.ddp", bits, ragged<gpt>, Shard<DDP>{}, adamw),
      sharded("bag.ddp.sparse_adam", bits, ragged<bag>, Shard<DDP>{}, loss, sparse),
      sharded("gpt.zero1", bits, halves, Shard<ZeRO1>{}, adamw),
      sharded("gpt.zero2", bits, halves, Shard<ZeRO2>{}, adamw),
      sharded("gpt.fsdp", bits, halves, Shard<FSDP>{}, adamw),
      sharded("gpt.hsdp", bits, halves, Shard<HSDP<1>>{}, adamw),
      sharded("gpt.fsdp.all", bits_with("widened attention"), halves, Shard<FSDP>{}, adamw,
              CosineAnnealingLR{.T_max = 16, .warmup_steps = 4}, Precision<BF16>{},
              Checkpoint<Full>{}, EMA{.decay = 0.9}),
  };
}
// clang-format on

}  // namespace parity
