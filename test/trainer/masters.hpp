#pragma once
// Defines a mechanism that moves parameters: it has master weights in double precision and gathered
// parameters in FP32. Also trains the same by hand.
#include "compare.hpp"

namespace test {

/// Master weights in double precision. `Keeps`: gathered parameters stay between steps. `Flat`: one
/// master for all parameters of a unit, which no rule could tell apart.
template <bool Keeps = false, bool Flat = false>
struct Masters64 {
  using axis = ikebana::axis::offload;
  bool allow_unused_units = true;
};

/// The bytes of all gathered parameters, counted at allocation; and which call is to fail.
struct Depot {
  std::int64_t live = 0, peak = 0;
  int gathers = 0, reduces = 0;
  int failing_gather = -1, failing_reduce = -1;

  at::Tensor copy(const at::Tensor& master) {
    auto bytes = master.numel() * std::int64_t(sizeof(float));
    live += bytes;
    peak = std::max(peak, live);
    auto* memory = new float[std::size_t(master.numel())];
    auto free = [this, bytes](void* p) {
      live -= bytes;
      delete[] static_cast<float*>(p);
    };
    return at::from_blob(memory, master.sizes(), free, at::kFloat).copy_(master);
  }
  void expect(const char* what, int& count, int failing) {
    if (count++ == failing) throw std::runtime_error(std::string("no ") + what);
  }
};
inline Depot depot;

}  // namespace test

template <bool Keeps, bool Flat>
struct ikebana::Mechanism<test::Masters64<Keeps, Flat>> : ikebana::OffloadHooks {
  static constexpr bool moves_parameters = true, keeps_gathered = Keeps;
  test::Masters64<Keeps, Flat> values;

  explicit Mechanism(test::Masters64<Keeps, Flat> v) : values(v) {}

  Tensors to_masters(const Unit&, Tensors full) {
    for (auto& t : full) t = t.to(at::kDouble);
    if (!Flat) return full;
    for (auto& t : full) t = t.reshape(-1);
    return {at::cat(full)};
  }
  Tensors gather(const Unit&, Tensors masters) {
    test::depot.expect("gather", test::depot.gathers, test::depot.failing_gather);
    for (auto& t : masters) t = test::depot.copy(t);
    return masters;
  }
  Tensors reduce(const Unit&, Tensors gradients) {
    test::depot.expect("reduce", test::depot.reduces, test::depot.failing_reduce);
    for (at::Tensor& g : gradients)
      if (g.defined()) g = g.to(at::kDouble);
    return gradients;
  }
};

namespace test {

/// A loop by hand for comparison: double master weights of float parameters, updated by fused AdamW
/// on doubles. Each group of parameters has one flat master.
class ByHand {
 public:
  explicit ByHand(std::vector<std::vector<at::Tensor>> all) : groups_(std::move(all)) {
    for (const auto& group : groups_) {
      masters_.push_back(flat(group).to(at::kDouble));
      m_.push_back(at::zeros_like(masters_.back()));
      v_.push_back(at::zeros_like(masters_.back()));
      steps_.push_back(at::zeros({}));
    }
    gradients_.resize(groups_.size());
  }
  /// Adds the gradients that one backward left in the parameters to the master weights' gradients.
  void collect() {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      bool any = false;
      std::vector<at::Tensor> all;
      for (auto& p : groups_[i]) {
        any = any || p.grad().defined();
        all.push_back(p.grad().defined() ? p.grad() : at::zeros_like(p.detach()));
        p.mutable_grad().reset();
      }
      if (!any) continue;
      at::Tensor home = flat(all).to(at::kDouble);
      gradients_[i] = gradients_[i].defined() ? gradients_[i] + home : home;
    }
  }
  void update(std::optional<double> max_norm = {}) {
    torch::NoGradGuard no_grad;
    std::vector<at::Tensor> p, g, m, v, steps;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (!gradients_[i].defined()) continue;
      p.push_back(masters_[i]), g.push_back(std::exchange(gradients_[i], {}));
      m.push_back(m_[i]), v.push_back(v_[i]), steps.push_back(steps_[i]);
    }
    if (max_norm) {  // in double: a fused operator reads a divisor as a float
      auto norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(g, 2)), 2);
      auto divisor = ((norm + 1e-6) / *max_norm).clamp_min(1);
      for (auto& gradient : g) gradient.div_(divisor);
    }
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(p, g, m, v, {}, steps, 1e-3, 0.9, 0.999, 1e-2, 1e-8, false, false);
    for (std::size_t i = 0; i < groups_.size(); ++i) copy_to_parameters(groups_[i], masters_[i]);
  }

 private:
  static at::Tensor flat(std::vector<at::Tensor> all) {
    for (auto& t : all) t = t.detach().reshape(-1);
    return at::cat(all);
  }
  static void copy_to_parameters(std::vector<at::Tensor>& group, const at::Tensor& master) {
    std::int64_t begin = 0;
    for (auto& p : group) {
      p.copy_(master.narrow(0, begin, p.numel()).view(p.sizes()));
      begin += p.numel();
    }
  }

  std::vector<std::vector<at::Tensor>> groups_;
  std::vector<at::Tensor> masters_, gradients_, m_, v_, steps_;
};

}  // namespace test
