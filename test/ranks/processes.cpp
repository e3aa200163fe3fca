// Two ranks as processes, over Gloo: the program runs itself twice.
#include "test.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "nets.hpp"

using namespace ikebana;

namespace test::ranks {

/// Bytes go through a process group of Gloo. A rank that fails drops it, which the others hear of.
class GlooWire : public Wire {
 public:
  GlooWire(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank, std::int64_t size)
      : Wire(std::move(store), rank, size) {}

 protected:
  std::vector<std::string> all_gather(const std::string& own) override {
    if (group_ == nullptr || made_ != generation_) make();
    try {
      const auto length = gathered(
          at::scalar_tensor(static_cast<std::int64_t>(own.size()), at::kLong).reshape({1}));
      std::int64_t most = 1;
      for (const at::Tensor& one : length) most = std::max(most, one.item<std::int64_t>());
      at::Tensor bytes = at::zeros({most}, at::kByte);
      std::memcpy(bytes.mutable_data_ptr(), own.data(), own.size());
      std::vector<std::string> all;
      const auto texts = gathered(bytes);
      for (std::size_t r = 0; r < texts.size(); ++r)
        all.emplace_back(static_cast<const char*>(texts[r].const_data_ptr()),
                         static_cast<std::size_t>(length[r].item<std::int64_t>()));
      return all;
    } catch (const std::exception&) {
      if (has_failed()) throw_failed();
      throw;
    }
  }
  void drop() override { group_.reset(); }

 private:
  void make() {
    auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(60));
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    options->threads = 1;
    auto store = c10::make_intrusive<c10d::PrefixStore>("gloo" + key(""), store_);
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(rank_),
                                                         static_cast<int>(size_), options);
    made_ = generation_;
  }
  std::vector<at::Tensor> gathered(at::Tensor own) {
    std::vector<at::Tensor> in{std::move(own)};
    std::vector<std::vector<at::Tensor>> out(1);
    for (std::int64_t r = 0; r < size_; ++r) out[0].push_back(at::empty_like(in[0]));
    group_->allgather(out, in)->wait();
    return out[0];
  }

  c10::intrusive_ptr<c10d::Backend> group_;
  std::int64_t made_ = -1;
};

/// Trains and fails once, and compares with one rank.
template <Kind K>
void trains(std::int64_t rank, const std::string& folder) {
  CAPTURE(K);
  auto store = c10::make_intrusive<c10d::FileStore>(folder + "/store" + std::to_string(int(K)), 2);
  auto wire = std::make_shared<GlooWire>(store, rank, 2);
  auto trained = [](auto& trainer, auto&& cut) {
    std::vector<at::Tensor> all;
    for (const Rows& batch : batches(4, 4)) all.push_back(trainer.step(cut(batch)).mean());
    trainer.with_full_weights([&](Counted& model) {
      for (const auto& p : model->parameters()) all.push_back(p.detach().clone());
    });
    return all;
  };
  const AdamW optimizer{.lr = 1e-2};
  Trainer alone{make<Counted>(), optimizer, Accumulate<2>{}};
  const auto expected = trained(alone, [](const Rows& batch) { return batch; });
  Trainer trainer{make<Counted>(), optimizer, Double<K>{.wire = wire}};
  const Rows good = part(batches(1, 4)[0], rank, 2);
  Rows bad = good;
  if (rank == 1) bad.target = bad.target + 7;
  const std::string text = message_of([&] { trainer.step(bad); });
  CHECK_MESSAGE(contains(text, "out of bounds"), text);
  CHECK(same_bits(trained(trainer, [&](const Rows& batch) { return part(batch, rank, 2); }),
                  expected));
  CHECK(wire->rejoined == 1);
  wire->exchange("");  // the first rank to end would close the others' connections
}

TEST_CASE("ranks: one of two processes" * doctest::skip()) {
  const std::int64_t rank = std::atoi(std::getenv("IKEBANA_TEST_RANK"));
  const std::string folder = std::getenv("IKEBANA_TEST_FOLDER");
  trains<Kind::DDP>(rank, folder);
  trains<Kind::FSDP>(rank, folder);
}

TEST_CASE("ranks: two processes over Gloo train as one, also after a step that one of them fails") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("ikebana_ranks_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::vector<pid_t> children;
  for (int rank : {0, 1}) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("IKEBANA_TEST_RANK", std::to_string(rank).c_str(), 1);
      setenv("IKEBANA_TEST_FOLDER", folder.c_str(), 1);
      execl("/proc/self/exe", "test_ranks", "-tc=ranks: one of two processes", "--no-skip",
            static_cast<char*>(nullptr));
      _exit(127);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace test::ranks
