#pragma once
// Whether this thread is recomputing a checkpointed unit.

namespace ikebana::detail {

/// True on a thread that recomputes a checkpointed unit. The graph that it builds is discarded, so
/// what belongs to the first forward (gradient edges, hooks) must not be attached a second time.
inline bool& recomputing() {
  static thread_local bool flag = false;
  return flag;
}

class RecomputingScope {
 public:
  RecomputingScope() : before_(recomputing()) { recomputing() = true; }
  ~RecomputingScope() { recomputing() = before_; }
  RecomputingScope(const RecomputingScope&) = delete;
  RecomputingScope& operator=(const RecomputingScope&) = delete;

 private:
  bool before_;
};

}  // namespace ikebana::detail
