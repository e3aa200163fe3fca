#pragma once
// Defines test doubles of the policies that train on several ranks: parameters that every rank has
// (DDP), gradients and masters in slices beside whole parameters (ZeRO2), everything in slices
// (FSDP).
#include <deque>
#include <map>
#include <mutex>

#include "wire.hpp"

namespace test::ranks {

enum class Kind { DDP, ZeRO2, FSDP };

/// `ahead`: FSDP begins to gather the unit that follows. `delay`: each gather takes some time.
template <Kind K>
struct Double {
  using axis = ikebana::axis::shard;
  std::shared_ptr<Wire> wire = {};
  bool ahead = true, delay = false;
  bool allow_unused_units = false;
};

/// Records what was gathered and released. Shared with the memory, which may outlive the mechanism.
struct Gathered {
  std::map<std::size_t, std::int64_t> here;  ///< units whose memory exists, and how often
  std::size_t most_here = 0;                 ///< at a time
  int gathers = 0, begun = 0, reduces = 0;
  std::vector<std::string> reduce_dtypes;
  std::vector<bool> syncs;  ///< for each microbatch, whether its gradients are reduced

  void add(std::size_t unit) {
    ++here[unit], ++gathers;
    most_here = std::max(most_here, here.size());
  }
  void remove(std::size_t unit) {
    if (--here[unit] == 0) here.erase(unit);
  }
};

/// Allocates memory that is never used again, also after it was freed.
inline float* memory_of_its_own(std::int64_t bytes) {
  static std::mutex mutex;
  static std::deque<std::vector<float>> all;
  std::lock_guard lock(mutex);
  return all.emplace_back(static_cast<std::size_t>(bytes / 4 + 1)).data();
}
/// Allocates memory for a unit's gathered parameters. Freed memory becomes NaN, so that code that
/// still reads it gets NaN.
inline at::Tensor unit_memory(std::int64_t bytes, std::size_t unit,
                              std::shared_ptr<Gathered> gathered) {
  float* memory = memory_of_its_own(bytes);
  auto poison = [memory, bytes] {
    std::memset(memory, 0xff, static_cast<std::size_t>(bytes));  // NaN in every floating dtype
  };
  poison();
  gathered->add(unit);
  auto release = [poison, unit, gathered = std::move(gathered)](void*) {
    poison();
    gathered->remove(unit);
  };
  return at::from_blob(memory, {bytes}, release, at::kByte);
}

/// Cuts the parameters of a unit: each by rows, as evenly as whole rows can be.
class Cut {
 public:
  Cut(const ikebana::Tensors& full, std::int64_t size) : size_(size) {
    for (const at::Tensor& t : full) sizes_.push_back(t.sizes().vec());
  }
  std::size_t count() const { return sizes_.size(); }
  const std::vector<std::int64_t>& sizes(std::size_t i) const { return sizes_[i]; }
  static ikebana::RowRange rows(std::int64_t all, std::int64_t rank, std::int64_t size) {
    const std::int64_t each = (all + size - 1) / size, first = std::min(rank * each, all);
    return {first, std::min(each, all - first)};
  }
  ikebana::RowRange rows(std::size_t i, std::int64_t rank) const {
    return rows(sizes_[i][0], rank, size_);
  }
  at::Tensor slice(const at::Tensor& whole, std::size_t i, std::int64_t rank) const {
    const auto r = rows(i, rank);
    return whole.narrow(0, r.first, r.count);
  }

 private:
  std::vector<std::vector<std::int64_t>> sizes_;
  std::int64_t size_;
};

}  // namespace test::ranks

template <test::ranks::Kind K>
struct ikebana::Mechanism<test::ranks::Double<K>> : ikebana::ShardHooks {
  using Kind = test::ranks::Kind;
  using Wire = test::ranks::Wire;
  static constexpr bool moves_parameters = K != Kind::DDP, keeps_gathered = K == Kind::ZeRO2,
                        gathers_ahead = K == Kind::FSDP, per_unit = K == Kind::FSDP;
  test::ranks::Double<K> values;
  std::shared_ptr<test::ranks::Gathered> gathered = std::make_shared<test::ranks::Gathered>();
  explicit Mechanism(test::ranks::Double<K> v) : values(std::move(v)) {}

  Ranks ranks() {
    RankGroup& all = *values.wire;
    return {all, moves_parameters ? all : *alone_};
  }
  void open_step() { values.wire->open(); }
  void set_requires_gradient_sync(bool is_last) { gathered->syncs.push_back(is_last); }
  void offer_exception(const std::exception_ptr& exception) noexcept {
    begun_.clear();
    try {
      std::rethrow_exception(exception);
    } catch (const std::exception& error) {
      values.wire->fail(error.what());
    } catch (...) {
      values.wire->fail("?");
    }
  }
  void abort() noexcept { begun_.clear(); }

  RowRange stored_rows(const Unit&, std::size_t, std::int64_t count) const {
    if (!moves_parameters) return {0, count};
    return test::ranks::Cut::rows(count, values.wire->rank(), values.wire->size());
  }
  Tensors to_masters(const Unit& unit, Tensors full) {
    const auto& cut = cuts_.try_emplace(unit.index, full, values.wire->size()).first->second;
    for (std::size_t i = 0; i < full.size(); ++i)
      full[i] = cut.slice(full[i], i, values.wire->rank()).clone();
    return full;
  }
  /// The bytes of all ranks are there; the parameters are not, until `gather`.
  void begin_gather(const Unit& unit, const Tensors& masters) {
    if (!values.ahead) return;
    ++gathered->begun;
    begun_.insert_or_assign(unit.index, start(unit, masters));
  }
  Tensors gather(const Unit& unit, Tensors masters) {
    if (values.delay) std::this_thread::sleep_for(std::chrono::microseconds(300));
    auto found = begun_.find(unit.index);
    if (found == begun_.end()) return finish(unit, masters, start(unit, masters));
    Begun begun = std::move(found->second);
    begun_.erase(found);
    return finish(unit, masters, std::move(begun));
  }
  void set_reduce_dtypes(const Unit& unit, const DTypes& dtypes) { dtypes_[unit.index] = dtypes; }
  Tensors reduce(const Unit& unit, Tensors gradients) {
    ++gathered->reduces;
    const DTypes& dtypes = dtypes_.at(unit.index);
    const auto& cut = cuts_.at(unit.index);
    Tensors sums;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gathered->reduce_dtypes.push_back(c10::toString(dtypes[i]));
      at::Tensor whole =
          sum_of_ranks(gradients[i].defined() ? gradients[i].to(dtypes[i]) : at::Tensor(),
                       at::empty(cut.sizes(i), dtypes[i]));
      sums.push_back(whole.defined() ? cut.slice(whole, i, values.wire->rank()).clone() : whole);
    }
    return sums;
  }
  void finish_reductions(const Masters& masters) {
    if (moves_parameters) return;
    for (const at::Tensor& master : masters.values)
      if (at::Tensor sum = sum_of_ranks(master.grad(), master); sum.defined())
        master.mutable_grad() = sum;
  }

 private:
  struct Begun {
    std::vector<std::string> bytes;
    at::Tensor memory;
  };
  static std::int64_t padded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }
  std::int64_t bytes(const Unit& unit, const Tensors& masters, std::size_t i) const {
    return c10::multiply_integers(cuts_.at(unit.index).sizes(i)) *
           static_cast<std::int64_t>(masters[i].itemsize());
  }
  Begun start(const Unit& unit, const Tensors& masters) {
    std::string own;
    for (const at::Tensor& t : masters) own += Wire::bytes_of(t);
    std::int64_t total = 0;
    for (std::size_t i = 0; i < masters.size(); ++i) total += padded(bytes(unit, masters, i));
    return {values.wire->exchange(own), test::ranks::unit_memory(total, unit.index, gathered)};
  }
  Tensors finish(const Unit& unit, const Tensors& masters, Begun begun) {
    const auto& cut = cuts_.at(unit.index);
    Tensors full;
    std::int64_t place = 0;
    std::vector<std::size_t> read(begun.bytes.size());
    for (std::size_t i = 0; i < masters.size(); ++i) {
      const std::int64_t length = bytes(unit, masters, i);
      full.push_back(
          begun.memory.narrow(0, place, length).view(masters[i].scalar_type()).view(cut.sizes(i)));
      place += padded(length);
      for (std::size_t r = 0; r < begun.bytes.size(); ++r) {
        at::Tensor to = cut.slice(full[i], i, static_cast<std::int64_t>(r));
        if (to.numel() > 0) to.copy_(Wire::tensor_of(begun.bytes[r], read[r], to));
        read[r] += to.nbytes();
      }
    }
    return full;
  }
  /// Returns the sum in the order of ranks, which is undefined if no rank has a tensor.
  at::Tensor sum_of_ranks(const at::Tensor& own, const at::Tensor& like) {
    const auto all = values.wire->exchange(own.defined() ? Wire::bytes_of(own) : std::string());
    at::Tensor sum;
    for (const std::string& one : all) {
      if (one.empty()) continue;
      const at::Tensor t = Wire::tensor_of(one, 0, like);
      sum = sum.defined() ? sum.add_(t) : t;
    }
    return sum;
  }

  std::shared_ptr<SingleRank> alone_ = std::make_shared<SingleRank>();
  std::map<std::size_t, test::ranks::Cut> cuts_;
  std::map<std::size_t, Begun> begun_;
  std::map<std::size_t, DTypes> dtypes_;
};
