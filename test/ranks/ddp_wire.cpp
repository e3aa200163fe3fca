// Shard<DDP>: what is sent, and when; memory; failures in backward; gradients outside of steps.
#include "test.hpp"

#include <ikebana/bridge/memory_counter.hpp>

#include "counting_group.hpp"
#include "row_net.hpp"

using namespace ikebana;

namespace test::ranks::ddp_wire {

/// Records what each rank sends in a step, and when: `log` has the tags of messages, and "first
/// layer" when backward is there.
struct Sent {
  std::int64_t bytes = 0;
  std::vector<std::string> log;

  std::ptrdiff_t place(const std::string& event) const {
    return std::find(log.begin(), log.end(), event) - log.begin();
  }
  std::ptrdiff_t place(int tag) const { return place("send " + std::to_string(tag)); }
};
std::vector<Sent> sent_by(std::int64_t ranks) {
  const auto all = long_rows(1, 6);
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<Sent> sent(static_cast<std::size_t>(ranks));
  std::vector<Row> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Row>());
  on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    const auto limit = std::chrono::minutes(1);
    auto counting = c10::make_intrusive<Counting>(
        ikebana::detail::make_gloo(store, wire->rank(), ranks, limit, true), &sent[r].log);
    models[r]->during_backward = [&] { sent[r].log.push_back("first layer"); };
    Trainer trainer{
        models[r], SGD{},
        Shard<DDP>{.process_group = ProcessGroup(counting), .bucket_cap_mb = two_layers}};
    counting->bytes = 0;
    trainer.step(part(all[0], wire->rank(), ranks));
    sent[r].bytes = counting->bytes;
  });
  return sent;
}
TEST_CASE("ddp: 2 (N - 1) / N of the gradients' bytes are sent, and the first bucket in backward") {
  for (std::int64_t ranks : {2, 3}) {
    const double n = static_cast<double>(ranks), gradients = 12 * (256 * 256 + 256) * 4;
    const double expected = 2 * gradients * (n - 1) / n;
    for (const Sent& sent : sent_by(ranks)) {
      CHECK(static_cast<double>(sent.bytes) > 0.95 * expected);
      CHECK(static_cast<double>(sent.bytes) < 1.05 * expected);
      using Tag = ikebana::detail::MessageTag;
      const auto first_layer = sent.place("first layer"), end = std::ssize(sent.log);
      CHECK(first_layer < end);
      for (std::size_t bucket : {0u, 1u, 2u, 3u}) {
        CHECK(sent.place(Tag::reduce(bucket)) < sent.place(Tag::spread(bucket)));
        CHECK(sent.place(Tag::spread(bucket)) < first_layer);
      }
      CHECK(sent.place(Tag::reduce(5)) > first_layer);
      CHECK(sent.place(Tag::reduce(5)) < end);
      CHECK(sent.place(Tag::reduce(6)) == end);
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
    Trainer trainer{models[r], AdamW{},
                    Shard<DDP>{.process_group = group, .bucket_cap_mb = two_layers}};
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
      Trainer trainer{model, AdamW{},
                      Shard<DDP>{.process_group = group, .bucket_cap_mb = two_layers}};
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
    for (std::size_t r : {1u, 2u}) CHECK(same_bits(weights[r], weights[0]));
    return weights[0];
  };
  const auto expected = train(-1, 0);
  for (std::int64_t failing : {0, 1, 2})
    for (std::size_t layer : {0u, 6u, 11u}) CHECK(same_bits(train(failing, layer), expected));
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

}  // namespace test::ranks::ddp_wire
