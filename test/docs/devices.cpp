// Compiles and runs what docs/devices.md and docs/layout.md show, on the CPU.
#include "classes.hpp"

namespace test::policies::devices {

TEST_CASE("docs/devices.md: a device that is chosen when the program runs") {
  auto model = net();
  auto loader = classes();
  const c10::Device device = torch::cuda::is_available() ? torch::kCUDA : torch::kCPU;
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, On{device}};
  for (const auto& batch : loader) trainer.step(batch);
  CHECK(trainer.steps() == 4);
  CHECK(On{"cuda:1"}.device == torch::Device(torch::kCUDA, 1));
  CHECK(On{.device = std::string("cpu")}.device == torch::Device(torch::kCPU));
  const auto misspelt = message_of<BadValue>([] { (void)On{"gpu"}; });
  CHECK_MESSAGE(contains(misspelt, "On: there is no device \"gpu\": Expected one of cpu, cuda"),
                misspelt);
  CHECK(contains(trainer.describe(), "On  {" + device.str() + "}"));
}

TEST_CASE("docs/devices.md: devices that there are not are named, and nothing moves") {
  auto model = net();
  const auto before = model->parameters();
  for (const auto type : {torch::kMPS, torch::kXPU, torch::kHIP}) {
    auto make = [&] { Trainer trainer{model, CrossEntropyLoss{}, On{type}}; };
    const std::string text = message_of<BadValue>(make);
    CHECK_MESSAGE(contains(text, "On: the model cannot be moved to"), text);
    CHECK_MESSAGE(contains(text, "Name a device that this LibTorch and machine have"), text);
    CHECK(model->parameters()[0].is_cpu());
  }
}

struct WithoutValuesImpl : nn::Module {
  at::Tensor weight =
      register_parameter("weight", at::empty({4, 3}, at::TensorOptions(torch::kMeta)));
  at::Tensor forward(const at::Tensor& x) { return x.matmul(weight); }
};
TORCH_MODULE(WithoutValues);

TEST_CASE("docs/devices.md: the device meta has no values to train with") {
  auto make = [&] { Trainer trainer{WithoutValues(), CrossEntropyLoss{}}; };
  CHECK(contains(message_of<BadModel>(make), "`weight` is on the device meta"));
  auto model = net();
  auto move = [&] { Trainer trainer{model, CrossEntropyLoss{}, On{torch::kMeta}}; };
  CHECK(contains(message_of<BadValue>(move), "cannot be moved to meta"));
  CHECK(model->parameters()[0].is_cpu());
  Trainer trainer{model, CrossEntropyLoss{}};
  const Rows batch{at::empty({12, 4}, at::TensorOptions(torch::kMeta)), classes(1)[0].target};
  CHECK(contains(message_of<StepFailed>([&] { trainer.step(batch); }), "Cannot copy out of meta"));
  CHECK(trainer.steps() == 0);
}

/// A table that stays on the host, whatever the model's device is.
struct LookupImpl : nn::Module {
  nn::Linear head = register_module("head", nn::Linear(8, 3));
  at::Tensor table = at::randn({1000, 8});  // not registered: neither moved, trained nor saved

  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    at::Tensor rows = table.index_select(0, batch.input.cpu());
    at::Tensor logits = head(rows.to(batch.target.device()));
    at::Tensor sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum);
    return {.sum = sum, .count = batch.target.numel(), .outputs = logits};
  }
};
TORCH_MODULE(Lookup);

TEST_CASE("docs/devices.md: a table that stays on the host") {
  Lookup model;
  Trainer trainer{model, AdamW{.lr = 1e-2}};
  const Rows batch{at::randint(1000, {12}, at::kLong), at::randint(3, {12}, at::kLong)};
  const double first = trainer.step(batch).loss();
  for (int i = 0; i < 20; ++i) trainer.step(batch);
  CHECK(trainer.step(batch).loss() < first);
  CHECK(trainer.state().count("table") == 0);
}

/// A batch whose tensors are private: a trainer does not find them.
class Hidden {
 public:
  explicit Hidden(at::Tensor x) : x_(std::move(x)) {}
  const at::Tensor& x() const { return x_; }

 private:
  at::Tensor x_;
};
struct Mixed {
  at::Tensor input, target;
  std::map<std::string, std::vector<at::Tensor>> more;
  std::string name;
  std::shared_ptr<Hidden> hidden;
};

TEST_CASE("docs/devices.md: which tensors of a batch are found") {
  const at::Tensor x = at::ones({2, 3});
  const Mixed batch{x, x, {{"a", {x, x}}}, "text", std::make_shared<Hidden>(x)};
  int found = 0;
  ikebana::detail::for_each_tensor(batch, [&](const at::Tensor&) { ++found; });
  CHECK(found == 4);
}

TEST_CASE("docs/layout.md: whether it lies so, and images that lie so already") {
  nn::Sequential model(nn::Conv2d(nn::Conv2dOptions(3, 8, 3)), nn::ReLU(), nn::Flatten(),
                       nn::Linear(8 * 6 * 6, 3));
  at::Tensor images = at::rand({4, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast);
  const Rows batch{images, at::randint(3, {4}, at::kLong)};
  Trainer trainer{model, CrossEntropyLoss{}, Layout<ChannelsLast>{}};
  trainer.step(batch);
  bool lies_so = model->parameters()[0].is_contiguous(at::MemoryFormat::ChannelsLast);
  CHECK(lies_so);
  LayoutHooks as_they_are;
  Mechanism<Layout<ChannelsLast>> placing{Layout<ChannelsLast>{}};
  CHECK(placing.place(batch, at::kCPU).input.is_alias_of(images));  // no copy
  CHECK(as_they_are.place(batch, at::kCPU).input.is_alias_of(images));
  const Rows narrow{at::rand({4, 1, 8, 8}), batch.target};
  CHECK(placing.place(narrow, at::kCPU).input.is_alias_of(narrow.input));  // its images have one
                                                                           // channel
}

struct Images {
  Rows all;
  std::int64_t size() const { return all.input.size(0); }
  Rows get(std::int64_t index) const { return {all.input[index], all.target[index]}; }
};

TEST_CASE("docs/layout.md: a loader's images") {
  Rows all{at::rand({16, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast),
           at::randint(3, {16}, at::kLong)};
  std::vector<bool> lie_so;
  DataLoader of_tensors{TensorDataset{all}, {.batch_size = 4}};
  for (auto& batch : of_tensors)
    lie_so.push_back(batch.input.is_contiguous(at::MemoryFormat::ChannelsLast));
  DataLoader stacked{Images{all}, {.batch_size = 4}};
  for (auto& batch : stacked)
    lie_so.push_back(batch.input.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK((lie_so == std::vector<bool>(8, false)));

  auto channels_last = [](const std::vector<Rows>& samples) {
    const auto n = static_cast<std::int64_t>(samples.size());
    auto layout = at::MemoryFormat::ChannelsLast;
    Rows batch{at::empty({n, 3, 8, 8}, layout), at::empty({n}, at::kLong)};
    for (std::int64_t i = 0; i < n; ++i) {
      const Rows& sample = samples[static_cast<std::size_t>(i)];
      batch.input[i].copy_(sample.input), batch.target[i].copy_(sample.target);
    }
    return batch;
  };
  DataLoader loader{Images{all}, {.batch_size = 4, .num_workers = 2}, channels_last};

  std::int64_t n = 0;
  for (auto& batch : loader) {
    CHECK(batch.input.is_contiguous(at::MemoryFormat::ChannelsLast));
    CHECK(same_bits(batch.input, all.input.narrow(0, n, 4)));
    n += 4;
  }
}

}  // namespace test::policies::devices
