// Defines the contestant `ikebana` on a device: an MLP, GPTs with each choice of `Checkpoint` that
// gpu.py compares, and a ResNet, all in BF16 with clipping.
#include "device.hpp"
#include "mlp.hpp"
#include "resnet.hpp"
#include "train.hpp"

namespace {

using namespace ikebana;
using bench::Batch, bench::Contestant, bench::MLP, bench::ResNet, bench::Setting, bench::train;

/// Measures how long training waits for save_async, beside a copy of the same bytes by hand.
template <class T>
class Saving {
 public:
  Saving(std::shared_ptr<T> trainer, const Setting& setting)
      : trainer_(std::move(trainer)),
        device_(setting.device()),
        path_(setting.text("folder") + "/saved.safetensors") {}
  ~Saving() { pending_.wait(); }

  /// Returns the seconds of the call, and of the call and the step after it.
  std::string pause(const std::function<void()>& step) {
    pending_.wait();
    bench::synchronize(device_);
    const auto begin = now();
    pending_ = trainer_->save_async(path_);
    const double call = since(begin);
    step();
    bench::synchronize(device_);
    const double both = since(begin);
    return std::to_string(call) + " " + std::to_string(both);
  }
  /// Returns the seconds of a copy to the host's memory, which is pinned if there is a device, and
  /// the bytes.
  std::string copy() {
    if (state_.empty()) prepare();
    bench::synchronize(device_);
    const auto begin = now();
    for (std::size_t i = 0; i < state_.size(); ++i) copies_[i].copy_(state_[i], true);
    bench::synchronize(device_);
    return std::to_string(since(begin)) + " " + std::to_string(bytes_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::time_point now() { return Clock::now(); }
  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(now() - begin).count();
  }
  void prepare() {
    for (const auto& [name, t] : trainer_->state()) {
      auto options = t.options().device(at::kCPU).pinned_memory(!t.is_cpu() && !device_.is_cpu());
      state_.push_back(t), copies_.push_back(at::zeros(t.sizes(), options));
      bytes_ += t.nbytes();
    }
  }

  std::shared_ptr<T> trainer_;
  c10::Device device_;
  std::string path_;
  PendingSave pending_;
  bench::Tensors state_, copies_;
  std::size_t bytes_ = 0;
};

/// On a CPU, on which this runs in small, it uses the kernels of the other contestants.
const Precision<BF16> bf16{.cpu_products = CPUProducts::Native};

template <class Choice>
auto gpt_trainer(const Setting& setting) {
  using T = Trainer<GPT, AdamW, ClipGradNorm, Precision<BF16>, Accumulate<>, Checkpoint<Choice>>;
  return std::make_shared<T>(bench::gpt_of(setting), Accumulate<>{setting.number("accumulate")},
                             bf16);
}

Contestant gpt(const Setting& setting) {
  const std::string choice = setting.text("checkpoint");
  if (choice == "full") return train(gpt_trainer<Full>(setting));
  if (choice == "selective") return train(gpt_trainer<Selective>(setting));
  if (choice == "segments") return train(gpt_trainer<Segments<>>(setting));
  if (choice != "none")
    throw std::runtime_error("gpu_ikebana: `" + choice + "` is not one of its checkpoints");
  auto trainer = gpt_trainer<Off>(setting);
  Contestant contestant = train(trainer);
  using T = std::decay_t<decltype(*trainer)>;
  auto saving = std::make_shared<Saving<T>>(trainer, setting);
  auto batch = std::make_shared<Batch>(bench::read_batches(setting)[0]);
  contestant.own["pause"] = [=, step = contestant.step] {
    return saving->pause([&] { step(*batch); });
  };
  contestant.own["copy"] = [=] { return saving->copy(); };
  return contestant;
}

template <class Model>
Contestant classifier(const Setting& setting, Model model) {
  bench::read_weights(setting, *model);
  using T = Trainer<Model, CrossEntropyLoss, AdamW, ClipGradNorm, Precision<BF16>>;
  return train(std::make_shared<T>(model, bf16));
}

Contestant contestant(const Setting& setting) {
  if (setting.is_gpt()) return gpt(setting);
  if (setting.is_resnet())
    return classifier(
        setting, ResNet(setting.number("width"), setting.symbols(), setting.has_small_images()));
  return classifier(setting, MLP(setting.number("width")));
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded(
      [&] { return bench::serve_rows(argc, argv, contestant, bench::answer_on_device); });
}
