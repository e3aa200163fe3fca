// Offload<Disk>: files without a name, space that is reserved, and pages that are in memory only
// while they are used.
#include "offload.hpp"

#include <fstream>
#include <ikebana/bridge/operators.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <sstream>

#include "own_momentum.hpp"

namespace laws::offload::disk {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;

/// A folder that is removed with what is in it.
struct OwnFolder {
  fs::path path = folder / ("offload-disk-" + std::to_string(::getpid()));
  OwnFolder() { fs::create_directory(path); }
  ~OwnFolder() { fs::remove_all(path); }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
};

/// Memory of this process that is a file of a folder, which has no name there.
struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  std::int64_t resident = 0;  // bytes
  bool has(const at::Tensor& t) const {
    const auto at = reinterpret_cast<std::uintptr_t>(t.const_data_ptr());
    return begin <= at && at < end;
  }
};
std::vector<Mapping> mappings(const fs::path& of) {
  std::vector<Mapping> all;
  std::ifstream file("/proc/self/smaps");
  bool is_ours = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.find('-') != std::string::npos) {
      is_ours = contains(line, of.string() + "/") && line.ends_with("(deleted)");
      char dash = 0;
      Mapping mapping;
      if (is_ours)
        std::istringstream(first) >> std::hex >> mapping.begin >> dash >> mapping.end,
            all.push_back(mapping);
    } else if (is_ours && first == "Rss:") {
      words >> all.back().resident;
      all.back().resident *= 1024;
    }
  }
  return all;
}
std::int64_t resident(const fs::path& of) {
  std::int64_t bytes = 0;
  for (const Mapping& mapping : mappings(of)) bytes += mapping.resident;
  return bytes;
}
bool is_mapped(const at::Tensor& t, const std::vector<Mapping>& all) {
  return std::any_of(all.begin(), all.end(), [&](const Mapping& m) { return m.has(t); });
}
/// Files of the folder that this process has open. Each has no name, and as many blocks of the disk
/// as it is long.
int open_files(const fs::path& of) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (!target.starts_with(of.string() + "/")) continue;
    ++files;
    CHECK(target.ends_with("(deleted)"));
    struct stat file{};
    REQUIRE(::stat(entry.path().c_str(), &file) == 0);
    CHECK(file.st_size > 0);
    CHECK(file.st_blocks * 512 >= file.st_size);
    CHECK(file.st_nlink == 0);
  }
  return files;
}

// A page that is read brings those around it that the system has in memory anyway, 64 KiB of them;
// so tensors are larger here.
constexpr std::int64_t wide = 256, weight = wide * wide * 4, around = 64 << 10;
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
    CHECK(open_files(own.path) > 0);
    CHECK(mappings(own.path).size() > 0);
  }
  CHECK(open_files(own.path) == 0);
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
  using Memory = ikebana::detail::FileMemory<>;
  Memory memory(own.path);
  const auto large = static_cast<std::int64_t>(Memory::file_bytes / 2 + 1);
  const at::Tensor a = memory.allocate({8}, {1}, at::kByte);
  const int files = open_files(own.path);
  const at::Tensor b = memory.allocate({large}, {1}, at::kByte);
  const at::Tensor c = memory.allocate({8}, {1}, at::kByte);
  CHECK(open_files(own.path) == files + 1);
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

TEST_CASE("offload on a disk: updates are made in windows, whose pages leave memory") {
  const OwnFolder own;
  const auto policy = [&] {
    auto made = in<Offload<Disk, OptimizerState>>(own.path);
    made.window_bytes = 2 * weight;  // the moments of one weight
    return made;
  };
  Trainer trainer{layers(), MSELoss{}, AdamW{}, ClipGradNorm{}, policy()};
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
    // Of a weight and a bias: themselves, gradients, moments. All eight layers have eight times
    // this.
    CHECK(looks.most_resident <= 4 * (weight + around));
    CHECK(looks.most_resident > 0);
  }
  CHECK(resident(own.path) <= 2 * around);
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
  CHECK(open_files(own.path) == 0);  // what failed has left nothing
  CHECK_NOTHROW(made(own.path));
}
/// No disk has this much room.
TEST_CASE("offload on a disk: one that is full is an error before anything is written") {
  const OwnFolder own;
  ikebana::detail::FileMemory<> memory(own.path);
  const int files = open_files(own.path);
  CHECK(contains(
      message_of<FileFailed>([&] { memory.allocate({std::int64_t(1) << 50}, {1}, at::kByte); }),
      "cannot reserve 1125899906842624 bytes in `" + own.path.string() + "`"));
  CHECK(open_files(own.path) == files);
  const at::Tensor t = memory.allocate({100}, {1}, at::kFloat);  // goes on
  t.fill_(3);
  memory.release_pages(t);
  CHECK(t.eq(3).all().item<bool>());
}
TEST_CASE("offload on a disk: an optimizer that keeps its own state is refused") {
  Trainer trainer{layers(), MSELoss{}, test::OwnMomentum{},
                  moving<Offload<Disk, OptimizerState>>()};
  const std::string error = message_of<BadValue>([&] { trainer.step(pair()); });
  CHECK(contains(error,
                 "stores the state of optimizers apart, and `test::OwnMomentum` keeps its own"));
  CHECK(contains(error, "Write one of the library's optimizers"));
}

}  // namespace laws::offload::disk
