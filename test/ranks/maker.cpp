// Tests models that a maker makes. Under Shard<FSDP> and <HSDP> their weights are made unit by
// unit, and equal the weights of a model that was made whole.
#include "test.hpp"

#include "makers.hpp"

using namespace ikebana;

namespace test::ranks::makers {

/// The state after a maker: the model's parameters without values, and the generator's position.
struct Seen {
  std::size_t away = 0, large = 0;
  bool same_layouts = true;
  at::Tensor generator;
  void look(const Whole& model, const Whole& whole) {
    const auto expected = whole->parameters();
    std::size_t i = 0;
    for (const at::Tensor& t : model->parameters()) {
      away += ikebana::detail::is_away(t);
      large += t.nbytes() > 4096;
      same_layouts = same_layouts && t.sizes() == expected[i].sizes() &&
                     t.strides() == expected[i].strides() &&
                     t.options().type_equal(expected[i].options());
      ++i;
    }
    at::Generator shared = at::detail::getDefaultCPUGenerator();
    generator = shared.get_state();
  }
};
Whole seeded(const Build& build) {
  torch::manual_seed(7);
  return Whole(build);
}
/// On so many ranks, as threads, which share a generator: one runs its maker at a time.
template <class How>
void makes_the_same(const Build& build, const Whole& whole, const at::Tensor& after,
                    std::int64_t ranks) {
  CAPTURE(ranks);
  std::mutex one_at_a_time;
  on_groups(ranks, [&](const ProcessGroup& group) {
    Seen seen;
    auto maker = [&] {
      std::lock_guard lock(one_at_a_time);
      Whole model = seeded(build);
      seen.look(model, whole);
      return model;
    };
    Trainer trainer{maker, SGD{}, Shard<How>{.process_group = group}};
    CHECK(seen.same_layouts);
    CHECK(seen.away > 0);
    CHECK(seen.away >= seen.large);
    CHECK(same_bits(seen.generator, after));
    trainer.with_full_weights([&](Whole& model) {
      for (const auto& item : whole->named_parameters()) {
        CAPTURE(item.key());
        CHECK(same_bits(model->named_parameters()[item.key()], item.value()));
      }
      for (const auto& item : whole->named_buffers()) {
        CAPTURE(item.key());
        CHECK(same_bits(model->named_buffers()[item.key()], item.value()));
      }
    });
  });
}
TEST_CASE("ranks: a maker's weights, buffers and random numbers are those of a whole model") {
  for (const auto& [name, build] : idioms()) {
    CAPTURE(std::string(name));
    const Whole whole = seeded(build);
    at::Generator shared = at::detail::getDefaultCPUGenerator();
    const at::Tensor after = shared.get_state();
    for (std::int64_t ranks : {1, 2, 3, 4}) {
      const std::string error =
          message_of([&] { makes_the_same<FSDP>(build, whole, after, ranks); });
      CHECK_MESSAGE(error.empty(), error);
    }
    makes_the_same<HSDP<2>>(build, whole, after, 4);
    CHECK(same_bits(shared.get_state(), after));
  }
}

/// Returns what is refused while the maker runs, or when the trainer is made.
std::string refused(const Build& build) {
  const Build with_weight = [&](WholeImpl& model) {
    Part part = model.part("part");
    part->register_module("linear", nn::Linear(50, 60));
    weight(part, "w", at::randn({60, 50}));
    const at::NoGradGuard no_grad;
    build(model);
  };
  return message_of<BadModel>(
      [&] { Trainer trainer{[&] { return Whole(with_weight); }, SGD{}, Shard<FSDP>{}}; });
}
at::Tensor large(WholeImpl& model) { return model.named_parameters()["part.w"]; }

void is_refused(const std::string& words, const Build& build) {
  const std::string text = refused(build);
  CHECK_MESSAGE(contains(text, words), text);
  CHECK_MESSAGE(contains(text, "while the maker ran"), text);
  CHECK_MESSAGE(contains(text, "Initialise by operators that write"), text);
}
const std::string of_weight = " of a tensor [60, 50] that `aten::randn` made";

TEST_CASE("ranks: what reads a value in a maker is refused by name") {
  is_refused("`aten::_local_scalar_dense` was called, which needs the values" + of_weight,
             [](WholeImpl& model) { large(model)[0][0].item<float>(); });
  is_refused("`aten::_local_scalar_dense` was called", [](WholeImpl& model) {
    if ((large(model) > 0).all().item<bool>()) return;
  });
  is_refused("`aten::equal` was called, which needs the values" + of_weight,
             [](WholeImpl& model) { (void)large(model).equal(at::zeros({60, 50})); });
  is_refused("`aten::nonzero` was called, which needs the values" + of_weight,
             [](WholeImpl& model) { large(model).nonzero(); });
  is_refused("`aten::masked_select` was called",
             [](WholeImpl& model) { large(model).masked_select(large(model) > 0); });
  is_refused("`aten::index.Tensor` was called",
             [](WholeImpl& model) { large(model).index({large(model) > 0}); });
}
TEST_CASE("ranks: what reads or replaces memory in a maker is refused by name") {
  is_refused("the values were used" + of_weight,
             [](WholeImpl& model) { large(model).data_ptr<float>()[0] = 1; });
  is_refused("the values were used" + of_weight,
             [](WholeImpl& model) { std::memset(large(model).data_ptr(), 0, 4); });
  is_refused("the values were used", [](WholeImpl& model) {
    const at::Tensor w = large(model);
    w.accessor<float, 2>()[0][0] = 1;
  });
  is_refused("the values were used",
             [](WholeImpl& model) { std::ostringstream() << large(model); });
  is_refused("was called, which gives a tensor other memory",
             [](WholeImpl& model) { large(model).set_(at::ones({60, 50})); });
  is_refused("", [](WholeImpl& model) { large(model).to_sparse(); });
  CHECK(refused([](WholeImpl& model) {
          const at::Tensor rates = at::linspace(0, 0.1, 12);  // small: made at once
          large(model).mul_(rates[3].item<double>());
          rates.data_ptr<float>()[0] = 1;
          large(model).detach().index({torch::tensor({1, 2})});
        }) == "");
}
TEST_CASE("ranks: what a maker leaves that is not a model as it should be is an error by name") {
  CHECK(contains(message_of<BadModel>(
                     [] { Trainer trainer{[] { return Whole(nullptr); }, SGD{}, Shard<FSDP>{}}; }),
                 "the model is empty"));
  Trainer trainer{[] {
                    Whole model(linear_layers);
                    model->table = at::arange(2000.0);
                    return model;
                  },
                  SGD{}, Shard<FSDP>{}};
  const std::string text = message_of([&] { trainer.step(at::ones({2, 2000})); });
  CHECK_MESSAGE(contains(text, "a tensor [2000] that `aten::arange"), text);
  CHECK_MESSAGE(contains(text, "is neither a parameter nor a buffer of the model"), text);
  CHECK_MESSAGE(
      contains(message_of([&] { at::sum(trainer.model()->parameters()[0]); }), "is not here"),
      "a use between steps");
  std::vector<std::string> texts(2);
  bridge::MemoryCounter counter(at::kCPU);
  on_groups(2, [&](const ProcessGroup& group) {
    const std::int64_t rows = 2000 + group.rank();
    texts[static_cast<std::size_t>(group.rank())] = message_of<BadModel>([&] {
      Trainer other{[&] {
                      return Whole([&](WholeImpl& model) {
                        weight(*std::make_unique<Part>(model.part("part")), "w",
                               at::zeros({rows, 2000}));
                      });
                    },
                    SGD{}, Shard<FSDP>{.process_group = group}};
    });
  });
  for (const std::string& one : texts)
    CHECK_MESSAGE(contains(one,
                           "rank 0 has the parameter `part.w` [2000, 2000] Float, and rank 1 "
                           "has `part.w` [2001, 2000] Float"),
                  one);
  CHECK(counter.peak() - counter.now() < 2000 * 2000);  // nothing was made
}
TEST_CASE("ranks: where ranks hold whole parameters a maker is called, and its model trained") {
  const Whole whole = seeded(linear_layers);
  bool had_values = false;
  auto maker = [&] {
    Whole model = seeded(linear_layers);
    had_values = !ikebana::detail::is_away(model->parameters()[0]);
    return model;
  };
  Trainer one{maker, SGD{}};
  static_assert(std::is_same_v<decltype(one), Trainer<Whole, SGD>>);
  CHECK(had_values);
  CHECK(same_bits(one.model()->parameters(), whole->parameters()));
  Trainer<Whole, SGD, Shard<FSDP>> several{maker};
  CHECK(!had_values);
  Trainer<WholeImpl, SGD> by_pointer{[&] { return seeded(linear_layers).ptr(); }, SGD{.lr = 2}};
  CHECK(same_bits(by_pointer.model()->parameters(), whole->parameters()));
}

}  // namespace test::ranks::makers
