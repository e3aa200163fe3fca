// Runs the contestants in C++ of program.py. `program` trains a model that was exported by Python,
// and `model` trains the same model written in C++, with the same operators, units, objective and
// recipe.
#include <ikebana/program.hpp>

#include "../gpu/resnet.hpp"
#include "../step/gpt_of.hpp"
#include "../step/mlp.hpp"
#include "../step/watch.hpp"

namespace {

using namespace ikebana;
using bench::Batch, bench::Contestant, bench::MLP, bench::Setting;

struct Rows {
  at::Tensor input, target;
};

/// `bytes` are the bytes that a policy counts.
template <class Model, class... Policies>
Contestant contestant_of(std::shared_ptr<bench::Bytes> bytes, Model model, Policies... policies) {
  auto trainer = std::make_shared<Trainer<Model, CrossEntropyLoss, AdamW, Policies...>>(
      model, CrossEntropyLoss{.class_dim = -1}, policies...);
  auto report = std::make_shared<Report>();
  auto step = [=](const Batch& batch) {
    const at::Tensor& target = batch.second;
    const bool tokens = batch.first.scalar_type() == at::kLong;
    *report = trainer->step(Rows{batch.first, tokens ? target.view_as(batch.first) : target});
  };
  return {step, [=] { return report->loss(); }, [=] { return *bytes; }};
}

/// With `--counter 1` on the command line bytes are counted.
template <class Model>
Contestant trained(const Setting& setting, Model model) {
  const bench::Watch watch;
  if (setting.number("counter")) return contestant_of(watch.bytes, model, watch);
  return contestant_of(watch.bytes, model);
}

Contestant written_here(const Setting& setting) {
  if (setting.is_gpt()) return trained(setting, bench::gpt_of(setting));
  if (setting.is_resnet()) {
    bench::ResNet model(setting.number("width"), setting.symbols(), setting.has_small_images());
    bench::read_weights(setting, *model);
    return trained(setting, model);
  }
  MLP model(setting.number("width"));
  bench::read_weights(setting, *model);
  return trained(setting, model);
}

Contestant contestant(const Setting& setting) {
  if (setting.text("contestant") != "program") return written_here(setting);
  return trained(setting, load_program(setting.text("folder") + "/model.pt2"));
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded([&] {
    if (Setting(argc, argv).number("environment")) return bench::print_environment();
    return bench::serve_rows(argc, argv, contestant);
  });
}
