// A step that throws puts buffers and random generators back, whatever the step did to them.
#include "test.hpp"

#include <ikebana/bridge/memory_counter.hpp>

#include "compare.hpp"

using namespace ikebana;

namespace test::restore_point {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Buffers of many kinds, and what a step does to them.
struct HolderImpl : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", torch::ones({3}));
  at::Tensor statistics = register_buffer("statistics", torch::arange(3.0));
  at::Tensor count = register_buffer("count", torch::zeros({}, at::kLong));
  at::Tensor table = register_buffer("table", torch::arange(6.0).view({2, 3}));
  at::Tensor empty = register_buffer("empty", torch::empty({0}));
  at::Tensor part = register_buffer("part", torch::arange(12.0).view({3, 4}).narrow(1, 1, 2));
  at::Tensor expanded = register_buffer("expanded", torch::ones({1}).expand({4}));
  at::Tensor sparse = register_buffer("sparse", torch::eye(3).to_sparse());
  at::Tensor alias = register_buffer("alias", weight.detach());
  at::Tensor undefined = register_buffer("undefined", at::Tensor());
  std::function<void(HolderImpl&)> change = [](HolderImpl&) {};
  bool fails = false;

  template <class Run>
  Loss loss(Run&, const at::Tensor& input) {
    auto sum = (input * weight).sum();
    change(*this);
    torch::rand({5});
    if (fails) throw Failure("in the loss");
    return {sum, input.numel()};
  }
};
TORCH_MODULE(Holder);

struct Change {
  std::string name;
  std::function<void(HolderImpl&)> make;
};
const Change changes[] = {
    {"in place", [](auto& h) { h.statistics.add_(1), h.count.add_(1), h.table.mul_(2); }},
    {"behind the version counter",
     [](auto& h) {
       auto variance = torch::ones({3});
       at::native_batch_norm(torch::randn({4, 3}), {}, {}, h.statistics, variance, true, 0.5, 1e-5);
     }},
    {"NaN", [](auto& h) { h.statistics.fill_(std::nan("")); }},
    {"a view with gaps", [](auto& h) { h.part.add_(1); }},
    {"sparse", [](auto& h) { h.sparse.mul_(3); }},
    {"sparse, other indices", [](auto& h) { h.sparse.add_(torch::ones({3, 3}).to_sparse()); }},
    {"other memory", [](auto& h) { h.table.set_data(h.table + 1); }},
    {"other memory, changed", [](auto& h) { h.count.set_data(h.count.clone().add_(2)); }},
    {"another shape", [](auto& h) { h.table.set_data(torch::zeros({7})); }},
    {"another dtype", [](auto& h) { h.count.set_data(torch::zeros({2})); }},
    {"resized", [](auto& h) { h.empty.resize_({4}).fill_(1); }},
    {"random numbers", [](auto&) { torch::randn({3}); }},
};

std::vector<at::Tensor> dense(const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> all;
  for (const auto& t : values) all.push_back((t.is_sparse() ? t.to_dense() : t).clone());
  return all;
}
at::Tensor next_numbers() {
  auto generator = at::globalContext().defaultGenerator(at::kCPU);
  return generator.get_state();
}

using Plain = Trainer<Holder, SGD>;
const at::Tensor& input() {
  static const at::Tensor rows = torch::ones({2, 3});
  return rows;
}
/// Makes a step that throws. Returns true if values, memory and generator are as before.
std::string undone(Plain& trainer) {
  Holder& model = trainer.model();
  const auto before = dense(model->buffers());
  const auto generator = next_numbers();
  model->fails = true;
  auto text = test::message_of<Failure>([&] { trainer.step(input()); });
  model->fails = false;
  if (text.empty()) return "nothing was thrown";
  if (!test::same_bits(dense(model->buffers()), before)) return "a buffer is another";
  return test::same_bits(next_numbers(), generator) ? "" : "the generator is elsewhere";
}

TEST_CASE("a step that throws: buffers and generators are put back, in the first and later steps") {
  for (const Change& change : changes) {
    INFO(change.name);
    Plain trainer{Holder()};
    trainer.model()->change = change.make;
    CHECK(undone(trainer) == "");
    CHECK(undone(trainer) == "");
    for (int i = 0; i < 2; ++i) {
      trainer.step(input());
      CHECK(undone(trainer) == "");
    }
  }
}

TEST_CASE("a step that throws: what was changed between steps stays changed") {
  for (const Change& change : changes) {
    INFO(change.name);
    Plain trainer{Holder()};
    for (int i = 0; i < 3; ++i) {
      change.make(*trainer.model());
      CHECK(undone(trainer) == "");
      trainer.step(input());
      change.make(*trainer.model());
      CHECK(undone(trainer) == "");
    }
  }
}

TEST_CASE("a step that throws: a buffer that is first changed by it is named") {
  Plain trainer{Holder()};
  Holder& model = trainer.model();
  trainer.step(input());
  auto change = [](HolderImpl& h) { h.table.mul_(2), h.count.add_(1), h.statistics.add_(1); };
  const auto statistics = model->statistics.clone();
  for (bool of_library : {false, true}) {
    model->change = [&](HolderImpl& h) {
      if (of_library) h.part.add_(1);
      else change(h);
      if (of_library) throw NonFinite("not finite.");
      at::ones({2}) + at::ones({3});
    };
    const auto text = test::message_of<Error>([&] { trainer.step(input()); });
    const char* sentence = "Buffers that no earlier step had changed keep what this one wrote: ";
    CHECK(
        test::contains(text, sentence + std::string(of_library ? "`part`." : "`count`, `table`.")));
    CHECK(test::contains(text, of_library ? "not finite." : "Nothing was updated."));
    CHECK(test::same_bits(model->statistics, statistics));
  }
  model->change = [&](HolderImpl& h) { change(h), h.part.add_(1); };
  CHECK(undone(trainer) == "");
  model->change = [](HolderImpl&) { throw BadBatch("no rows."); };
  CHECK(test::message_of<BadBatch>([&] { trainer.step(input()); }) == "no rows.");
}

TEST_CASE("a step that throws: a batch with a NaN leaves batch norm and dropout as they were") {
  namespace nn = torch::nn;
  nn::Sequential model(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Dropout(0.5), nn::Linear(4, 1));
  Trainer trainer{model, MSELoss{}, SGD{.lr = 0.1}};
  const std::pair good{test::random({6, 3}), test::random({6, 1}, 2)};
  const std::pair bad{good.first.masked_fill(good.first > 1, std::nan("")), good.second};
  for (int i = 0; i < 3; ++i) {
    const StateDict before = trainer.state();
    CHECK_THROWS_AS(trainer.step(bad), NonFinite);
    CHECK(same(trainer.state(), before));
    trainer.step(good);
    CHECK_FALSE(same(trainer.state(), before));
  }
}

TEST_CASE("a step that is skipped: statistics that its batch made NaN are put back") {
  namespace nn = torch::nn;
  nn::Sequential model(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Linear(4, 1));
  Trainer trainer{model, MSELoss{}, SGD{.lr = 0.1}, Precision<FP16>{.init_scale = 64}};
  const std::pair good{test::random({6, 3}), test::random({6, 1}, 2)};
  const std::pair bad{good.first.masked_fill(good.first > 1, std::nan("")), good.second};
  auto& norm = *model[1]->as<nn::BatchNorm1d>();
  for (int i = 0; i < 3; ++i) {
    const auto mean = norm.running_mean.clone(), var = norm.running_var.clone();
    CHECK(trainer.step(bad).skipped());
    CHECK(same_bits(norm.running_mean, mean));
    CHECK(same_bits(norm.running_var, var));
    CHECK_FALSE(trainer.step(good).skipped());
    CHECK_FALSE(same_bits(norm.running_mean, mean));
  }
}

TEST_CASE("a step that throws: only buffers that change keep a second copy") {
  bridge::MemoryCounter counter(at::kCPU);
  Holder model;
  const std::int64_t bytes = 1 << 20;
  at::Tensor changing = model->register_buffer("changing", torch::zeros({8, bytes / 32}));
  at::Tensor constant = model->register_buffer("constant", torch::zeros({8, bytes / 32}));
  model->change = [&](HolderImpl&) { changing.add_(1); };
  Plain trainer{model};
  const auto before = counter.now();
  for (int i = 0; i < 3; ++i) {
    trainer.step(input());
    const auto kept = counter.now() - before;
    CHECK(kept >= bytes);
    CHECK(kept < bytes + bytes / 4);
  }
}

}  // namespace test::restore_point
