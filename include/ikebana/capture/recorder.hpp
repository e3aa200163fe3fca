#pragma once
// Records the operators of one step, below autograd, with the source of every tensor that they
// read, and finds what a replay would not repeat.
#include <ikebana/bridge/allocation_plan.hpp>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/bridge/nodes.hpp>
#include <ikebana/bridge/operators.hpp>
#include <ikebana/capture/recording.hpp>
#include <ikebana/detail/recording.hpp>
#include <mutex>
#include <thread>

namespace ikebana::detail {

/// Returns true if the shape of the results depends on values of the arguments.
bool has_dynamic_shape(const bridge::OperatorCall& call);

/// Facts about the results of an operator that follow from its arguments.
struct Foreseen {
  bool dynamic_shape;  ///< their shape depends on values
  bool always_true;    ///< the host reads what holds in every step
  explicit Foreseen(const bridge::OperatorCall& call);
};

/// Records what is computed on this thread, and in the backward of an accelerator on its thread of
/// autograd. Holds no tensor that a step makes: autograd takes a gradient without a copy, and adds
/// in place, only if nothing else holds the tensor or its memory.
class Recorder : public bridge::OperatorMode,
                 public bridge::GeneratorObserver,
                 public bridge::AllocationPlanV1 {
 public:
  /// `before` is a former recording of the same step, or null: each operator is compared with it.
  explicit Recorder(c10::Device device = at::kCPU, const Recording* before = nullptr)
      : device_(device), before_(before) {}

  /// Lets the operators read memory that outlives a step, or that each replay is given. Returns the
  /// use of the memory, which is another one if it was allowed before.
  MemoryUse allow(const at::Tensor& t, MemoryUse use, const std::string& name);
  /// Records what `f` does in a phase. On a CPU the step takes the path of a device meanwhile
  /// (detail/recording.hpp).
  template <class F>
  auto record(Phase phase, F&& f) {
    begin_phase(phase);
    std::optional<RecordingScope> recording;
    if (device_.is_cpu()) recording.emplace();
    const bridge::OperatorScope<> scope(*this);
    const bridge::AllocationPlanScope allocations(this);
    struct Observed {
      explicit Observed(Recorder& r) { bridge::generator_observer = &r; }
      ~Observed() { bridge::generator_observer = nullptr; }
    } observed(*this);
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      end_phase();
    } else {
      auto result = f();
      end_phase();
      return result;
    }
  }
  /// Other code has run since the last phase, and may have changed all that it can see.
  void expect_other_contents();
  /// Sets the unit that runs, and returns the former one.
  std::string enter_unit(std::string unit) { return std::exchange(unit_, std::move(unit)); }

  /// Returns true if the recording has the memory of a tensor.
  bool knows(const at::Tensor& t) const {
    return t.has_storage() && index_.count(t.storage().unsafeGetStorageImpl()) != 0;
  }
  /// Returns the number of the next node of autograd when an operator first read the memory of a
  /// tensor; 0 if none did.
  std::uint64_t first_read(const at::Tensor& t) const {
    const auto found = index_.find(t.storage().unsafeGetStorageImpl());
    return found == index_.end() ? 0 : known_[found->second].first_read;
  }
  /// Returns why a replay would not be what the step is, one line each; empty if it would be.
  const std::string& problems() const { return problems_; }
  void add_problem(const std::string& sentence);
  /// Returns the tensor as the recording has it. Its memory is kept after the last operator. `name`
  /// is for the problem that no operator wrote it.
  RecordedTensor kept(const at::Tensor& t, const std::string& name = "a tensor");
  Recording& recording() { return recording_; }
  const Recording& recording() const { return recording_; }

  void call(bridge::OperatorCall& call) override;
  std::uint64_t captured(const at::Generator& generator) override;
  void restored(const at::Generator& generator, std::uint64_t state) override;
  Place take(std::size_t) noexcept override { return {}; }
  void allocated(void* data, std::size_t bytes) noexcept override;
  void freed(void* data) noexcept override;

 private:
  struct Known {  // what is known of the memory of one storage while the step runs
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // no other storage gets its address
    std::uint64_t hash = 0;                             // the content, when it was last written
    bool has_hash = false, is_used = false;
    std::uint64_t identity = 0, first_read = 0;
    std::int64_t begin = 0;  // the byte from which offsets count
    std::vector<std::pair<std::size_t, std::size_t>> overwritten = {};  // bytes of unknown memory

    static c10::weak_intrusive_ptr<c10::StorageImpl> none() {
      return c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>());
    }
  };
  struct Allocation {
    void* data;
    std::size_t bytes;
    std::uint32_t begin, end;  // counts events of the operator; `end` is 0 until it is freed
  };

  std::uint32_t memory_of(const at::Tensor& t);
  std::int64_t first_element(const at::Tensor& t);
  std::uint64_t identity_of(std::uint32_t memory);
  void begin_phase(Phase phase);
  /// Finds memory and generators that the host changed.
  void end_phase();
  void check_generator();
  void record_call(bridge::OperatorCall& call);
  void compute(bridge::OperatorCall& call);
  void note_content(std::uint32_t memory, const c10::Storage& storage);
  bool is_changed(std::uint32_t memory, const c10::Storage& storage) const;
  RecordedTensor recorded(const at::Tensor& t);
  RecordedValue recorded(const c10::IValue& value);
  void begin(RecordedOperator& now);
  void add(const bridge::OperatorCall& call, RecordedOperator now);
  void end(RecordedOperator now);
  /// Finds tensors that no operator made, and memory that the host wrote.
  void check_argument(const bridge::OperatorCall& call, std::size_t i, const at::Tensor& t);
  void note_overwritten(std::uint32_t memory, const at::Tensor& t);
  bool was_overwritten(std::uint32_t memory, const at::Tensor& t) const;
  void check_results(const bridge::OperatorCall& call, const RecordedOperator& now,
                     const Foreseen& foreseen);
  void note_written(const bridge::OperatorCall& call, const RecordedOperator& now);
  void note_allocations(const bridge::OperatorCall& call, RecordedOperator& now);
  std::string place_text(const std::string& op) const;

  c10::Device device_;
  const Recording* before_;
  Recording recording_;
  std::vector<Known> known_;  // for each memory of the recording
  std::unordered_map<c10::StorageImpl*, std::uint32_t> index_;
  std::vector<Allocation> allocations_;  // by the operator that runs
  std::uint32_t events_ = 0;             // its allocations and releases so far
  bool is_in_operator_ = false, allocations_failed_ = false;
  Phase phase_ = Phase::Forward;
  std::string unit_, problems_;
  std::string postponed_;  // a problem if the step goes on after the exception that is thrown
  std::size_t problem_count_ = 0;
  std::uint64_t identities_ = 0;
  bridge::GeneratorState generator_{device_};
  /// After the last operator that drew; unknown after a generator was set back, which is observed
  /// while its mutex is held.
  std::optional<bridge::GeneratorPosition> random_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::mutex mutex_;
};

/// RAII: the recorder knows the unit that runs. It may be null.
class UnitName {
 public:
  UnitName(Recorder* recorder, const std::string& name) : recorder_(recorder) {
    if (recorder_ != nullptr) former_ = recorder_->enter_unit(name);
  }
  ~UnitName() {
    if (recorder_ != nullptr) recorder_->enter_unit(std::move(former_));
  }
  UnitName(const UnitName&) = delete;
  UnitName& operator=(const UnitName&) = delete;

 private:
  Recorder* recorder_;
  std::string former_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/recorder.ipp>
#include <ikebana/capture/impl/recorder_checks.ipp>
#endif
