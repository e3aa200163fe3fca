#pragma once

namespace ikebana::detail {

/// True on a thread that computes a checkpointed unit again: what it builds is thrown away, so
/// nothing that belongs to the first forward (gradient edges, hooks) may be attached a second time.
inline bool& recomputing() {
  static thread_local bool yes = false;
  return yes;
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
