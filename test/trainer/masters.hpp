#pragma once
// A mechanism that moves parameters: master weights in double precision, gathered parameters in
// FP32. And the same training written by hand.
#include "compare.hpp"

namespace test {

/// Master weights in double precision. `Keeps`: gathered parameters stay between steps. `Flat`: one
/// master for all trained parameters of a unit and one for the frozen ones, as shards would be.
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
  static constexpr bool keeps_gathered = Keeps;
  test::Masters64<Keeps, Flat> values;
  std::map<std::size_t, Tensors> shapes;  // of a unit's parameters, before they were flattened

  explicit Mechanism(test::Masters64<Keeps, Flat> v) : values(v) {}

  static Tensors chosen(const Unit& unit, const Tensors& all, bool trained) {
    Tensors some;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (unit.parameters[i].requires_grad() == trained) some.push_back(all[i]);
    return some;
  }
  static Tensors flat_views(Tensors all) {
    for (auto& t : all) t = t.reshape(-1);
    return all;
  }
  static Tensors joined(const Unit& unit, const Tensors& all) {
    Tensors flat;
    for (bool trained : {true, false})
      if (auto some = chosen(unit, all, trained); !some.empty())
        flat.push_back(at::cat(flat_views(some)));
    return flat;
  }
  Tensors to_masters(const Unit& unit, Tensors full) {
    for (const auto& t : full) shapes[unit.index].push_back(at::empty(t.sizes(), at::kMeta));
    for (auto& t : full) t = t.to(at::kDouble);
    return Flat ? joined(unit, full) : full;
  }
  Tensors gather(const Unit& unit, Tensors masters) {
    test::depot.expect("gather", test::depot.gathers, test::depot.failing_gather);
    if (!Flat) {
      for (auto& t : masters) t = test::depot.copy(t);
      return masters;
    }
    at::Tensor whole = test::depot.copy(at::cat(masters));
    Tensors working(unit.parameters.size());
    std::int64_t begin = 0;
    for (bool trained : {true, false})
      for (std::size_t i = 0; i < working.size(); ++i) {
        if (unit.parameters[i].requires_grad() != trained) continue;
        const at::Tensor& shape = shapes[unit.index][i];
        working[i] = whole.narrow(0, begin, shape.numel()).view(shape.sizes());
        begin += shape.numel();
      }
    return working;
  }
  Tensors reduce(const Unit& unit, Tensors gradients) {
    test::depot.expect("reduce", test::depot.reduces, test::depot.failing_reduce);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      at::Tensor& g = gradients[i];
      if (g.defined()) g = g.to(at::kDouble);
      else if (Flat) g = at::zeros(shapes[unit.index][i].sizes(), at::kDouble);
    }
    if (!Flat) return gradients;
    Tensors home = joined(unit, gradients);
    if (home.size() == 2) home[1].reset();
    return home;
  }
};

namespace test {

/// The same by hand: double master weights of float parameters, updated by fused AdamW on doubles.
/// Each group of parameters has one flat master.
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
  /// Adds the gradients that one backward left in the parameters to those of the master weights.
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
    for (std::size_t i = 0; i < groups_.size(); ++i) refresh_gathered(groups_[i], masters_[i]);
  }

 private:
  static at::Tensor flat(std::vector<at::Tensor> all) {
    for (auto& t : all) t = t.detach().reshape(-1);
    return at::cat(all);
  }
  static void refresh_gathered(std::vector<at::Tensor>& group, const at::Tensor& master) {
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
