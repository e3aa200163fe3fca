#pragma once
// Saving beside training: the step waits for a copy in memory, a thread does the rest.
#include <future>
#include <ikebana/state/copy.hpp>
#include <ikebana/state/saved_state.hpp>

namespace ikebana {

/// A save on its way to the disk.
class PendingSave {
 public:
  PendingSave() = default;

  /// Returns when the state is on the disk. Throws what saving threw, each time.
  void wait() const {
    if (!shared_) return;
    shared_->was_asked = true;
    shared_->result.get();
  }
  bool ready() const {
    return !shared_ ||
           shared_->result.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

 private:
  friend class AsyncSaver;
  struct Shared {
    std::shared_future<void> result;
    std::atomic<bool> was_asked = false;
  };
  std::shared_ptr<Shared> shared_;
};

/// Copies states and writes the copies, one at a time. Keeps the memory of the copy for the next.
class AsyncSaver {
 public:
  AsyncSaver() = default;
  ~AsyncSaver() {
    try {
      finish();
    } catch (const std::exception& error) {
      TORCH_WARN("An asynchronous save failed, and nobody asked: ", error.what());
    }
  }
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  /// Returns when `state` is copied. Waits for the save before this one, and throws its error
  /// where nobody asked for it.
  PendingSave save(const std::filesystem::path& path, const StateDict& state, Metadata metadata) {
    return save(state, [path, metadata = std::move(metadata)](const StateDict& copy) {
      save_tensors(path, copy, metadata);
    });
  }
  /// The same where `write(copy)` is called on the thread.
  PendingSave save(const StateDict& state, std::function<void(const StateDict&)> write) {
    finish();
    copy(state);
    PendingSave begun;
    begun.shared_ = std::make_shared<PendingSave::Shared>();
    auto job = [this, write = std::move(write)] { write(std::as_const(copy_)); };
    begun.shared_->result = std::async(std::launch::async, std::move(job)).share();
    return pending_ = begun;
  }
  bool is_busy() const { return !pending_.ready(); }
  /// Returns when nothing is on its way.
  void finish() {
    PendingSave last = std::exchange(pending_, {});
    if (!last.shared_) return;
    last.shared_->result.wait();
    if (!last.shared_->was_asked) last.wait();
  }

 private:
  void copy(const StateDict& state) {
    for (const auto& [name, t] : state) detail::check_storable(name, t);
    if (copy_.empty()) copy_ = detail::memory_like(state);
    std::erase_if(copy_, [&](const auto& item) { return !state.count(item.first); });
    for (const auto& [name, t] : state) {
      at::Tensor& to = copy_[name];
      if (!to.defined() || to.sizes() != t.sizes() || to.scalar_type() != t.scalar_type())
        to = at::empty(t.sizes(),
                       t.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous));
      detail::copy_bytes(to, t);
    }
  }

  StateDict copy_;
  PendingSave pending_;
};

}  // namespace ikebana
