#pragma once
// Ranks of a test: what they send each other goes through a store of c10d, among threads or
// processes. Sums are taken in the order of ranks.
#include "test.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <ikebana.hpp>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace test::ranks {

/// A group of ranks by one function that gathers the bytes of all. A rank that fails writes why,
/// and takes part again, under another name, once all have failed.
class Wire : public ikebana::RankGroup {
 public:
  using RankGroup::sum;
  Wire(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank, std::int64_t size)
      : store_(std::move(store)), rank_(rank), size_(size) {}

  std::int64_t rank() const override { return rank_; }
  std::int64_t size() const override { return size_; }
  std::vector<std::string> exchange(const std::string& own) override {
    ++exchanges;
    if (is_closed_) throw ikebana::RankFailed("this rank takes no part: it failed before");
    return all_gather(own);
  }
  void sum(std::vector<at::Tensor>& values) override {
    std::string own;
    for (const at::Tensor& t : values) own += bytes_of(t);
    const std::vector<std::string> all = exchange(own);
    for (const std::string& one : all)
      if (one.size() != own.size()) throw ikebana::RankFailed("ranks add up different numbers");
    std::size_t begin = 0;
    for (at::Tensor& t : values) {
      at::Tensor total = tensor_of(all[0], begin, t);
      for (std::size_t r = 1; r < all.size(); ++r) total.add_(tensor_of(all[r], begin, t));
      begin += t.nbytes();
      t = total;
    }
  }
  /// This rank failed: the others hear of it in the exchange that they wait in, or in the next one.
  void fail(const std::string& why) noexcept {
    if (std::exchange(is_closed_, true)) return;
    try {
      set(key("failed"), "rank " + std::to_string(rank_) + ": " + why);
      drop();
    } catch (...) {
      std::abort();
    }
  }
  /// Meets the others again after a failure.
  void open() {
    if (!std::exchange(is_closed_, false)) return;
    ++generation_, count_ = 0, ++rejoined;
    exchange("");
  }

  static std::string bytes_of(const at::Tensor& t) {
    const at::Tensor dense = t.detach().contiguous();
    return {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()};
  }
  static at::Tensor tensor_of(const std::string& bytes, std::size_t begin, const at::Tensor& like) {
    at::Tensor t = at::empty(like.sizes(), like.options().requires_grad(false));
    std::memcpy(t.mutable_data_ptr(), bytes.data() + begin, t.nbytes());
    return t;
  }

  std::int64_t exchanges = 0, rejoined = 0;

 protected:
  virtual std::vector<std::string> all_gather(const std::string& own) {
    const std::string round = std::to_string(count_++);
    set(key(round + "/" + std::to_string(rank_)), own);
    std::vector<std::string> all;
    for (std::int64_t r = 0; r < size_; ++r)
      all.push_back(get(key(round + "/" + std::to_string(r))));
    if (count_ > 1)
      store_->deleteKey(key(std::to_string(count_ - 2) + "/" + std::to_string(rank_)));
    return all;
  }
  virtual void drop() {}
  std::string key(const std::string& name) const {
    return std::to_string(generation_) + "/" + name;
  }
  void set(const std::string& name, const std::string& value) {
    store_->set(name, std::vector<std::uint8_t>(value.begin(), value.end()));
  }
  std::string value(const std::string& name) {
    const auto bytes = store_->get(name);
    return {bytes.begin(), bytes.end()};
  }
  [[noreturn]] void throw_failed() { throw ikebana::RankFailed(value(key("failed"))); }
  bool has_failed() { return store_->check({key("failed")}); }

  c10::intrusive_ptr<c10d::Store> store_;
  std::int64_t rank_, size_, generation_ = 0;

 private:
  std::string get(const std::string& name) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!store_->check({name})) {
      if (has_failed()) throw_failed();
      if (std::chrono::steady_clock::now() > end)
        throw ikebana::RankFailed("no answer within 60 s for " + name);
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return value(name);
  }

  std::int64_t count_ = 0;
  bool is_closed_ = false;
};

/// Calls `f(wire)` for each of n ranks, in a thread of its own. Throws the first error that is not
/// of another rank, else the first of all.
template <class F>
void on_threads(std::int64_t n, F&& f) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (std::int64_t r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      auto wire = std::make_shared<Wire>(store, r, n);
      try {
        f(wire);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(r)] = std::current_exception();
        wire->fail(error.what());
      }
    });
  for (auto& thread : threads) thread.join();
  std::exception_ptr other;
  for (const auto& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const ikebana::RankFailed&) {
      other = other ? other : error;
    }
  }
  if (other) std::rethrow_exception(other);
}

}  // namespace test::ranks
