// Optimizers whose update of an element depends on others: over slices they leave what they leave
// over whole parameters.
#include "test.hpp"

#include "slice_updates.hpp"

namespace test::ranks::slice_updates {

const std::vector<std::vector<std::int64_t>> shapes = {{7, 5},        {2, 9},    {1, 40}, {97, 50},
                                                       {50, 97},      {3, 1700}, {100},   {6, 5, 4},
                                                       {5, 17, 8, 8}, {31, 3}};

/// The update that devices other than a CPU make.
template <class O>
struct OnDevice : Mechanism<O> {
  explicit OnDevice(O v) : Mechanism<O>(std::move(v)) { this->as_on_device_ = true; }
  using Mechanism<O>::state_;
};

template <class O>
struct Plain : Mechanism<O> {
  using Mechanism<O>::Mechanism, Mechanism<O>::state_;
};

/// `bound`: 0 for the same bits.
void compare(const at::Tensor& got, const at::Tensor& expected, double bound) {
  if (bound == 0) CHECK(same_bits(Tensors{got}, Tensors{expected}));
  else CHECK(worst_relative({got}, {expected}) < bound);
}
/// Each rank's state is the part of the whole one that `slice_of` says.
template <class M>
void compare_state(const M& mechanism, const Left& got, const Left& expected,
                   const Masters& masters, const std::vector<std::string>& slots, double bound) {
  for (std::size_t i = 0; i < masters.names.size(); ++i)
    for (std::size_t k = 0; k < slots.size(); ++k) {
      const std::string name = "o." + masters.names[i] + "." + slots[k];
      CAPTURE(name);
      REQUIRE(got.state.count(name) == expected.state.count(name));
      if (!got.state.contains(name)) continue;
      const at::Tensor &state = got.state.at(name), &whole = expected.state.at(name);
      const Slice slice = mechanism.state_.slice_of(k, masters.slices[i], state);
      at::Tensor flat = slice.sizes.size() == 1 ? whole.flatten() : whole;  // blocks
      CHECK(flat.sizes() == at::IntArrayRef(slice.sizes));
      compare(state.reshape_as(flat.narrow(0, slice.rows.first, slice.rows.count)),
              flat.narrow(0, slice.rows.first, slice.rows.count), bound);
    }
}
template <template <class> class M, class O>
void check(const O& optimizer, const Work& work, double bound, std::int64_t exchanges,
           const std::vector<std::string>& slots) {
  M<O> alone(optimizer);
  const Left expected = train(alone, work, nullptr);
  for (std::int64_t ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    std::vector<Left> all(static_cast<std::size_t>(ranks));
    on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
      M<O> mechanism(optimizer);
      Left& left = all[static_cast<std::size_t>(wire->rank())];
      left = train(mechanism, work, wire.get());
      if (exchanges > 0) CHECK(wire->exchanges == exchanges * std::ssize(work.gradients));
      compare_state(mechanism, left, expected, masters_of(work, wire.get()), slots, bound);
    });
    const Tensors got = joined(all);
    for (std::size_t i = 0; i < got.size(); ++i)
      compare(got[i], expected.parameters[i].detach(), bound);
  }
}
const std::vector<std::string> eight = {"exp_avg", "exp_avg_sq", "exp_avg_largest",
                                        "exp_avg_sq_largest"};
const std::vector<std::string> factored = {"row_var", "col_var", "variance"};
Work matrices(at::ScalarType type) {
  return work({{7, 5}, {2, 9}, {1, 40}, {97, 50}, {50, 97}, {3, 170}, {31, 3}}, type, 4);
}
TEST_CASE("slice updates: Muon's bits, of matrices that one rank each has whole") {
  const Muon muon{.lr = 0.1, .groups = {{.match = named("p3"), .lr = 0.2, .weight_decay = 0.3}}};
  Muon other = muon;
  other.nesterov = false, other.adjust_lr_fn = AdjustLR::MatchRMSAdamW;
  check<Plain>(muon, matrices(at::kFloat), 0, 0, {"momentum_buffer"});
  check<Plain>(other, matrices(at::kDouble), 0, 0, {"momentum_buffer"});
  check<OnDevice>(muon, matrices(at::kFloat), 0, 0, {"momentum_buffer"});
}
TEST_CASE("slice updates: AdamW8bit's bits, in blocks that lie in several slices") {
  for (std::int64_t size : {100, 256, 4096})
    for (std::int64_t least : {0, 4096}) {
      CAPTURE(size);
      const AdamW8bit optimizer{.lr = 0.1,
                                .block_size = size,
                                .min_8bit_size = least,
                                .groups = {{.match = named("p3"), .weight_decay = 0.3}}};
      check<Plain>(optimizer, work(shapes, at::kFloat, 4), 0, 2, eight);
    }
  check<OnDevice>(AdamW8bit{.lr = 0.1, .min_8bit_size = 100}, work(shapes, at::kFloat, 4), 0, 2,
                  eight);
  check<Plain>(AdamW8bit{.lr = 0.1, .maximize = true}, work(shapes, at::kDouble, 2), 0, 2, eight);
}
TEST_CASE("slice updates: Adafactor up to rounding, by two sums in a step") {
  Adafactor optimizer{.weight_decay = 0.1,
                      .groups = {{.match = named("p3"), .lr = 0.2, .weight_decay = 0.3}}};
  check<Plain>(optimizer, work(shapes, at::kDouble, 4), 1e-12, 3, factored);
  check<OnDevice>(optimizer, work(shapes, at::kFloat, 4), 1e-6, 3, factored);
  optimizer.maximize = true;
  check<Plain>(optimizer, work(shapes, at::kFloat, 4), 1e-6, 3, factored);
}

}  // namespace test::ranks::slice_updates
