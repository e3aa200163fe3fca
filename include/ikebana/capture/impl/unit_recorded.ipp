#pragma once
// The recorded calls of a unit, and what the tape of a unit plans once they are equal.
#include <algorithm>
#include <ikebana/bridge/cast_cache.hpp>
#include <ikebana/capture/unit_tape.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

/// A call that is recorded, until its graph is freed.
class UnitTape::RecordedCall : public UnitBackwardCall {
 public:
  RecordedCall(std::shared_ptr<UnitTape> tape, bool throws)
      : unit(tape->unit_, tape->first_ ? &*tape->first_ : nullptr),
        tape_(std::move(tape)),
        throws_(throws) {}

  ~RecordedCall() override {
    if (is_connected && !was_recorded_) ++tape_->abandoned_;
  }

  RecordedUnit unit;
  bool is_connected = false;  // a backward may come

  Tensors backward(Tensors seeds, bool) override {
    if (std::exchange(was_recorded_, true) || tape_->note_other_seeds(seeds))
      return unit.backward_again(seeds);
    Tensors gradients = unit.backward(seeds);
    if (unit.recorder.problems().empty()) end();
    else tape_->refuse(unit.recorder.problems(), throws_);
    return gradients;
  }
  void end() {
    unit.recording.operators = std::move(unit.recorder.recording());
    tape_->end_recording(std::move(unit.recording), throws_);
  }

 private:
  std::shared_ptr<UnitTape> tape_;
  bool throws_, was_recorded_ = false;
};

IKEBANA_INLINE void UnitTape::refuse(const std::string& problems, bool throws) {
  problems_ = problems, is_as_usual_ = is_refused_ = true;
  open_.reset(), first_.reset();
  refuse_unit(unit_, problems_, throws);
}

IKEBANA_INLINE void UnitTape::refuse_values(bool throws) {
  refuse(
      "\n  it returns another value that is no tensor in each call, and every replay would return "
      "the same. Return it as a tensor.",
      throws);
}

IKEBANA_INLINE void UnitTape::run_as_usual(const std::string& why) {
  problems_ = why, is_as_usual_ = true;
}

/// Returns true if gradients have another form than in the first recording: such calls run as usual
/// from now on, and a second recording would be of no use.
IKEBANA_INLINE bool UnitTape::note_other_seeds(const Tensors& seeds) {
  if (!first_) return false;
  BatchForm form;
  form.take_values(0, seeds);
  if (form == first_->seed_form) return false;
  open_.reset(), first_.reset();
  run_as_usual(other_seeds);
  return true;
}

/// Calls `f(i, cast)` for the casts that autocast has of parameters, besides the casts that are
/// given.
template <class F>
void UnitTape::each_other_cast(const F& f) const {
  if (!bridge::caches_weight_casts()) return;
  for (std::size_t i = 0; i < tensors_->parameters.size(); ++i) {
    const at::Tensor& p = tensors_->parameters[i];
    if (p.scalar_type() != at::kFloat || !p.requires_grad() || !p.is_leaf()) continue;
    if (std::find(casts_.begin(), casts_.end(), i) != casts_.end()) continue;
    if (const at::Tensor cast = bridge::cached_weight_cast(p); cast.defined()) f(i, cast);
  }
}

/// Adds the casts that the operators of a call have read. Returns true if there are such: the next
/// recording is given them. LibTorch 2.8 caches a cast without a gradient where gradients are
/// disabled, and the casts that are given have one.
IKEBANA_INLINE bool UnitTape::note_casts(const Recorder& recorder) {
  std::vector<std::size_t> read;
  each_other_cast([&](std::size_t i, const at::Tensor& cast) {
    if (recorder.first_read(cast) == 0) return;
    read.push_back(i);
    if (!cast.requires_grad()) run_as_usual("\n  it uses a cast of a weight without gradients");
  });
  casts_.insert(casts_.end(), read.begin(), read.end());
  return !read.empty();
}

/// Autocast casts a weight once in a forward, for all that use it. Such a cast is no operator of
/// one unit's tape: it is made as usual, and given to the tape like an argument.
IKEBANA_INLINE Tensors UnitTape::with_casts(Tensors arguments) const {
  for (const std::size_t i : casts_)
    arguments.push_back(bridge::weight_cast(tensors_->parameters[i]));
  return arguments;
}

IKEBANA_INLINE void UnitTape::add_arguments(RecordedUnit& call, const Tensors& arguments,
                                            std::size_t own) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const at::Tensor& t = arguments[i];
    if (i >= own) {
      call.add_argument(t, tensors_->parameter_names[casts_[i - own]] + ".cast");
      continue;
    }
    if (has_gradient(t) && t.is_leaf() && at::autocast::is_autocast_enabled(at::kCPU))
      call.recorder.add_problem(
          "an argument is a leaf that requires a gradient, and autocast keeps its cast for other "
          "code. Pass `x * 1`, or cast it.");
    call.add_argument(t, "argument" + std::to_string(i));
  }
}

IKEBANA_INLINE Tensors UnitTape::record(const Tensors& own_arguments, bool throws,
                                        c10::function_ref<void(Recorder&)> allow,
                                        c10::function_ref<Tensors(Recorder&)> compute) {
  UnitEdges outside;
  const bridge::CastCacheMark mark;
  const Tensors arguments = with_casts(own_arguments);
  auto call = std::make_shared<RecordedCall>(shared_from_this(), throws);
  open_ = call;
  RecordedUnit& unit = call->unit;
  unit.allow(*tensors_), allow(unit.recorder);
  add_arguments(unit, arguments, own_arguments.size());
  each_other_cast([&](std::size_t i, const at::Tensor& cast) {
    unit.recorder.allow(cast, MemoryUse::Given, tensors_->parameter_names[i] + ".cast");
  });
  Tensors results = unit.forward(compute);
  // A recording that has made casts, or made them again, is of no use.
  if (note_casts(unit.recorder)) return open_.reset(), first_.reset(), results;
  if (!mark.is_there()) return open_.reset(), results;
  if (unit.recorder.problems().empty() && !unit.computes())
    return is_as_usual_ = true, open_.reset(), results;

  unit.end_forward(results, targets_of(unit, arguments), outside);
  if (!unit.recorder.problems().empty()) return refuse(unit.recorder.problems(), throws), results;
  if (!unit.has_backward()) return call->end(), results;
  return connected(call, results, std::move(outside));
}

IKEBANA_INLINE UnitTargets UnitTape::targets_of(const RecordedUnit& call,
                                                const Tensors& arguments) const {
  UnitTargets all{arguments, {}};
  all.tensors.insert(all.tensors.end(), tensors_->parameters.begin(), tensors_->parameters.end());
  all.first_cast.resize(all.tensors.size());
  const std::size_t own = arguments.size() - casts_.size();
  for (std::size_t i = 0; i < casts_.size(); ++i)
    all.first_cast[arguments.size() + casts_[i]] = call.recorder.first_read(arguments[own + i]);
  return all;
}

/// Returns the results with the node of the call in the place of their graph.
IKEBANA_INLINE Tensors UnitTape::connected(const std::shared_ptr<RecordedCall>& call,
                                           const Tensors& results, UnitEdges outside) {
  Tensors all, with_gradients;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const at::Tensor& t = results[i];
    if (const std::size_t first = first_same(results, i); first < i) {
      all.push_back(all[first]);
    } else if (!has_gradient(t)) {
      all.push_back(t);
    } else {
      all.push_back(t.variable_data());
      torch::autograd::impl::set_version_counter(all.back(),
                                                 t.unsafeGetTensorImpl()->version_counter());
      with_gradients.push_back(all.back());
    }
  }
  connect(unit_, call, std::move(outside), with_gradients);
  call->is_connected = true;
  return all;
}

/// Lets replays allocate memory for results, and for gradients that forward has not made.
inline void give_away(Recording& recording, const std::vector<RecordedTensor>& results,
                      const std::vector<RecordedTensor>& gradients) {
  std::vector<bool> in_forward(recording.memory.size());
  for (const RecordedOperator& one : recording.operators)
    if (one.phase == Phase::Forward)
      each_defined(one.results, [&](const RecordedTensor& t) { in_forward[t.memory] = true; });
  auto give = [&](const RecordedTensor& t) {
    if (t.defined() && recording.memory[t.memory].use == MemoryUse::Made)
      recording.memory[t.memory].use = MemoryUse::GivenAway;
  };
  for (const RecordedTensor& t : results) give(t);
  for (const RecordedTensor& t : gradients)
    if (t.defined() && !in_forward[t.memory]) give(t);
}

IKEBANA_INLINE void UnitTape::end_recording(UnitRecording recording, bool throws) {
  open_.reset();
  if (!first_) return void(first_ = std::move(recording));
  const std::string text = difference(*first_, recording);
  if (!text.empty()) return refuse("\n  " + text, throws);
  give_away(recording.operators, recording.results, recording.gradients);
  auto tape = std::make_unique<OperatorTape>(std::exchange(recording.operators, {}),
                                             OperatorTape::Saved::Apart);
  recorded_ = std::move(recording);
  written_ = written_of(tape->recording(), tensors_->buffers);
  tape_ = std::move(tape);
  try {
    drop_unused_casts(), plan_passed(), find_uses();
  } catch (...) {
    tape_.reset();
    throw;
  }
  first_.reset();
}

/// Returns for each memory whether the tape's operators of a phase read it.
inline std::vector<bool> read_by(const Recording& recording, Phase phase) {
  std::vector<bool> all(recording.memory.size());
  for (const std::size_t k : called_operators(recording))
    if (recording.operators[k].phase == phase)
      each_defined(recording.operators[k].arguments,
                   [&](const RecordedTensor& t) { all[t.memory] = true; });
  return all;
}

/// A cast that no operator of the unit reads is not made in replays. An operator whose result
/// nothing needs counts as well: other units then use the cast that it made.
IKEBANA_INLINE void UnitTape::drop_unused_casts() {
  std::vector<bool> is_read(tape_->recording().memory.size());
  for (const RecordedOperator& one : tape_->recording().operators)
    each_defined(one.arguments, [&](const RecordedTensor& t) { is_read[t.memory] = true; });
  const std::size_t first = recorded_.arguments.size() - casts_.size();
  auto& targets = recorded_.targets;
  for (std::size_t i = casts_.size(); i-- > 0;) {
    const std::size_t at = first + i;
    if (is_read[recorded_.arguments[at].memory] ||
        std::find(targets.begin(), targets.end(), at) != targets.end())
      continue;
    casts_.erase(casts_.begin() + static_cast<std::ptrdiff_t>(i));
    recorded_.arguments.erase(recorded_.arguments.begin() + static_cast<std::ptrdiff_t>(at));
    for (std::size_t& target : targets) target -= target > at ? 1 : 0;
  }
}

/// Returns the place of one of some values, or their number if it is none of them.
template <class Value>
std::size_t place_in(const std::vector<Value>& all, const Value& one) {
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), one) - all.begin());
}

IKEBANA_INLINE void UnitTape::plan_passed() {
  using From = PassedTensor::From;
  auto fresh = [](std::vector<std::uint32_t>& memory, const RecordedTensor& t) {
    const std::size_t at = place_in(memory, t.memory);
    if (at == memory.size()) memory.push_back(t.memory);
    return PassedTensor{From::Fresh, at};
  };
  passed_results_.clear(), passed_gradients_.clear();
  result_memory_.clear(), gradient_memory_.clear();
  for (std::size_t i = 0; i < recorded_.results.size(); ++i) {
    const std::size_t before = recorded_.first_results[i];
    if (!recorded_.results[i].defined()) passed_results_.push_back({});
    else if (before < i) passed_results_.push_back({From::Before, before});
    else passed_results_.push_back(fresh(result_memory_, recorded_.results[i]));
  }
  for (std::size_t i = 0; i < recorded_.gradients.size(); ++i) {
    const RecordedTensor& t = recorded_.gradients[i];
    const std::size_t before = place_in(recorded_.gradients, t);
    const std::size_t seed = place_in(recorded_.seeds, t);
    if (!t.defined()) passed_gradients_.push_back({});
    else if (before < i) passed_gradients_.push_back({From::Before, before});
    else if (seed < recorded_.seeds.size()) passed_gradients_.push_back({From::Seed, seed});
    else if (tape_->recording().memory[t.memory].use != MemoryUse::GivenAway ||
             place_in(result_memory_, t.memory) < result_memory_.size())
      passed_gradients_.push_back({From::Tape});
    else passed_gradients_.push_back(fresh(gradient_memory_, t));
  }
}

IKEBANA_INLINE void UnitTape::find_uses() {
  const Recording& recording = tape_->recording();
  std::vector<bool> is_read = read_by(recording, Phase::Backward);
  for (const RecordedTensor& t : recorded_.gradients)  // it may be an argument or a result as it is
    if (t.defined()) is_read[t.memory] = true;
  auto find = [&](const std::vector<RecordedTensor>& tensors) {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].defined() && is_read[tensors[i].memory]) all.push_back(i);
    return all;
  };
  read_arguments_ = find(recorded_.arguments), read_results_ = find(recorded_.results);
  read_tensors_.clear();
  for (std::size_t i = 0; i < tensors_->size(); ++i) {
    const at::Tensor& t = (*tensors_)[i];
    const bool is_written = std::any_of(written_.begin(), written_.end(),
                                        [&](const at::Tensor& one) { return one.is_same(t); });
    if (is_written || !t.has_storage()) continue;
    for (std::size_t m = 0; m < is_read.size(); ++m)
      if (is_read[m] && recording.memory[m].storage &&
          recording.memory[m].storage.is_alias_of(t.storage())) {
        read_tensors_.push_back(i);
        break;
      }
  }
}

IKEBANA_INLINE std::string UnitTape::text() const {
  const std::string name = unit_.empty() ? std::string("the model") : "unit `" + unit_ + "`";
  if (tape_) return name + ": " + tape_->text();
  return is_as_usual_
             ? name + " runs as usual" + (problems_.empty() ? "\n" : ":" + problems_ + "\n")
             : "";
}

}  // namespace ikebana::detail
