// Tests several microbatches on each of several ranks: the order in which gradients are added up.
#include "test.hpp"

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::tree {

constexpr std::int64_t steps = 3;
const SGD sgd{.lr = 0.125};  // as a float, too

using Gradients = std::vector<at::Tensor>;

void add(Gradients& to, const Gradients& more) {
  if (to.empty()) return void(to = more);
  for (std::size_t i = 0; i < to.size(); ++i)
    if (to[i].defined()) to[i] = to[i] + more[i];
}
/// Returns the gradients of this part of the mean over `count` items.
Gradients gradients_of(Counted& model, const Rows& rows, std::int64_t count) {
  model->zero_grad();
  (model->loss(plain, rows).sum / count).backward();
  Gradients all;
  for (const at::Tensor& p : model->parameters()) all.push_back(p.grad());
  return all;
}
/// Each rank's microbatches first, or each microbatch of all ranks first, or each microbatch of the
/// ranks that share a copy, and then of the copies.
enum class First { Microbatches, Ranks, Copies };

/// Computes this by LibTorch alone, in one process.
std::vector<at::Tensor> by_hand(First first, std::int64_t ranks, std::int64_t microbatches,
                                std::int64_t ranks_per_copy = 1) {
  Counted model = make<Counted>();
  for (const Rows& batch : batches(steps, ranks * microbatches * 2)) {
    auto of = [&](std::int64_t rank, std::int64_t microbatch) {
      return gradients_of(model, part(part(batch, rank, ranks), microbatch, microbatches),
                          batch.target.numel());
    };
    const bool by_rank = first == First::Microbatches;
    const std::int64_t each = first == First::Copies ? ranks_per_copy : 1;
    Gradients all;
    for (std::int64_t i = 0; i < (by_rank ? ranks : microbatches); ++i) {
      Gradients inner;
      for (std::int64_t j = 0; j < (by_rank ? microbatches : ranks); j += each) {
        Gradients innermost;
        for (std::int64_t k = j; k < j + each; ++k) add(innermost, by_rank ? of(i, k) : of(k, i));
        add(inner, innermost);
      }
      add(all, inner);
    }
    std::vector<at::Tensor> parameters, gradients;
    const auto of_model = model->parameters();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].defined()) continue;
      parameters.push_back(of_model[i].detach()), gradients.push_back(all[i]);
    }
    at::_fused_sgd_(parameters, gradients, {}, 0, 0, sgd.lr, 0, false, false, false, {}, {});
  }
  return copies(model);
}
template <class How>
inline constexpr std::int64_t ranks_per_copy = 1;
template <std::int64_t N>
inline constexpr std::int64_t ranks_per_copy<HSDP<N>> = N;

/// Checks two and three ranks, or copies.
template <class How>
void is_added_up(First first, Shard<How> policy = {}) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  for (std::int64_t ranks : {2 * ranks_per_copy<How>, 3 * ranks_per_copy<How>})
    for (std::int64_t microbatches : {2, 3}) {
      CAPTURE(ranks);
      CAPTURE(microbatches);
      const auto expected = by_hand(first, ranks, microbatches, ranks_per_copy<How>);
      const auto all = batches(steps, ranks * microbatches * 2);
      std::vector<Counted> models;
      for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Counted>());
      shards(policy)(ranks, [&](std::int64_t rank, auto own) {
        Trainer trainer{models[static_cast<std::size_t>(rank)], sgd,
                        Accumulate<>{.microbatches = microbatches}, own};
        for (const Rows& batch : all) trainer.step(part(batch, rank, ranks));
        CHECK(same_bits(whole(trainer), expected));
      });
    }
}
TEST_CASE("tree: each rank adds up its microbatches, and then ranks add up in their order") {
  CHECK(!same_bits(by_hand(First::Microbatches, 2, 2), by_hand(First::Ranks, 2, 2)));
  is_added_up<DDP>(First::Microbatches);
  is_added_up<ZeRO1>(First::Microbatches);
  is_added_up<ZeRO2>(First::Microbatches, {.reduce_each_microbatch = false});
  is_added_up<FSDP>(First::Microbatches, {.reduce_each_microbatch = false});
  is_added_up<HSDP<2>>(First::Microbatches, {.reduce_each_microbatch = false});
  is_added_up<HSDP<1>>(First::Microbatches);
}
TEST_CASE("tree: with reduce_each_microbatch ranks add up each microbatch first") {
  is_added_up<ZeRO2>(First::Ranks);
  is_added_up<FSDP>(First::Ranks);
  is_added_up<HSDP<2>>(First::Ranks);
}
TEST_CASE("tree: copies that are not ordered add up each one's sum") {
  CHECK(!same_bits(by_hand(First::Copies, 4, 2, 2), by_hand(First::Ranks, 4, 2)));
  is_added_up<HSDP<2>>(First::Copies, {.ordered = false});
}

}  // namespace test::ranks::tree
