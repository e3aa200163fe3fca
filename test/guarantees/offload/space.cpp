// Tests the space that Offload<Disk> takes of a disk: all of it when the trainer is made.
#include "files.hpp"

#include <sys/resource.h>
#include <fstream>
#include <ikebana/bridge/one_thread.hpp>
#include <ikebana/posix/process_copy.hpp>

namespace guarantees::offload::disk {

using test::contains;
using test::message_of;

namespace {

// Makes tensors that have a file of their own, and others that share one.
torch::nn::Sequential large_and_small() {
  return seeded([] {
    torch::nn::Sequential all;
    all->push_back(torch::nn::Linear(3000, 3000));
    for (int i = 0; i < 3; ++i)
      all->push_back(torch::nn::Linear(3000, 300)), all->push_back(torch::nn::Linear(300, 3000));
    return all;
  });
}
/// Steps take no more space than the trainer did, and each optimizer takes what it needs.
template <class Optimizer>
std::int64_t reserved(Optimizer optimizer) {
  CAPTURE(ikebana::detail::type_name<Optimizer>());
  const OwnFolder own;
  Trainer trainer{large_and_small(), MSELoss{}, optimizer, Offload<Disk>{.folder = own.path}};
  const OpenFiles before = open_files(own.path);
  for (int i = 0; i < 2; ++i) trainer.step(std::pair{at::randn({2, 3000}), at::randn({2, 3000})});
  const OpenFiles after = open_files(own.path);
  CHECK(after.count == before.count);
  CHECK(after.bytes == before.bytes);
  return after.bytes;
}
std::int64_t bytes_of_weights() {
  std::int64_t bytes = 0;
  for (const at::Tensor& p : large_and_small()->parameters())
    bytes += static_cast<std::int64_t>(p.nbytes());
  return bytes;
}

}  // namespace

TEST_CASE(
    "offload on a disk: the space of an optimizer's state is taken when the trainer is made") {
  const std::int64_t none = reserved(SGD{}), weights = bytes_of_weights();
  const auto slots = [&](std::int64_t bytes) {
    return static_cast<double>(bytes - none) / static_cast<double>(weights);
  };
  CHECK(none >= 2 * weights);  // master weights and gradients
  CHECK(slots(reserved(SGD{.momentum = 0.9})) == doctest::Approx(1).epsilon(0.5));
  CHECK(slots(reserved(AdamW{})) == doctest::Approx(2).epsilon(0.3));
  CHECK(slots(reserved(AdamW{.amsgrad = true})) == doctest::Approx(3).epsilon(0.3));
  CHECK(slots(reserved(Lion{})) == doctest::Approx(1).epsilon(0.5));
  CHECK(slots(reserved(Adafactor{})) < 0.1);
  CHECK(slots(reserved(AdamW8bit{})) < 1);
}
TEST_CASE("offload on a disk: few bytes take no large file") {
  const OwnFolder own;
  Trainer trainer{torch::nn::Sequential(torch::nn::Linear(60, 60)), MSELoss{}, AdamW{},
                  Offload<Disk>{.folder = own.path}};
  trainer.step(std::pair{at::randn({2, 60}), at::randn({2, 60})});
  CHECK(open_files(own.path).bytes <= 4 << 20);
}
TEST_CASE("offload on a disk: a limit of file sizes is an error, and no signal") {
  const OwnFolder own;
  ikebana::detail::FileMemory memory(own.path);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{8 << 20, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto text =
      message_of<FileFailed>([&] { memory.allocate({std::int64_t(1) << 26}, {1}, at::kByte); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  CHECK(contains(text, "cannot reserve 67108864 bytes in"));
  CHECK(contains(text, "ulimit -f"));
}
TEST_CASE("offload on a disk: a folder that is a file, and a full disk, have their own advice") {
  const OwnFolder own;
  const fs::path file = own.path / "file";
  std::ofstream(file) << "x";
  using Memory = ikebana::detail::FileMemory;
  const auto of_file = message_of<FileFailed>([&] { Memory memory(file); });
  CHECK(contains(of_file, "It must be a folder"));
  CHECK(!contains(of_file, "must not be a folder"));
  Memory memory(own.path);
  const auto full =
      message_of<FileFailed>([&] { memory.allocate({std::int64_t(1) << 50}, {1}, at::kByte); });
  CHECK(!contains(full, "fewer states"));
}
TEST_CASE("offload on a disk: a forked child is refused, as it would see what its parent writes") {
  const OwnFolder own;
  Trainer trainer{torch::nn::Sequential(torch::nn::Linear(60, 60)), MSELoss{}, AdamW{},
                  Offload<Disk>{.folder = own.path}};
  const std::pair batch{at::randn({2, 60}), at::randn({2, 60})};
  trainer.step(batch);
  const auto text = ikebana::detail::in_process_copy([&] {
    const ikebana::bridge::OneThread alone;
    return message_of<Error>([&] { trainer.step(batch); });
  });
  CHECK(contains(text.value_or(""), "forked from"));
  trainer.step(batch);
}
/// No disk has this much room.
TEST_CASE("offload on a disk: one that is full is an error before anything is written") {
  const OwnFolder own;
  ikebana::detail::FileMemory memory(own.path);
  const int files = open_files(own.path).count;
  CHECK(contains(
      message_of<FileFailed>([&] { memory.allocate({std::int64_t(1) << 50}, {1}, at::kByte); }),
      "cannot reserve 1125899906842624 bytes in `" + own.path.string() + "`"));
  CHECK(open_files(own.path).count == files);
  const at::Tensor t = memory.allocate({100}, {1}, at::kFloat);  // goes on
  t.fill_(3);
  memory.release_pages(t);
  CHECK(t.eq(3).all().item<bool>());
}

}  // namespace guarantees::offload::disk
