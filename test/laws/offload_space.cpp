// The space that Offload<Disk> takes of a disk: all of it when the trainer is made.
#include "offload_files.hpp"

namespace laws::offload::disk {

using test::contains;
using test::message_of;

namespace {

// Tensors that have a file of their own, and others that share one.
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
  // Of one file, in which they do not fill the space.
  const auto file = static_cast<std::int64_t>(ikebana::detail::FileMemory<>::file_bytes);
  CHECK(reserved(Adafactor{}) == none + file);
  CHECK(reserved(AdamW8bit{}) == none + file);
}
/// No disk has this much room.
TEST_CASE("offload on a disk: one that is full is an error before anything is written") {
  const OwnFolder own;
  ikebana::detail::FileMemory<> memory(own.path);
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

}  // namespace laws::offload::disk
