// An update of slices that fails on one rank, at any of its messages or after them, is undone on
// all; and ranks that would exchange numbers of different parameters get an error.
#include "test.hpp"

#include "groups.hpp"
#include "slice_updates.hpp"

namespace test::ranks::slice_failures {

enum class Fuse { None, BeforeMessages, WithinMessages, AfterMessages };
/// An optimizer of one's own that needs whole parameters: subtracts `lr` times the sum of all means
/// of gradients from each element. Throws in an update if the fuse is set.
struct Means {
  using axis = axis::optimizer;
  double lr = 0.1;
  std::shared_ptr<Fuse> fuse = std::make_shared<Fuse>(Fuse::None);
  std::vector<Group> groups = {};
};
/// Says what a policy of a user's own does on one rank alone.
enum class Alone { ErasesGradient, Rejects };
struct Decides {
  using axis = axis::clip;
  Alone what;
  bool here;
};

}  // namespace test::ranks::slice_failures

template <>
struct ikebana::Mechanism<test::ranks::slice_failures::Means>
    : ikebana::PerParameterOptimizer<test::ranks::slice_failures::Means> {
  using Means = test::ranks::slice_failures::Means;
  using Fuse = test::ranks::slice_failures::Fuse;
  explicit Mechanism(Means v) : PerParameterOptimizer(std::move(v), {{"sum"}}) {
    by_operators_ = needs_whole_ = updates_cut_ = true;
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    prepare_each(masters, gradients, rate, 1, [](const auto&...) { return std::int64_t{0}; });
  }
  void update(const Masters&, StepGradients& gradients) {
    update_cut(gradients, [&](std::vector<ikebana::CutParameter>& all) {
      at::Tensor own = at::zeros({}, at::kDouble);
      for (auto& one : all)
        one.read([&](const auto& update) {
          update.state(0).add_(update.gradient());
          own += update.state(0).sum(at::kDouble) / one.slice().numel();
        });
      burn(Fuse::BeforeMessages);
      const auto size = static_cast<std::size_t>(ranks_->size());
      TensorsOfRanks to(size), from(size);
      for (std::size_t r = 0; r < size; ++r)
        if (static_cast<std::int64_t>(r) != ranks_->rank())
          to[r] = {own}, from[r] = {at::empty_like(own)};
      for (int i = 0; i < 2; ++i) ranks_->begin_swap(to, from);
      burn(Fuse::WithinMessages);
      for (int i = 0; i < 2; ++i) ranks_->finish_swap();
      for (const auto& list : from)
        for (const at::Tensor& one : list) own = own + one;
      for (auto& one : all) {
        one.write([&](const auto& update) { update.parameter().sub_(own * update.lr()); });
        burn(Fuse::AfterMessages);
      }
    });
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 1); }

 private:
  void burn(Fuse where) const {
    if (*values.fuse == where) throw Error("burnt");
  }
};
template <>
struct ikebana::Mechanism<test::ranks::slice_failures::Decides> : ikebana::ClipHooks {
  test::ranks::slice_failures::Decides values;
  explicit Mechanism(test::ranks::slice_failures::Decides v) : values(v) {}
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&) {
    using enum test::ranks::slice_failures::Alone;
    if (!values.here) return;
    if (values.what == Rejects) return gradients.reject(at::ones({}));
    gradients.values.erase(gradients.values.begin());
    gradients.indices.erase(gradients.indices.begin());
  }
};

namespace test::ranks::slice_failures {

TEST_CASE("slice failures: an update of one's own, over messages, is undone on all ranks") {
  const auto all = batches(3, 4);
  auto train = [&](std::int64_t failing) {
    std::vector<Tensors> weights(2);
    std::vector<Counted> models{make<Counted>(), make<Counted>()};
    on_groups(2, [&](const ProcessGroup& group) {
      const auto r = static_cast<std::size_t>(group.rank());
      const Means optimizer{.fuse = std::make_shared<Fuse>(Fuse::None)};
      Trainer trainer{models[r], optimizer, Shard<FSDP>{.process_group = group}};
      auto mine = [&](std::size_t i) { return part(all[i], group.rank(), 2); };
      trainer.step(mine(0));
      for (Fuse fuse : {Fuse::BeforeMessages, Fuse::WithinMessages, Fuse::AfterMessages}) {
        if (failing < 0) continue;
        const StateDict before = trainer.state();
        *optimizer.fuse = group.rank() == failing ? fuse : Fuse::None;
        const std::string text = message_of([&] { trainer.step(mine(1)); });
        CHECK_MESSAGE(contains(text, "burnt"), text);
        CHECK(same_state(trainer.state(), before));
      }
      *optimizer.fuse = Fuse::None;
      trainer.step(mine(1)), trainer.step(mine(2));
      weights[r] = whole(trainer);
    });
    CHECK(same_bits(weights[0], weights[1]));
    return weights[0];
  };
  const Tensors expected = train(-1);
  CHECK(same_bits(train(0), expected));
  CHECK(same_bits(train(1), expected));
}

/// Throws in the exchange that the fuse counts down to.
class Breaks : public Wire {
 public:
  using Wire::Wire;
  std::int64_t fuse = -1;

 protected:
  std::vector<std::string> all_gather(const std::string& own) override {
    if (fuse-- == 0) throw Error("broken");
    return Wire::all_gather(own);
  }
};
/// Each exchange of a step fails on one rank, the update's exchanges included.
template <class O>
void fails_at_exchanges(const O& optimizer) {
  CAPTURE(ikebana::detail::type_name<O>());
  const auto all = batches(3, 4);
  auto train = [&](std::int64_t failing) {
    std::vector<Tensors> weights(2);
    std::vector<Counted> models{make<Counted>(), make<Counted>()};
    auto store = c10::make_intrusive<c10d::HashStore>();
    on_threads(2, [&](std::shared_ptr<Wire> threads) {
      const std::int64_t rank = threads->rank();
      auto wire = std::make_shared<Breaks>(store, rank, 2);
      Trainer trainer{models[static_cast<std::size_t>(rank)], optimizer,
                      Double<Kind::FSDP>{.wire = wire}};
      auto mine = [&](std::size_t i) { return part(all[i], rank, 2); };
      trainer.step(mine(0));
      const std::int64_t before_step = wire->exchanges;
      trainer.step(mine(0));
      const std::int64_t exchanges = wire->exchanges - before_step;
      for (std::int64_t fuse = 0; failing >= 0 && fuse < exchanges; ++fuse) {
        const StateDict before = trainer.state();
        wire->fuse = rank == failing ? fuse : -1;
        const std::string text = message_of([&] { trainer.step(mine(1)); });
        CHECK_MESSAGE(contains(text, "broken"), text);
        wire->fuse = -1;
        CHECK(same_state(trainer.state(), before));
      }
      const StateDict saved = trainer.state();
      trainer.step(mine(1)), trainer.step(mine(2));
      weights[static_cast<std::size_t>(rank)] = whole(trainer);
      trainer.restore(saved);
      trainer.step(mine(1)), trainer.step(mine(2));
      CHECK(same_bits(whole(trainer), weights[static_cast<std::size_t>(rank)]));
    });
    CHECK(same_bits(weights[0], weights[1]));
    return weights[0];
  };
  const Tensors expected = train(-1);
  CHECK(same_bits(train(0), expected));
  CHECK(same_bits(train(1), expected));
}
TEST_CASE("slice failures: an exchange that fails undoes the update on all ranks") {
  fails_at_exchanges(Muon{.lr = 1e-2});
  fails_at_exchanges(Adafactor{});
  fails_at_exchanges(AdamW8bit{.lr = 1e-2, .block_size = 1000, .min_8bit_size = 0});
}

template <class How, class O>
void decides_alone(const O& optimizer, Alone what, const char* error) {
  CAPTURE(ikebana::detail::type_name<O>());
  CAPTURE(ikebana::detail::type_name<How>());
  const auto all = batches(1, 4);
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  on_groups(2, [&](const ProcessGroup& group) {
    Trainer trainer{models[static_cast<std::size_t>(group.rank())], optimizer,
                    Decides{what, group.rank() == 1}, Shard<How>{.process_group = group}};
    const StateDict before = trainer.state();
    const std::string text = message_of([&] { trainer.step(part(all[0], group.rank(), 2)); });
    CHECK_MESSAGE(contains(text, error), text);
    CHECK(same_state(trainer.state(), before));
  });
}
TEST_CASE("slice failures: ranks that decide alone get an error, and no rank waits") {
  const char* const erased = "rank 1 updates other parameters than rank 0";
  decides_alone<ZeRO2>(Muon{}, Alone::ErasesGradient, erased);
  decides_alone<ZeRO2>(AdamW{}, Alone::ErasesGradient, erased);
  decides_alone<DDP>(SGD{.lr = 0.1}, Alone::ErasesGradient, erased);
  decides_alone<ZeRO2>(Muon{}, Alone::Rejects, "at the update of Muon");
  decides_alone<ZeRO2>(AdamW{}, Alone::Rejects, "rank 1 rejects the update");
}

struct Windows : StateStorage {
  at::Tensor place_state(const at::Tensor& state) override { return state; }
  std::int64_t window_bytes() const override { return 1; }
};
TEST_CASE("slice failures: another cut, and windows of state, are refused") {
  const auto work = slice_updates::work({{9, 4}, {6, 6}}, at::kFloat, 1);
  Wire wire(c10::make_intrusive<c10d::HashStore>(), 0, 2);
  Masters masters = slice_updates::masters_of(work, &wire);
  Windows windows;
  masters.storage = &windows;
  ikebana::detail::MuonMatrices muon{Muon{}};
  muon.begin(masters);
  StepGradients gradients = slice_updates::gradients_of(masters, work.gradients[0]);
  muon.prepare(masters, gradients, [](double lr) { return lr; });
  const std::string text = message_of([&] { muon.update(masters, gradients); });
  CHECK_MESSAGE(contains(text, "Muon: its update of slices uses the state of several"), text);
  masters.slices[1].rows.first = 1;
  const std::string other =
      message_of([&] { ikebana::detail::MuonMatrices{Muon{}}.begin(masters); });
  CHECK_MESSAGE(contains(other, "Muon: `p1` is cut in another way than by `rows_of_rank`"), other);
}

}  // namespace test::ranks::slice_failures
