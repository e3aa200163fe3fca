// Tests that ranks which do not compute alike with modules::SyncBatchNorm all throw an error.
#include "test.hpp"

#include "sync_nets.hpp"

namespace test::ranks::sync_failures {

using namespace sync_nets;

/// Steps of two ranks that fail, of which each tells what it threw; the next step succeeds.
template <class Prepare>
std::vector<std::string> failures(const Prepare& prepare, std::int64_t rows_of_0 = 3,
                                  std::int64_t rows_of_1 = 3) {
  std::vector<SyncNet> models{new_net<SyncBatchNorm>(), new_net<SyncBatchNorm>()};
  std::vector<std::string> texts(2);
  Rows all = batches(1, 6)[0];
  all.input = all.input.to(at::kDouble);
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    Trainer trainer{models[r], optimizer, Shard<DDP>{.process_group = group}};
    prepare(*models[r], group.rank());
    const Rows mine = r == 0 ? rows_of(all, 0, rows_of_0) : rows_of(all, rows_of_0, rows_of_1);
    texts[r] = message_of([&] { trainer.step(mine); });
    models[r]->before_second = models[r]->after_second = {};
    models[r]->penalty = false;
    models[r]->train();
    const auto before = trainer.steps();
    trainer.step(rows_of(all, 3 * group.rank(), 3));
    CHECK(before == 0);
  });
  CHECK(same_bits(models[0]->buffers(), models[1]->buffers()));
  CHECK(models[0]->norm->num_batches_tracked.item<double>() == 1);
  return texts;
}
void both(const std::vector<std::string>& texts, const std::string& part) {
  for (const std::string& text : texts) CHECK_MESSAGE(contains(text, part), text);
}
using Net = NormNetImpl<SyncBatchNorm>;
TEST_CASE("SyncBatchNorm: ranks that compute with other layers throw, and none waits") {
  both(failures([](Net& net, std::int64_t rank) { net.first->norm->train(rank == 0); }),
       "layers in training mode that compute with all ranks");
  auto again = [](Net& net) { return [&net](const at::Tensor& x) { net.norm(x); }; };
  auto texts = failures([&](Net& net, std::int64_t rank) {
    if (rank == 1) net.before_second = again(net);
  });
  CHECK_MESSAGE(contains(texts[0],
                         "this rank is at the forward of `second.norm`, and rank 1 at the "
                         "forward of `norm`"),
                texts[0]);
  CHECK_MESSAGE(contains(texts[1], "and rank 0 at the forward of `second.norm`"), texts[1]);
  texts = failures([&](Net& net, std::int64_t rank) {
    if (rank == 1) net.after_second = again(net);
  });
  CHECK_MESSAGE(contains(texts[0], "is at the end of a forward, and rank 1 at the forward of"),
                texts[0]);
}
TEST_CASE("SyncBatchNorm: what it cannot compute is an error on all ranks") {
  SyncBatchNorm other(8);
  both(failures([&](Net& net, std::int64_t) {
         net.before_second = [&](const at::Tensor& x) { other(x); };
       }),
       "is no module of the model of this trainer");
  both(failures([](Net& net, std::int64_t) { net.penalty = true; }), "no second derivative");
  both(failures([](Net& net, std::int64_t) {
         net.before_second = [&net](const at::Tensor& x) { net.norm(x.t()); };
       }),
       "it must be (N, 8, *)");
  both(failures([](Net&, std::int64_t) {}, 1, 0), "has one value in each channel over all ranks");
  const at::Tensor flat = at::ones({3});
  CHECK(contains(message_of<BadBatch>([&] { SyncBatchNorm(3)(flat); }), "the shape [3]"));
}
/// A group that compares no names, as devices after the first call.
struct Unnamed : Wire {
  using Wire::Wire;
  void sum_in(const std::string&, std::vector<at::Tensor>& values) override { sum(values); }
};
TEST_CASE("SyncBatchNorm: another order of layers is found where each call is not compared") {
  auto store = c10::make_intrusive<c10d::HashStore>();
  auto make_model = [] { return torch::nn::Sequential(SyncBatchNorm(2), SyncBatchNorm(2)); };
  std::vector<torch::nn::Sequential> models{make_model(), make_model()};
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    Unnamed group(store, wire->rank(), 2);
    auto& model = models[static_cast<std::size_t>(wire->rank())];
    const ikebana::detail::ModelRankCalls<false> calls(*model, Ranks{group, group});
    const at::Tensor x = at::ones({2, 2});
    auto forward = [&](std::size_t first) {
      const auto scope = calls.scope(/*is_dummy=*/false);
      for (std::size_t i : {first, 1 - first}) model[i]->as<SyncBatchNorm>()->forward(x);
      calls->compare("the end of a forward");
    };
    forward(0);
    CHECK(contains(message_of<BadModel>([&] { forward(static_cast<std::size_t>(wire->rank())); }),
                   "in another order than rank 0"));
  });
}
TEST_CASE("SyncBatchNorm: in with_full_weights it computes with all ranks; a graph needs them") {
  std::vector<SyncNet> models{new_net<SyncBatchNorm>(), new_net<SyncBatchNorm>()};
  torch::manual_seed(9);
  const at::Tensor all = at::randn({7, 8}, at::kDouble), expected = [&] {
    BatchNorm1d norm(8);
    norm->to(at::kDouble);
    return norm(all);
  }();
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    const at::Tensor mine = r == 0 ? all.narrow(0, 0, 3) : all.narrow(0, 3, 4),
                     want = r == 0 ? expected.narrow(0, 0, 3) : expected.narrow(0, 3, 4);
    at::Tensor y;
    {
      Trainer trainer{models[r], optimizer, Shard<DDP>{.process_group = group}};
      trainer.with_full_weights(
          [&](auto& model) { y = model->norm(mine.clone().requires_grad_()); });
      CHECK(worst_relative({y}, {want}) < 1e-12);
    }
    CHECK(contains(message_of<BadModel>([&] { y.sum().backward(); }),
                   "the backward of `norm` ran after its trainer was destroyed"));
  });
}

}  // namespace test::ranks::sync_failures
