// Tests optimizers whose update of an element depends on others. Over slices they leave what they
// leave over whole parameters.
#include <ikebana/optimizer/matrices/matrix_rounds.hpp>
#include "test.hpp"

#include "counting_group.hpp"
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

/// Compares the tensors. `bound` 0 means the same bits.
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
TEST_CASE("slice updates: LAMB up to rounding, by one sum in a step") {
  LAMB optimizer{.lr = 0.1, .groups = {{.match = named("p3"), .lr = 0.2, .weight_decay = 0.3}}};
  const std::vector<std::string> moments = {"exp_avg", "exp_avg_sq"};
  check<Plain>(optimizer, work(shapes, at::kDouble, 4), 1e-12, 2, moments);
  check<OnDevice>(optimizer, work(shapes, at::kFloat, 4), 1e-5, 2, moments);
  optimizer.maximize = true;
  check<Plain>(optimizer, work(shapes, at::kFloat, 4), 1e-5, 2, moments);
}

/// Returns what all ranks send in an update, after the first one. The messages of an agreement are
/// frames of 256 bytes to each other rank.
template <class O>
std::int64_t sent(const O& optimizer, Work work, std::int64_t ranks) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  work.gradients.resize(1);
  std::atomic<std::int64_t> all = 0;
  on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
    auto counting = c10::make_intrusive<Counting>(
        ikebana::detail::make_gloo(store, wire->rank(), ranks, std::chrono::minutes(1), true));
    ikebana::detail::Connection connection{ProcessGroup(counting)};
    connection.open(at::kCPU);
    Plain<O> mechanism(optimizer);
    train(mechanism, work, &connection);
    all += counting->bytes;
    ikebana::detail::meet(connection, "the end");  // another rank may still wait for a message
  });
  return all;
}
std::int64_t frames(std::int64_t ranks) { return ranks * (ranks - 1) * 256; }

TEST_CASE("slice updates: Muon sends each element twice in BFloat16, from and to its owner") {
  Work all = matrices(at::kFloat);
  std::vector<Slice> slices;
  all.parameters.pop_back();  // it has no gradient in this step
  for (Tensors& step : all.gradients) step.pop_back();
  for (const at::Tensor& p : all.parameters) slices.push_back(ikebana::detail::whole_slice(p, 0));
  for (std::int64_t ranks : {2, 3, 5}) {
    CAPTURE(ranks);
    std::int64_t expected = frames(ranks);
    for (const auto& round : ikebana::detail::matrix_rounds(slices, std::size_t(ranks)))
      for (const auto& [place, owner] : round) {
        const auto& sizes = slices[place].sizes;
        const auto own = rows_of_rank(sizes[0], static_cast<std::int64_t>(owner), ranks).count;
        expected += 2 * 2 * (sizes[0] - own) * sizes[1];
      }
    CHECK(sent(Muon{}, all, ranks) == expected);
  }
}
TEST_CASE("slice updates: AdamW8bit sends 16 bytes for a parameter, to each other rank") {
  const Work all = work({{97, 50}, {7, 5}, {3, 1700}, {2, 2}}, at::kFloat, 1);  // the last: none
  const AdamW8bit optimizer{.min_8bit_size = 100};
  for (std::int64_t ranks : {2, 3})
    CHECK(sent(optimizer, all, ranks) == ranks * (ranks - 1) * (256 + 2 * 16));
}
TEST_CASE("slice updates: Adafactor sends the columns of its matrices, and few numbers") {
  const Work all = work({{97, 500}, {50, 700}, {3000}, {2, 2}}, at::kFloat, 1);
  for (std::int64_t ranks : {2, 3}) {
    const double columns = static_cast<double>(ranks * (ranks - 1) * (500 + 700) * 4);
    const auto bytes = static_cast<double>(sent(Adafactor{}, all, ranks));
    CHECK(bytes > columns);
    CHECK(bytes < columns + static_cast<double>(5 * frames(ranks)));
  }
}

TEST_CASE("slice updates: matrices are shared out evenly, each once, in rounds of bounded size") {
  std::vector<Slice> all;
  for (std::int64_t i = 0; i < 60; ++i)
    all.push_back({{8 + i * 37 % 90, 8 + i * 53 % 70}, {0, 1}, 0});
  all.push_back({{300, 200}, {0, 1}, 0});
  auto cost = [&](std::size_t i) {
    const auto& s = all[i].sizes;
    return static_cast<double>(s[0] * s[1] * std::min(s[0], s[1]));
  };
  double sum = 0;
  for (std::size_t i = 0; i + 1 < all.size(); ++i) sum += cost(i);
  for (std::size_t ranks : {2, 3, 7}) {
    CAPTURE(ranks);
    std::vector<int> times(all.size());
    std::vector<double> work(ranks);
    for (const auto& round : ikebana::detail::matrix_rounds(all, ranks)) {
      std::vector<std::int64_t> elements(ranks);
      for (const auto& [place, owner] : round) {
        ++times[place], elements[owner] += all[place].numel();
        work[owner] += cost(place);
      }
      CHECK(*std::ranges::max_element(elements) <= 300 * 200);
    }
    CHECK(std::ranges::all_of(times, [](int n) { return n == 1; }));
    std::ranges::sort(work);
    CHECK(work.back() == cost(60));  // the largest alone costs more than all others
    CHECK(work[ranks - 2] <= sum / static_cast<double>(ranks - 1) * 1.1);
  }
}

}  // namespace test::ranks::slice_updates
