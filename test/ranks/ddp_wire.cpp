// Shard<DDP>: what is sent, and when; memory; sparse gradients; buffers; failures in backward.
#include "test.hpp"

#include <ikebana/bridge/memory.hpp>

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks {

/// A process group of a user's own, which counts what is sent. `events` are of one rank.
class Counting : public c10d::Backend {
 public:
  Counting(c10::intrusive_ptr<c10d::Backend> inner, std::vector<std::string>* log)
      : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)), log_(log) {}
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& list, int to, int tag) override {
    for (const at::Tensor& t : list) bytes += static_cast<std::int64_t>(t.nbytes());
    if (log_ != nullptr) log_->push_back("send " + std::to_string(tag));
    return inner_->send(list, to, tag);
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& list, int from, int tag) override {
    return inner_->recv(list, from, tag);
  }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& list,
                                           const c10d::AllreduceOptions& options) override {
    return inner_->allreduce(list, options);
  }
  std::int64_t bytes = 0;

 private:
  c10::intrusive_ptr<c10d::Backend> inner_;
  std::vector<std::string>* log_;
};

/// Layers of one size in a row. A gradient that reaches layer `watched` calls `during_backward`.
struct RowImpl : torch::nn::Module {
  std::vector<torch::nn::Linear> layers;
  std::size_t watched = 0;
  std::function<void()> during_backward = {};
  RowImpl() {
    for (int i = 0; i < 12; ++i)
      layers.push_back(register_module(std::to_string(i), torch::nn::Linear(256, 256)));
  }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    at::Tensor x = batch.input;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = at::tanh(layers[i](x));
      if (i == watched && during_backward && x.requires_grad())
        x.register_hook([this](const at::Tensor&) { during_backward(); });
    }
    return {at::mse_loss(x, batch.target, at::Reduction::Sum), batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Row);
std::vector<Rows> long_rows(std::int64_t steps, std::int64_t rows) {
  torch::manual_seed(3);
  std::vector<Rows> all;
  for (std::int64_t i = 0; i < steps; ++i)
    all.push_back({at::randn({rows, 256}), at::rand({rows, 256})});
  return all;
}

TEST_CASE("ddp: 2 (N - 1) / N of the gradients' bytes are sent, and the first bucket in backward") {
  const auto all = long_rows(1, 6);
  for (std::int64_t n : {2, 3}) {
    auto store = c10::make_intrusive<c10d::HashStore>();
    const auto ranks = static_cast<std::size_t>(n);
    std::vector<std::int64_t> bytes(ranks);
    std::vector<std::vector<std::string>> logs(ranks);
    std::vector<Row> models;
    for (std::size_t r = 0; r < ranks; ++r) models.push_back(make<Row>());
    on_threads(n, [&](std::shared_ptr<Wire> wire) {
      const auto r = static_cast<std::size_t>(wire->rank());
      const auto limit = std::chrono::minutes(1);
      auto counting = c10::make_intrusive<Counting>(
          ikebana::detail::make_gloo(store, wire->rank(), n, limit, true), &logs[r]);
      models[r]->during_backward = [&] { logs[r].push_back("first layer"); };
      Trainer trainer{models[r], SGD{},
                      Shard<DDP>{.process_group = ProcessGroup(counting), .bucket_cap_mb = 0.55}};
      counting->bytes = 0;
      trainer.step(part(all[0], wire->rank(), n));
      bytes[r] = counting->bytes;
    });
    const double gradients = 12 * (256 * 256 + 256) * 4, expected = 2 * gradients * (n - 1) / n;
    for (std::size_t r = 0; r < ranks; ++r) {
      CHECK(static_cast<double>(bytes[r]) > 0.95 * expected);
      CHECK(static_cast<double>(bytes[r]) < 1.05 * expected);
      auto place = [&](const std::string& event) {
        return std::find(logs[r].begin(), logs[r].end(), event) - logs[r].begin();
      };
      using Tag = ikebana::detail::MessageTag;
      auto sent = [&](int tag) { return place("send " + std::to_string(tag)); };
      const auto end = std::ssize(logs[r]);
      CHECK(place("first layer") < end);
      for (std::size_t bucket : {0, 1, 2, 3}) {
        CHECK(sent(Tag::reduce(bucket)) < sent(Tag::spread(bucket)));
        CHECK(sent(Tag::spread(bucket)) < place("first layer"));
      }
      CHECK(sent(Tag::reduce(5)) > place("first layer"));
      CHECK(sent(Tag::reduce(5)) < end);
      CHECK(sent(Tag::reduce(6)) == end);
    }
  }
}

TEST_CASE("ddp: a step has memory for one bucket beside the gradients") {
  bridge::MemoryCounter counter(c10::kCPU);
  const auto all = long_rows(2, 4);
  Row model = make<Row>();
  Trainer alone{model, AdamW{}};
  alone.step(all[0]);
  std::int64_t before = counter.now();
  counter.reset_peak();
  alone.step(part(all[1], 0, 2));
  const std::int64_t of_one = counter.peak() - before;
  std::vector<Row> models{make<Row>(), make<Row>()};
  std::int64_t of_two = 0;
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    Trainer trainer{models[r], AdamW{}, Shard<DDP>{.process_group = group, .bucket_cap_mb = 0.55}};
    trainer.step(part(all[0], group.rank(), 2));
    trainer.with_full_weights([](Row&) {});
    if (r == 0) before = counter.now(), counter.reset_peak();
    trainer.with_full_weights([](Row&) {});
    trainer.step(part(all[1], group.rank(), 2));
    trainer.with_full_weights([](Row&) {});
    if (r == 0) of_two = counter.peak() - before;
    trainer.with_full_weights([](Row&) {});
  });
  const std::int64_t layer = (256 * 256 + 256) * 4, bucket = 2 * layer;
  CHECK(of_one > 12 * layer);
  CHECK(of_two < 2 * of_one + 2 * (bucket + layer));
  CHECK(of_two > 2 * 12 * layer);
}

TEST_CASE("ddp: a failure in the middle of backward undoes the step on all ranks") {
  const auto all = long_rows(3, 6);
  auto train = [&](std::int64_t failing, std::size_t layer) {
    std::vector<Row> models{make<Row>(), make<Row>(), make<Row>()};
    std::vector<std::vector<at::Tensor>> weights(3);
    on_groups(3, [&](const ProcessGroup& group) {
      Row& model = models[static_cast<std::size_t>(group.rank())];
      Trainer trainer{model, AdamW{}, Shard<DDP>{.process_group = group, .bucket_cap_mb = 0.55}};
      auto mine = [&](std::size_t i) { return part(all[i], group.rank(), 3); };
      trainer.step(mine(0));
      if (failing >= 0) {
        model->watched = layer;
        if (group.rank() == failing)
          model->during_backward = [] { throw std::runtime_error("no backward"); };
        const StateDict before = trainer.state();
        for (int twice : {0, 1}) {
          CAPTURE(twice);
          const std::string text = message_of([&] { trainer.step(mine(1)); });
          CHECK_MESSAGE(contains(text, "no backward"), text);
          CHECK(same_state(trainer.state(), before));
          for (const auto& p : model->parameters()) CHECK(!p.grad().defined());
        }
        model->during_backward = {};
      }
      trainer.step(mine(1)), trainer.step(mine(2));
      weights[static_cast<std::size_t>(group.rank())] = copies(model);
    });
    for (std::size_t r : {1, 2}) CHECK(same_bits(weights[r], weights[0]));
    return weights[0];
  };
  const auto expected = train(-1, 0);
  for (std::int64_t failing : {0, 1, 2})
    for (std::size_t layer : {0, 6, 11}) CHECK(same_bits(train(failing, layer), expected));
}

TEST_CASE("ddp: gradients outside of a step are left alone, also after the trainer's end") {
  const auto all = long_rows(2, 4);
  std::vector<Row> models{make<Row>(), make<Row>()};
  on_groups(2, [&](const ProcessGroup& group) {
    Row& model = models[static_cast<std::size_t>(group.rank())];
    const at::Tensor weight = model->layers[3]->weight;
    at::Tensor later;
    {
      Trainer trainer{model, SGD{}, Shard<DDP>{.process_group = group}};
      trainer.step(part(all[0], group.rank(), 2));
      (weight * 3).sum().backward();
      CHECK(at::equal(weight.grad(), at::full({256, 256}, 3)));
      trainer.step(part(all[1], group.rank(), 2));
      later = (weight * 5).sum();
    }
    weight.mutable_grad().reset();
    later.backward();
    CHECK(at::equal(weight.grad(), at::full({256, 256}, 5)));
  });
}

TEST_CASE("ddp: what ranks cannot train together is an error on all") {
  auto all_say = [&](const char* words, auto f) {
    const auto all = long_rows(2, 4);
    std::vector<Row> models{make<Row>(), make<Row>()};
    std::vector<std::string> texts(2);
    on_groups(2, [&](const ProcessGroup& group) {
      const auto r = static_cast<std::size_t>(group.rank());
      texts[r] = message_of([&] { f(group, models[r], all); });
    });
    for (const std::string& text : texts) CHECK_MESSAGE(contains(text, words), text);
  };
  all_say("rank 0 has bucket_cap_mb=1,", [](auto& group, Row& model, auto& all) {
    Trainer t{model, Shard<DDP>{.process_group = group, .bucket_cap_mb = 1.0 + group.rank()}};
    t.step(all[0]);
  });
  all_say("Shard<DDP>: a value was changed", [](auto& group, Row& model, auto& all) {
    Trainer t{model, Shard<DDP>{.process_group = group}};
    t.step(all[0]);
    t.template get<Shard<DDP>>().broadcast_buffers = false;
    t.step(all[0]);
  });
  all_say("`3.weight` was frozen when", [](auto& group, Row& model, auto& all) {
    model->layers[3]->weight.set_requires_grad(false);
    Trainer t{model, Shard<DDP>{.process_group = group}};
    t.step(all[0]);
    model->layers[3]->weight.set_requires_grad(true);
    t.step(all[0]);
  });
  for (std::size_t layer : {11, 10})  // before and after its bucket has begun
    all_say("was written after it had been handed over", [&](auto& group, Row& model, auto& all) {
      Trainer t{model, Shard<DDP>{.process_group = group, .bucket_cap_mb = 0.55}};
      bridge::PostAccumulateHook hook(model->layers[layer]->weight, [](const at::Tensor& p) {
        p.mutable_grad() = at::ones_like(p);
      });
      t.step(all[0]);
    });
  all_say("got a gradient after its gradient had been", [](auto& group, Row& model, auto& all) {
    Trainer t{model, Shard<DDP>{.process_group = group, .bucket_cap_mb = 0.55}};
    Rows batch = part(all[0], group.rank(), 2);
    model->during_backward = [&] {
      const at::AutoGradMode enabled(true);
      at::Tensor sum = at::zeros({});
      for (std::size_t i : {10, 11})
        sum = sum + model->layers[i]->weight.sum() + model->layers[i]->bias.sum();
      sum.backward();
    };
    t.step(batch);
  });
}

}  // namespace test::ranks
