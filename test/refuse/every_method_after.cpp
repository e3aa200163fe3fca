// `TwoPoliciesSet<axis::optimizer, AdamW, StepByHand>`
// `AdamW and StepByHand both set the optimizer; a trainer takes one`
// `a trainer takes one policy per axis` `Remove one of the two`
#include "net.hpp"

struct StepByHand {
  using axis = ikebana::axis::optimizer;
  double strength = 1;
};

void use(auto& trainer, std::vector<Batch>& loader) {
  Report report = trainer.step(loader);
  trainer.fit(loader, {.epochs = 3});
  double loss = trainer.evaluate(loader, Accuracy{}).loss + report.loss();
  trainer.update_bn(loader);
  trainer.template get<AdamW>().lr = loss;
  at::Tensor outputs = trainer.predict(loader[0]);
  trainer.model()->eval();
  trainer.restore(trainer.state());
  trainer.save("state.safetensors");
  trainer.save_async("state.safetensors").wait();
  trainer.load("state.safetensors");
  trainer.save_weights("weights.safetensors");
  trainer.load_weights("weights.safetensors", {.strict = false});
  trainer.with_full_weights([](Net& net) { net->train(); });
  trainer.replace_weights([](Net& net) { net->train(); });
  auto text = trainer.describe() + std::to_string(trainer.steps());
}

int main() {
  std::vector<Batch> loader;
#ifdef COUNTERPART
  Trainer trainer{Net(), ClipGradNorm{}, AdamW{}};
#else
  Trainer trainer{Net(), ClipGradNorm{}, AdamW{}, StepByHand{}};
#endif
  use(trainer, loader);
}
