// Tests Offload<Disk>: files without a name, space that is reserved, and pages that are in memory
// only while they are used.
#include "files.hpp"

#include <fstream>
#include <ikebana/bridge/operators.hpp>

#include "own_momentum.hpp"

namespace guarantees::offload::disk {

using test::contains;
using test::message_of;

// A page that is used brings those around it that the system has in memory anyway, at most a huge
// page of them at each end of a tensor; so tensors are larger here.
constexpr std::int64_t wide = 1024, weight = wide * wide * 4, around = 2 * (2 << 20);
torch::nn::Sequential layers() {
  return seeded([] {
    torch::nn::Sequential all;
    for (int i = 0; i < 8; ++i) all->push_back(torch::nn::Linear(wide, wide));
    return all;
  });
}
using Pair = std::pair<at::Tensor, at::Tensor>;
const Pair& pair() {
  static const Pair one{at::randn({wide, wide}), at::randn({wide, wide})};
  return one;
}
template <class Policy>
Policy in(const fs::path& path) {
  auto policy = moving<Policy>();
  policy.folder = path;
  return policy;
}

TEST_CASE("offload on a disk: files have no name and their space, and end with the trainer") {
  const OwnFolder own;
  {
    Trainer trainer{layers(), MSELoss{}, AdamW{},
                    in<Offload<Disk, Activations, Parameters>>(own.path)};
    trainer.step(pair());
    CHECK(fs::is_empty(own.path));
    CHECK(open_files(own.path).count > 0);
    CHECK(mappings(own.path).size() > 0);
  }
  CHECK(open_files(own.path).count == 0);
  CHECK(mappings(own.path).empty());
}

TEST_CASE("offload on a disk: another folder after the trainer is made is an error") {
  const OwnFolder own;
  const auto refuses = [&]<class Policy>(std::type_identity<Policy>) {
    Trainer trainer{layers(), MSELoss{}, AdamW{}, in<Policy>(own.path)};
    trainer.step(pair());
    trainer.template get<Policy>().folder = folder;
    CHECK(contains(message_of<BadValue>([&] { trainer.step(pair()); }), "folder was changed"));
    trainer.template get<Policy>().folder = own.path;
    trainer.step(pair());
  };
  refuses(std::type_identity<Offload<Disk>>());
  refuses(std::type_identity<Offload<Disk, Activations>>());
}
TEST_CASE("offload on a disk: large tensors have files of their own, small ones share") {
  const OwnFolder own;
  using Memory = ikebana::detail::FileMemory;
  Memory memory(own.path);
  const auto large = static_cast<std::int64_t>(Memory::file_bytes / 2 + 1);
  const at::Tensor a = memory.allocate({8}, {1}, at::kByte);
  const int files = open_files(own.path).count;
  const at::Tensor b = memory.allocate({large}, {1}, at::kByte);
  const at::Tensor c = memory.allocate({8}, {1}, at::kByte);
  CHECK(open_files(own.path).count == files + 1);
  CHECK(c.const_data_ptr<std::uint8_t>() - a.const_data_ptr<std::uint8_t>() == ::getpagesize());
}

/// At each update of some parameters: where its tensors are, and how much of all files is in
/// memory.
struct LooksAtUpdates : bridge::OperatorMode {
  fs::path of;
  std::size_t updates = 0, parameters = 0;
  std::int64_t most_resident = 0;
  void call(bridge::OperatorCall& call) override {
    if (call.name().name == "aten::_fused_adamw_") look(call);
    call.compute();
  }
  void look(const bridge::OperatorCall& call) {
    const auto all = mappings(of);
    std::int64_t here = 0;
    for (const Mapping& mapping : all) here += mapping.resident;
    most_resident = std::max(most_resident, here);
    ++updates;
    for (std::size_t list = 0; list < 4; ++list)  // parameters, gradients, and two moments
      for (const at::Tensor& t : call.arguments()[list].toTensorVector()) {
        CHECK(is_mapped(t, all));
        parameters += list == 0;
      }
  }
};

template <class... Policies>
void updates_in_windows(Policies... more) {
  const OwnFolder own;
  auto policy = in<Offload<Disk, OptimizerState>>(own.path);
  policy.window_bytes = 2 * weight;  // the moments of one weight
  Trainer trainer{layers(), MSELoss{}, AdamW{}, ClipGradNorm{}, policy, more...};
  for (int step = 0; step < 3; ++step) {
    CHECK(resident(own.path) <= 2 * around);
    LooksAtUpdates looks;
    looks.of = own.path;
    {
      const bridge::OperatorScope<> scope(looks);
      trainer.step(pair());
    }
    CHECK(looks.parameters == 16);
    CHECK(looks.updates >= 8);
    // One layer has a weight and a bias, with gradients and moments. All eight layers have eight
    // times this.
    CHECK(looks.most_resident <= 4 * (weight + around));
    CHECK(looks.most_resident > 0);
  }
  CHECK(resident(own.path) <= 2 * around);
}
TEST_CASE("offload on a disk: updates are made in windows, whose pages leave memory") {
  updates_in_windows();
  updates_in_windows(Accumulate<2>{});
  updates_in_windows(EMA{});
}
TEST_CASE("offload on a disk: activations leave memory until backward, and after it") {
  const OwnFolder own;
  Trainer trainer{layers(), MSELoss{}, AdamW{}, in<Offload<Disk, Activations>>(own.path)};
  for (int step = 0; step < 3; ++step) {
    const Report report = trainer.step(pair());
    CHECK(report.offloaded->activations_out > 0);
    CHECK(resident(own.path) <= 2 * around);
  }
}

TEST_CASE("offload on a disk: what cannot work is an error that says so") {
  const OwnFolder own;
  const auto made = [](const fs::path& path) {
    Trainer trainer{layers(), MSELoss{}, AdamW{}, in<Offload<Disk, OptimizerState>>(path)};
  };
  CHECK(contains(message_of<BadValue>([&] { made(""); }), "no folder is named"));
  CHECK(contains(message_of<BadValue>([&] { made("/dev/shm"); }), "lies in memory (tmpfs)"));
  const fs::path none = own.path / "none", file = own.path / "file";
  std::ofstream(file) << "text";
  for (const fs::path& path : {none, file}) {
    const std::string error = message_of<FileFailed>([&] { made(path); });
    CHECK(contains(error, "cannot make a file in `" + path.string() + "`"));
  }
  CHECK(contains(message_of<BadValue>([&] {
                   Trainer trainer{layers(), MSELoss{}, AdamW{},
                                   Offload<Disk>{.folder = own.path, .window_bytes = 0}};
                 }),
                 "window_bytes is 0"));
  CHECK(open_files(own.path).count == 0);  // what failed has left nothing
  CHECK_NOTHROW(made(own.path));
}
TEST_CASE("offload on a disk: an optimizer that keeps its own state is refused") {
  Trainer trainer{layers(), MSELoss{}, test::OwnMomentum{},
                  moving<Offload<Disk, OptimizerState>>()};
  const std::string error = message_of<BadValue>([&] { trainer.step(pair()); });
  CHECK(contains(error,
                 "stores the state of optimizers apart, and `test::OwnMomentum` keeps its own"));
  CHECK(contains(error, "Write one of the library's optimizers"));
}

}  // namespace guarantees::offload::disk
