// Wide layers' slices are sent by themselves, and received in place.
#include "test.hpp"

#include <ikebana/bridge/memory_counter.hpp>

#include "counting_group.hpp"

using namespace ikebana;

namespace test::ranks::wide {

/// Bytes that the process holds, once when all of its ranks begin a step, and once when all are at
/// the update.
struct Bytes {
  std::int64_t ranks;
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  bridge::MemoryCounter counter{at::kCPU};

  /// Returns a time that is equal on all ranks, none of which goes on before it is known.
  std::int64_t now() {
    const std::int64_t calls = store->add("calls", 1);
    const std::string key = "bytes" + std::to_string((calls - 1) / ranks);
    if (calls % ranks == 0) store->set(key, std::to_string(counter.now()));
    const auto text = store->get(key);
    return std::stoll(std::string(text.begin(), text.end()));
  }
};
struct Watch {
  using axis = axis::observe;
  std::shared_ptr<Bytes> bytes;
  std::int64_t *rest, *update;  // before the step, and more than that at the update
};

}  // namespace test::ranks::wide

template <>
struct ikebana::Mechanism<test::ranks::wide::Watch> : ikebana::ObserveHooks {
  test::ranks::wide::Watch values;
  explicit Mechanism(test::ranks::wide::Watch v) : values(std::move(v)) {}

  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core&, const Batch&, Next&& next) {
    *values.rest = values.bytes->now();
    return next();
  }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    *values.update = values.bytes->now() - *values.rest;
  }
};

namespace test::ranks::wide {

/// One unit. Cuts are at multiples of eight elements, as a fused optimizer needs them for its bits.
struct BlockImpl : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(240, 288)),
                    back = register_module("back", torch::nn::Linear(288, 240));
  at::Tensor beside =
      register_parameter("beside", at::ones({288, 240}));  // the loss does not use it
  at::Tensor forward(const at::Tensor& x) { return x + back(at::tanh(layer(x))); }
};
TORCH_MODULE(Block);
struct WideImpl : torch::nn::Module {
  using units = Units<Block>;
  Block a = register_module("a", Block()), b = register_module("b", Block());
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor x = run(b, run(a, batch.input));
    return {at::mse_loss(x, batch.target, at::Reduction::Sum), batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Wide);

std::vector<Rows> wide_rows() {
  torch::manual_seed(5);
  std::vector<Rows> all;
  for (int i = 0; i < 3; ++i) all.push_back({at::randn({6, 240}), at::rand({6, 240})});
  return all;
}
template <class T, class Cut>
std::vector<at::Tensor> weights_after(T& trainer, const std::vector<Rows>& batches,
                                      const Cut& cut) {
  for (const Rows& batch : batches) trainer.step(cut(batch));
  return whole(trainer);
}
template <class How>
void check(const std::vector<std::int64_t>& worlds = {2, 3}) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const std::vector<Rows> batches = wide_rows();
  for (const std::int64_t ranks : worlds) {
    Trainer alone{make<Wide>(), AdamW{.lr = 1e-3}, Accumulate<>{.microbatches = ranks}};
    const auto expected = weights_after(alone, batches, [](const Rows& batch) { return batch; });
    std::vector<Wide> models;
    for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Wide>());
    on_groups(ranks, [&](const ProcessGroup& group) {
      Trainer trainer{models[static_cast<std::size_t>(group.rank())], AdamW{.lr = 1e-3},
                      Shard<How>{.process_group = group}};
      auto cut = [&](const Rows& batch) { return part(batch, group.rank(), ranks); };
      Rows bad = cut(batches[0]);
      if (group.rank() == 1) bad.target = bad.target.narrow(1, 0, 7);
      CHECK(message_of([&] { trainer.step(bad); }) != "");  // in the middle of messages
      CHECK(same_bits(weights_after(trainer, batches, cut), expected));
    });
  }
}
TEST_CASE("wide: large slices arrive in place, and the bits are those of one rank") {
  check<ZeRO1>(), check<ZeRO2>(), check<FSDP>(), check<HSDP<2>>({6}), check<HSDP<1>>({3});
}

/// Returns what each rank sends in a step, as a multiple of (N - 1) / N of the parameters' bytes.
template <class How>
double sent(std::int64_t ranks, std::int64_t microbatches, Shard<How> policy) {
  const std::vector<Rows> batches = wide_rows();
  std::vector<Wide> models{make<Wide>(), make<Wide>(), make<Wide>()};
  std::size_t parameters = 0;
  for (const auto& p : models[0]->parameters()) parameters += p.nbytes();
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(ranks));
  on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    auto counting = c10::make_intrusive<Counting>(
        ikebana::detail::make_gloo(store, wire->rank(), ranks, std::chrono::minutes(1), true));
    Shard<How> own = policy;
    own.process_group = ProcessGroup(counting);
    Trainer trainer{models[r], AdamW{.lr = 1e-3}, Accumulate<>{.microbatches = microbatches}, own};
    const Rows mine = part(batches[0], wire->rank(), ranks);
    trainer.step(mine), trainer.step(mine);  // in the first one nothing is stale, or expected
    counting->bytes = 0;
    trainer.step(mine);
    bytes[r] = counting->bytes;
  });
  CHECK(*std::max_element(bytes.begin(), bytes.end()) <
        *std::min_element(bytes.begin(), bytes.end()) + 1000);
  return static_cast<double>(bytes[0] * ranks) /
         static_cast<double>(static_cast<std::int64_t>(parameters) * (ranks - 1));
}
template <class How>
void sends(double multiple, std::int64_t microbatches, Shard<How> policy) {
  for (std::int64_t ranks : {2, 3}) {
    CAPTURE(ranks);
    CHECK(sent(ranks, microbatches, policy) == doctest::Approx(multiple).epsilon(0.05));
  }
}
/// Nothing is gathered or reduced twice: the bits would be the same.
TEST_CASE("wide: a step sends the bytes of its gathers and of one reduction") {
  sends<ZeRO1>(2, 1, {});
  sends<ZeRO1>(2, 2, {});  // reduced after the last microbatch
  sends<ZeRO2>(2, 1, {});
  sends<ZeRO2>(3, 2, {});
  sends<ZeRO2>(2, 2, {.reduce_each_microbatch = false});
  sends<FSDP>(2.5, 1, {});  // the last of two units stays for its backward
  sends<FSDP>(5, 2, {});
  sends<FSDP>(4, 2, {.reduce_each_microbatch = false});
  sends<FSDP>(3, 1, {.reshard_after_forward = true});
  sends<FSDP>(2, 1, {.reshard_after_forward = false});
  sends<FSDP>(2.5, 1, {.forward_prefetch = false, .backward_prefetch = false});
}

/// The bytes that each rank sends within its copy, of two, and to others, over the bytes of the
/// parameters.
struct SentBytes {
  std::vector<double> inside, across;  // the bytes, by rank
};
SentBytes sent_by_copies(std::int64_t ranks, std::int64_t microbatches, Shard<HSDP<2>> policy) {
  const std::vector<Rows> batches = wide_rows();
  std::vector<Wide> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Wide>());
  double parameters = 0;
  for (const auto& p : models[0]->parameters()) parameters += static_cast<double>(p.nbytes());
  auto store = c10::make_intrusive<c10d::HashStore>();
  SentBytes sent{std::vector<double>(models.size()), std::vector<double>(models.size())};
  on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    auto counting = c10::make_intrusive<Counting>(
        ikebana::detail::make_gloo(store, wire->rank(), ranks, std::chrono::minutes(1), true));
    Shard<HSDP<2>> own = policy;
    own.process_group = ProcessGroup(counting);
    Trainer trainer{models[r], AdamW{.lr = 1e-3}, Accumulate<>{.microbatches = microbatches}, own};
    const Rows mine = rows_of(batches[0], 0, 2);
    trainer.step(mine), trainer.step(mine);
    counting->bytes_to.assign(counting->bytes_to.size(), 0);
    trainer.step(mine);
    for (std::size_t to = 0; to < models.size(); ++to)
      (to / 2 == r / 2 ? sent.inside : sent.across)[r] +=
          static_cast<double>(counting->bytes_to[to]) / parameters;
  });
  return sent;
}
void sends_by_copies(double inside, const std::vector<double>& across, std::int64_t microbatches,
                     const Shard<HSDP<2>>& policy) {
  const SentBytes sent = sent_by_copies(2 * std::ssize(across), microbatches, policy);
  for (std::size_t r = 0; r < sent.inside.size(); ++r) {
    CAPTURE(r);
    CHECK(sent.inside[r] == doctest::Approx(inside).epsilon(0.05));
    CHECK(sent.across[r] == doctest::Approx(across[r / 2]).epsilon(0.05));
  }
}
/// No gather crosses the border of a copy, and of gradients slices do, which are halves.
TEST_CASE("wide: between copies no more goes than slices of gradients") {
  sends_by_copies(2.5 / 2, {0.5, 0.5}, 1, {});
  sends_by_copies(2.5 / 2, {1, 0.5, 0.5}, 1, {});
  sends_by_copies(2.5 / 2, {2. / 3, 2. / 3, 2. / 3}, 1, {.ordered = false});
  sends_by_copies(5. / 2, {1, 1}, 2, {});
  sends_by_copies(4. / 2, {0.5, 0.5}, 2, {.reduce_each_microbatch = false});
}

/// The memory that all ranks hold, over the bytes of the parameters. The loss uses two thirds of
/// the parameters: only these have gradients and moments.
struct Holding {
  double rest, update;
};
template <class How>
void hold(std::int64_t ranks, const Holding& expected, Shard<How> policy = {}) {
  CAPTURE(ranks);
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const std::vector<Rows> batches = wide_rows();
  auto bytes = std::make_shared<Bytes>(ranks);
  const std::int64_t before = bytes->counter.now();
  std::vector<Wide> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Wide>());
  double parameters = 0;
  for (const auto& p : models[0]->parameters()) parameters += static_cast<double>(p.nbytes());
  on_groups(ranks, [&](const ProcessGroup& group) {
    std::int64_t rest = 0, update = 0;
    Shard<How> own = policy;
    own.process_group = group;
    Trainer trainer{models[static_cast<std::size_t>(group.rank())], AdamW{.lr = 1e-3},
                    Watch{bytes, &rest, &update}, own};
    const Rows mine = part(batches[0], group.rank(), ranks);
    for (int i = 0; i < 3; ++i) trainer.step(mine);
    auto is = [&](std::int64_t measured, double times) {
      CHECK(static_cast<double>(measured) / parameters == doctest::Approx(times).epsilon(0.05));
    };
    is(rest - before, expected.rest), is(update, expected.update);
  });
}
/// Nothing that was sent, received or gathered is held any more, at the update and between steps.
TEST_CASE("wide: ranks hold what the policy says, and nothing else") {
  for (std::int64_t ranks : {2, 3}) {
    const auto n = static_cast<double>(ranks);
    hold<DDP>(ranks, {n * 7 / 3, n});  // buckets have memory for all
    hold<ZeRO1>(ranks, {n + 4. / 3, 2. / 3});
    hold<ZeRO2>(ranks, {n + 4. / 3, 2. / 3});
    hold<FSDP>(ranks, {7. / 3, 2. / 3});
  }
  for (const bool ordered : {true, false})
    hold<HSDP<2>>(6, {3 * 7. / 3, 3 * 2. / 3}, {.ordered = ordered});
}

}  // namespace test::ranks::wide
