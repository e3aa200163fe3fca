// Asynchronous saves while training runs at full speed: each file is the state of its own step.
#include <cstdio>

#include "state/campaign/campaign.hpp"
#include "state/campaign/training.hpp"
#include "state/folder.hpp"

namespace campaign {
namespace {

void same(const StateDict& wanted, const StateDict& found, const std::string& when) {
  require(wanted.size() == found.size(), when + " holds other names");
  for (const auto& [name, t] : wanted) {
    const at::Tensor a = t.contiguous(), &b = found.at(name);
    require(a.sizes() == b.sizes() && a.nbytes() == b.nbytes() &&
                (a.nbytes() == 0 ||
                 std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0),
            when + ": `" + name + "` differs");
  }
}

}  // namespace

void async(std::int64_t count) {
  const test::Folder folder;
  const auto path = folder / "state.safetensors";
  auto data = loader();
  std::vector<Rows> batches;
  for (auto& batch : data) batches.push_back(batch);
  auto training = trainer();
  std::int64_t steps = 0, saves = count > 0 ? count : 1000;
  for (std::int64_t i = 0; i < saves; ++i) {
    const auto step = [&] {
      training.step(batches[static_cast<std::size_t>(steps++) % batches.size()]);
    };
    step();
    const StateDict wanted = training.state();
    PendingSave save = training.save_async(path);
    do step();
    while (!save.ready());
    save.wait();
    same(wanted, load_tensors(path).tensors, "save " + std::to_string(i));
  }
  std::printf("async: %lld saves beside %lld steps, each the state of its own step\n",
              static_cast<long long>(saves), static_cast<long long>(steps));
}

}  // namespace campaign
