// Tests that a training that is saved and resumed has the bits of an uninterrupted one, and that a
// load that fails changes nothing.
#include <ikebana/state/async_save.hpp>
#include "state/folder.hpp"
#include "state/watch.hpp"

using namespace ikebana;
namespace nn = torch::nn;

namespace test::resume {

std::pair<at::Tensor, at::Tensor> batch(int i) {
  return {at::linspace(-1 - i, 1, 256).view({32, 8}).cos(), (at::arange(32) + i) % 3};
}
auto model() {
  torch::manual_seed(0);
  return nn::Sequential(nn::Linear(8, 16), nn::BatchNorm1d(16), nn::Dropout(0.5),
                        nn::Linear(16, 3));
}
/// An object of the user that is saved beside the trainer.
struct Counter {
  std::int64_t batches = 0;
  double best = 0.1;
  void state(Archive& archive) { archive.number("batches", batches), archive.number("best", best); }
};

/// Makes steps, saves, makes further steps; then makes the same further steps from the file.
template <class... Policies>
void resumes(Policies... policies) {
  const Folder folder;
  auto made = [&] { return Trainer{model(), CrossEntropyLoss{}, policies...}; };
  auto whole = made();
  Counter counter;
  auto steps = [&](auto& trainer, int from, int to) {
    for (int i = from; i < to; ++i) trainer.step(batch(i)), ++counter.batches;
  };
  steps(whole, 0, 3);
  whole.save(folder / "state.safetensors", counter);
  steps(whole, 3, 6);
  auto resumed = made();
  steps(resumed, 7, 9);  // its own state, which load replaces
  Counter again{.batches = 7};
  resumed.load(folder / "state.safetensors", again);
  CHECK((again.batches == 3 && again.best == 0.1));
  steps(resumed, 3, 6);
  CHECK(same_state(resumed.state(), whole.state()));
}

TEST_CASE("a trainer that is saved and loaded continues with the same bits") {
  resumes(EMA{.use_buffers = true}, Precision<FP16>{.growth_interval = 2}, ClipGradNorm{});
  resumes(Precision<BF16Weights>{}, SGD{.momentum = 0.9}, CosineAnnealingLR{.T_max = 20});
  resumes(Precision<BF16True>{}, AdamW8bit{}, Accumulate<2>{});
  resumes(InBackward<Adafactor>{}, Checkpoint<Full>{});
  resumes(Muon{}, Precision<FP8>{}, ReduceLROnPlateau{});
  resumes(Adam{.amsgrad = true}, Freeze<>{.match = named("0.*")}, StepLR{.step_size = 2});
}

TEST_CASE("what was changed between steps is saved, also the groups' learning rates") {
  auto changed = [](auto optimizer, auto groups_of) {
    const Folder folder;
    groups_of(optimizer) = {{.match = one_dimensional, .lr = 0.5, .weight_decay = 0.25},
                            no_decay(named("0.weight"))};
    auto made = [&] { return Trainer{model(), CrossEntropyLoss{}, optimizer}; };
    auto first = made(), second = made();
    using Optimizer = decltype(optimizer);
    groups_of(first.template get<Optimizer>())[0].lr = 0.125;
    groups_of(first.template get<Optimizer>())[1].weight_decay = 0.75;
    first.save(folder / "state.safetensors");
    second.load(folder / "state.safetensors");
    CHECK(groups_of(second.template get<Optimizer>())[0].lr == 0.125);
    CHECK(groups_of(second.template get<Optimizer>())[0].weight_decay == 0.25);
    CHECK(groups_of(second.template get<Optimizer>())[1].weight_decay == 0.75);
    CHECK_FALSE(groups_of(second.template get<Optimizer>())[1].lr.has_value());
    first.step(batch(0));
    const StateDict wanted = first.state();
    second.load(folder / "state.safetensors");  // the generator, which `first` has used
    second.step(batch(0));
    CHECK(same_state(second.state(), wanted));
  };
  changed(AdamW{}, [](auto& o) -> auto& { return o.groups; });
  changed(SGD{.lr = 0.1}, [](auto& o) -> auto& { return o.groups; });
  changed(Adagrad{}, [](auto& o) -> auto& { return o.groups; });
  changed(InBackward<AdamW>{}, [](auto& o) -> auto& { return o.optimizer.groups; });
}

TEST_CASE("a state that does not fit is one error with every mismatch, and changes nothing") {
  const Folder folder;
  nn::Sequential net(nn::Linear(8, 4), nn::BatchNorm1d(4));
  Trainer saved{net, MSELoss{}, SGD{.momentum = 0.9}};
  saved.step(std::pair{at::ones({2, 8}), at::ones({2, 4})});
  saved.save(folder / "state.safetensors");
  Trainer other{model(), CrossEntropyLoss{}, AdamW{}};
  other.step(batch(0));
  const StateDict before = other.state();
  Counter counter{.batches = 5};
  const std::string message =
      message_of<BadState>([&] { other.load(folder / "state.safetensors", counter); });
  for (const char* part :
       {"`0.weight` is Float[4, 8], the trainer has Float[16, 8]", "`3.weight` is missing",
        "restore: the state was saved with SGD, and this recipe has AdamW; `",
        "load_weights takes the weights alone", "`1.running_var` is Float[4]",
        "Counter.batches` is missing", "`ikebana.parts.", "Nothing was changed"})
    CHECK_MESSAGE(contains(message, part), message);
  CHECK(same_state(other.state(), before));
  CHECK(counter.batches == 5);
}

TEST_CASE("a part that throws while it loads leaves the trainer as it was") {
  struct Failing {
    void state(Archive& archive) {
      if (archive.loading()) throw std::runtime_error("not loaded");
    }
  } failing;
  Trainer saved{model(), CrossEntropyLoss{}, SGD{.momentum = 0.9}};
  Trainer other{model(), CrossEntropyLoss{}, SGD{.momentum = 0.9}};
  saved.step(batch(0)), other.step(batch(1));
  const StateDict before = other.state();
  CHECK(message_of([&] { other.restore(saved.state(), failing); }) == "not loaded");
  CHECK(same_state(other.state(), before));
}

TEST_CASE("reserved names, and tensors that a file cannot hold, are errors") {
  const Folder folder;
  struct NetImpl : nn::Module {
    NetImpl() { register_module("ikebana", nn::Linear(2, 2)); }
    at::Tensor forward(const at::Tensor& x) { return x; }
  };
  Trainer trainer{std::make_shared<NetImpl>(), MSELoss{}};
  CHECK(contains(message_of<BadModel>([&] { trainer.save(folder / "x"); }), "`ikebana.weight`"));
  const auto path = folder / "tensors.safetensors";
  save_tensors(path, {{"a", at::ones({2})}});
  auto refused = [&](const at::Tensor& t, const char* why) {
    CHECK(contains(message_of<BadModel>([&] { save_tensors(path, {{"t", t}}); }), why));
    CHECK(load_tensors(path).tensors.count("a") == 1);
  };
  refused(at::Tensor(), "`t` is undefined");
  refused(at::eye(3).to_sparse(), "`t` is sparse");
  refused(at::quantize_per_tensor(at::ones({2}), 0.1, 0, at::kQInt8), "`t` is quantized");
}

TEST_CASE("the copy of an asynchronous save is exact for every size and alignment") {
  const at::Tensor from = at::randint(256, {6000}, at::kByte);
  for (std::int64_t begin : {0, 1, 15, 63})
    for (std::int64_t size : {0, 1, 17, 63, 64, 65, 127, 128, 4096, 5901}) {
      CAPTURE(begin);
      CAPTURE(size);
      const at::Tensor piece = from.narrow(0, 63 - begin, size);
      at::Tensor to = at::zeros_like(from), wanted = at::zeros_like(from);
      wanted.narrow(0, begin, size).copy_(piece);
      ikebana::detail::copy_bytes(to.narrow(0, begin, size), piece);
      CHECK(at::equal(to, wanted));
    }
  const at::Tensor large = at::randn({3 << 20}), turned = large.view({1024, -1}).t();
  const at::Tensor conjugate = at::view_as_complex(large.view({-1, 2})).conj();
  for (const at::Tensor& t : {large, large.slice(0, 1), turned, conjugate}) {
    at::Tensor to = at::zeros_like(t, at::MemoryFormat::Contiguous);
    ikebana::detail::copy_bytes(to, t);
    CHECK(at::equal(to, t));
  }
}

TEST_CASE("an asynchronous save reports its error once, to the first code that waits") {
  const Folder folder;
  Trainer trainer{model(), CrossEntropyLoss{}};
  trainer.step(batch(0));
  const auto no_folder = folder / "none/state.safetensors", path = folder / "state.safetensors";
  PendingSave asked = trainer.save_async(no_folder);
  CHECK_THROWS_AS(asked.wait(), FileFailed);
  CHECK_NOTHROW(trainer.save_async(path).wait());
  trainer.save_async(no_folder);
  CHECK_THROWS_AS(trainer.save_async(path), FileFailed);
  trainer.save_async(path);
  const StateDict saved = trainer.state();
  trainer.step(batch(1));
  trainer.save_async(path).wait();
  CHECK_FALSE(same_state(load_tensors(path).tensors, saved));
  CHECK(same_state(load_tensors(path).tensors, trainer.state()));
  {
    const Warnings warnings;
    {
      Trainer(model(), CrossEntropyLoss{}).save_async(no_folder);
    }
    CHECK(warnings.count("no code waited for it: files: cannot create") == 1);
  }
}

TEST_CASE("the memory that asynchronous saves keep holds nothing of an earlier state") {
  const Folder folder;
  const auto path = folder / "state.safetensors";
  AsyncSaver saver;
  const StateDict states[] = {{{"a", at::ones({3})}, {"b", at::ones({2})}},
                              {{"a", at::zeros({3})}},
                              {{"a", at::ones({2, 2})}, {"c", at::ones({2}, at::kLong)}},
                              {{"a", at::ones({2, 2}, at::kByte)}}};
  for (const StateDict& state : states) {
    saver.save(state, [&](const StateDict& copy) { save_tensors(path, copy, {}); }).wait();
    CHECK(same_state(load_tensors(path).tensors, state));
  }
}

}  // namespace test::resume
