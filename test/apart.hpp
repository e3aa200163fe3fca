#pragma once
// Defines a policy that stores the state of optimizers apart, in memory whose use outside of a
// window is found.
#include <ikebana.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

namespace test {

/// If there are windows, memory holds its values within them only; outside it holds NaN, and what
/// is written there is lost.
class Apart : public ikebana::StateStorage {
 public:
  using Address = const void*;
  std::int64_t window = 0;
  int fails_at = 0;                           ///< `place_state` throws at this call; 0: never
  int misuses = 0;                            ///< memory that was used in another way
  std::vector<std::vector<Address>> windows;  ///< the tensors of each, if `records`
  bool records = true;

  at::Tensor place_state(const at::Tensor& state) override {
    if (fails_at > 0 && --fails_at == 0) throw std::runtime_error("no place");
    auto block = std::make_shared<Block>(state.nbytes());
    at::Tensor placed = at::from_blob(
        block->memory.data(), state.sizes(), state.strides(),
        [all = blocks_](void* memory) { all->erase(memory); }, state.options());
    placed.copy_(state);
    if (window > 0) block->hide();
    blocks_->emplace(placed.data_ptr(), std::move(block));
    return placed;
  }
  std::int64_t window_bytes() const override { return window; }
  void begin_window(const ikebana::Tensors& state) noexcept override {
    if (records) windows.emplace_back();
    for (const at::Tensor& t : state) {
      if (records) windows.back().push_back(t.data_ptr());
      change(t.data_ptr(), /*is_open=*/false);
    }
  }
  void end_window(const ikebana::Tensors& state) noexcept override {
    for (const at::Tensor& t : state) change(t.data_ptr(), /*is_open=*/true);
  }
  bool has(const at::Tensor& t) const { return blocks_->count(t.data_ptr()) != 0; }
  std::size_t placed() const { return blocks_->size(); }
  std::size_t bytes_of(Address memory) const { return blocks_->at(memory)->memory.size(); }
  /// Calls `f` while all memory can be read and written, outside of a window.
  template <class F>
  auto with_all(const F& f) {
    for (auto& item : *blocks_)
      if (!item.second->is_open) misuses += !item.second->show();
    auto result = f();
    for (auto& item : *blocks_)
      if (window > 0) item.second->hide();
    return result;
  }

 private:
  struct Block {
    std::vector<char> memory, aside;
    bool is_open = true;
    explicit Block(std::size_t bytes) : memory(bytes), aside(bytes) {}
    void hide() noexcept {
      if (!std::exchange(is_open, false)) return;
      std::ranges::copy(memory, aside.begin());
      std::ranges::fill(memory, '\xff');
    }
    /// Returns false if the memory was written to while it was hidden.
    bool show() noexcept {
      const bool untouched = std::ranges::all_of(memory, [](char c) { return c == '\xff'; });
      std::ranges::copy(aside, memory.begin());
      is_open = true;
      return untouched;
    }
  };
  void change(Address memory, bool is_open) noexcept {
    const auto found = blocks_->find(memory);
    if (found == blocks_->end() || found->second->is_open != is_open || window == 0) {
      ++misuses;
    } else if (is_open) {
      found->second->hide();
    } else {
      misuses += !found->second->show();
    }
  }

  using Blocks = std::map<Address, std::shared_ptr<Block>>;
  std::shared_ptr<Blocks> blocks_ = std::make_shared<Blocks>();  // tensors may outlive the storage
};

struct StoresApart {
  using axis = ikebana::axis::offload;
  std::shared_ptr<Apart> storage = std::make_shared<Apart>();
};
inline StoresApart stores_apart(std::int64_t window) {
  StoresApart policy;
  policy.storage->window = window;
  return policy;
}

}  // namespace test

template <>
struct ikebana::Mechanism<test::StoresApart> : ikebana::OffloadHooks {
  test::StoresApart values;
  explicit Mechanism(test::StoresApart v) : values(std::move(v)) {}
  ikebana::StateStorage* state_storage() { return values.storage.get(); }
};
