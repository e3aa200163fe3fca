#pragma once
#include <algorithm>
#include <ikebana/bridge/operators.hpp>
#include <ikebana/bridge/recorded_inputs.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/export/operator_facts.hpp>
#include <ikebana/program/export/recorder.hpp>

namespace ikebana::detail::exported {

IKEBANA_INLINE Recorder*& Recorder::current() {
  static thread_local Recorder* recorder = nullptr;
  return recorder;
}

IKEBANA_INLINE Recorder::Recorder(const ModelWeights& weights,
                                  const std::vector<at::Tensor>& inputs)
    : weights_(weights) {
  using Kind = RecordedValue::Kind;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined()) add_value(inputs[i], {Kind::Input, i, {}});
  for (std::size_t i = 0; i < weights.all().size(); ++i)
    add_value(weights.all()[i].tensor, {Kind::Weight, i, {}});
  callback_.emplace(bridge::operator_callback(&begin, &end));
  current() = this;
}

IKEBANA_INLINE Recorder::~Recorder() { current() = nullptr; }

// LibTorch does not let an exception out of a callback, so it is noted as a problem.
IKEBANA_INLINE std::unique_ptr<at::ObserverContext> Recorder::begin(
    const at::RecordFunction& function) {
  if (Recorder* recorder = current()) {
    recorder->frames_.emplace_back();
    try {
      recorder->begin_operator(function);
    } catch (const std::exception& error) {
      recorder->frames_.back().problems.push_back(error.what());
    }
  }
  return nullptr;
}

IKEBANA_INLINE void Recorder::end(const at::RecordFunction& function, at::ObserverContext*) {
  if (Recorder* recorder = current(); recorder != nullptr && !recorder->frames_.empty()) {
    try {
      recorder->end_operator(function);
    } catch (const std::exception& error) {
      recorder->recording_.problems.push_back(error.what());
      recorder->frames_.pop_back();
    }
  }
}

IKEBANA_INLINE void Recorder::begin_operator(const at::RecordFunction& function) {
  Frame& frame = frames_.back();
  const bool is_outermost = frames_.size() == 1;
  const Frame* outer = is_outermost ? nullptr : &frames_[frames_.size() - 2];
  if (!is_outermost && (!outer->op || !outer->is_tree)) return;
  const auto name = function.operator_name();
  if (!name) return;
  auto op = c10::Dispatcher::singleton().findSchema(*name);
  if (!op) return;
  const at::DisableRecordFunctionGuard off;
  frame.op = *op;
  frame.is_tree = is_outermost ? autocasts() : true;
  frame.is_cast = frame.is_tree && is_cast(*op);
  const auto& arguments = op->schema().arguments();
  const auto given = bridge::recorded_inputs(function);
  const auto own = given.slice(given.size() - arguments.size());
  check_operator(frame, own);
  for (const c10::IValue& value : own) frame.inputs.push_back(operand_of(frame, value));
}

IKEBANA_INLINE void Recorder::check_operator(Frame& frame,
                                             c10::ArrayRef<const c10::IValue> arguments) {
  const c10::OperatorHandle& op = *frame.op;
  const auto& schema = op.schema().arguments();
  const bool is_same_equal = op.operator_name().name == "aten::equal" &&
                             arguments[0].toTensor().is_same(arguments[1].toTensor());
  if (reads_on_host(op) && !is_same_equal)
    frame.problems.push_back(place(frame) +
                             " gives the host a number, which the program would keep for every "
                             "input. Compute with tensors instead");
  if (sizes_by_values(op, arguments))
    frame.problems.push_back(place(frame) +
                             " has a result whose size depends on values. Use an operator with a "
                             "size of its own, such as `where`, instead");
  const bool only = only_writes(op.operator_name().name),
             looks = only_looks(op.operator_name().name);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = schema[i].alias_info();
    const bool writes = alias != nullptr && alias->isWrite();
    each_tensor(arguments[i], [&](const at::Tensor& t) {
      KnownStorage* storage = storage_of(t);
      if (writes) note_write(frame, t, schema[i].name(), !only && !schema[i].is_out());
      else if (storage != nullptr && storage->unwritten && !looks) frame.reads.push_back(t);
    });
  }
}

IKEBANA_INLINE void Recorder::note_write(Frame& frame, const at::Tensor& t,
                                         const std::string& argument, bool reads) {
  KnownStorage* storage = storage_of(t);
  using Kind = RecordedValue::Kind;
  if (storage != nullptr && storage->owner == Kind::Made) {
    if (reads && storage->unwritten) take_written_by_host(t);
    storage->unwritten.reset();
    return;
  }
  std::string what = "a tensor that the forward did not make";
  if (storage != nullptr && storage->owner == Kind::Input) what = "an input of the model";
  if (storage != nullptr && storage->owner == Kind::Weight)
    for (const NamedWeight& weight : weights_.all())
      if (weight.tensor.has_storage() && weight.tensor.storage().is_alias_of(t.storage())) {
        what = "`" + weight.name + "`";
        break;
      }
  frame.problems.push_back(place(frame) + " writes to " + what + " (`" + argument +
                           "`), and an evaluation must leave it as it is");
}

IKEBANA_INLINE Operand Recorder::operand_of(Frame& frame, const c10::IValue& value) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return c10::IValue();
    return id_of(&frame, value.toTensor());
  }
  if (is_tensors(value)) {
    ValueList list;
    for (const c10::IValue& one : value.toListRef())
      if (one.isTensor() && one.toTensor().defined()) list.push_back(id_of(&frame, one.toTensor()));
      else list.emplace_back();
    return list;
  }
  if (value.isGenerator())
    frame.problems.push_back(place(frame) +
                             " draws from a generator of its own, which a program cannot have");
  return value;
}

IKEBANA_INLINE Recorder::KnownStorage* Recorder::storage_of(const at::Tensor& t) {
  if (!t.has_storage()) return nullptr;
  const auto found = storages_.find(t.storage().unsafeGetStorageImpl());
  return found == storages_.end() ? nullptr : &found->second;
}

IKEBANA_INLINE ValueId Recorder::add_value(const at::Tensor& t, RecordedValue value) {
  const ValueId id = recording_.values.size();
  value.facts = TensorFacts::of(t);
  ids_[t.unsafeGetTensorImpl()] = id;
  holds_.emplace_back(t.getIntrusivePtr());
  if (t.has_storage()) {
    const c10::Storage& storage = t.storage();
    auto [known, is_new] = storages_.try_emplace(
        storage.unsafeGetStorageImpl(),
        KnownStorage{
            WeakStorage(c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(
                storage.unsafeGetStorageImpl())),
            value.kind,
            {},
            {}});
    known->second.values.emplace_back(id, t.storage_offset());
  }
  recording_.values.push_back(std::move(value));
  return id;
}

IKEBANA_INLINE std::optional<ValueId> Recorder::known_id(const at::Tensor& t,
                                                         bool& shares_storage) {
  if (const auto found = ids_.find(t.unsafeGetTensorImpl()); found != ids_.end())
    return found->second;
  KnownStorage* storage = storage_of(t);
  shares_storage = storage != nullptr;
  if (storage == nullptr) return {};
  const TensorFacts facts = TensorFacts::of(t);
  for (auto one = storage->values.rbegin(); one != storage->values.rend(); ++one) {
    const TensorFacts& known = recording_.values[one->first].facts;
    if (one->second == t.storage_offset() && facts.is_like(known) && facts.sizes == known.sizes &&
        facts.strides == known.strides)
      return one->first;
  }
  return {};
}

IKEBANA_INLINE ValueId Recorder::id_of(Frame* frame, const at::Tensor& t) {
  bool shares_storage = false;
  if (const auto id = known_id(t, shares_storage)) return *id;
  if (shares_storage && t.numel() > 0 && frame != nullptr)
    frame->problems.push_back(place(*frame) +
                              " reads a view that no operator made. Make it by `view`, `select` or "
                              "`narrow`");
  return add_constant(frame, t);
}

IKEBANA_INLINE ValueId Recorder::add_constant(Frame* frame, const at::Tensor& t) {
  const at::DisableRecordFunctionGuard off;
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  recording_.constants.push_back(
      {t.detach().clone(), frame == nullptr ? std::string("the output") : place(*frame)});
  return add_value(t, {RecordedValue::Kind::Constant, recording_.constants.size() - 1, {}});
}

IKEBANA_INLINE void Recorder::take_written_by_host(const at::Tensor& t) {
  KnownStorage& storage = *storage_of(t);
  const ValueId made = *std::exchange(storage.unwritten, std::nullopt);
  const at::DisableRecordFunctionGuard off;
  const at::NoGradGuard no_grad;
  const TensorFacts facts = recording_.values[made].facts;
  const at::Tensor whole = t.detach().as_strided(facts.sizes, facts.strides, 0).clone();
  recording_.constants.push_back({whole, place(frames_.back())});
  RecordedValue value{RecordedValue::Kind::Constant, recording_.constants.size() - 1, facts};
  recording_.values.push_back(std::move(value));
  written_by_host_[made] = recording_.values.size() - 1;
}

IKEBANA_INLINE void Recorder::end_operator(const at::RecordFunction& function) {
  Frame frame = std::move(frames_.back());
  if (!frame.op) {
    frames_.pop_back();
    return;
  }
  const at::DisableRecordFunctionGuard off;
  const auto& all = function.outputs();
  const std::size_t count = frame.op->schema().returns().size();
  const auto results = c10::ArrayRef<c10::IValue>(all).slice(all.size() - count);
  for (const at::Tensor& read : frame.reads) {
    bool is_view = false;
    for (const c10::IValue& result : results)
      each_tensor(result, [&](const at::Tensor& t) {
        is_view = is_view || (t.has_storage() && t.storage().is_alias_of(read.storage()));
      });
    if (!is_view && storage_of(read)->unwritten) take_written_by_host(read);
  }
  const bool is_empty = bridge::only_allocates(frame.op->operator_name());
  std::vector<Operand> outputs;
  if (!frame.is_cast && !frame.is_expanded)  // otherwise the results belong to the operators inside
    for (const c10::IValue& result : results) outputs.push_back(result_of(result, is_empty));
  frames_.pop_back();
  keep(std::move(frame), std::move(outputs));
}

IKEBANA_INLINE Operand Recorder::result_of(const c10::IValue& value, bool is_empty) {
  const auto made = [&](const at::Tensor& t) {
    const bool is_new = storage_of(t) == nullptr;
    const ValueId id = add_value(t, {RecordedValue::Kind::Made, 0, {}});
    if (is_new && is_empty && t.numel() > 0) storage_of(t)->unwritten = id;
    return id;
  };
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return c10::IValue();
    return made(value.toTensor());
  }
  if (is_tensors(value)) {
    ValueList list;
    for (const c10::IValue& one : value.toListRef())
      if (one.isTensor() && one.toTensor().defined()) list.push_back(made(one.toTensor()));
      else list.emplace_back();
    return list;
  }
  return value;
}

IKEBANA_INLINE void Recorder::keep(Frame frame, std::vector<Operand> outputs) {
  auto& into = frames_.empty() ? nodes_ : frames_.back().inside;
  auto& problems = frames_.empty() ? recording_.problems : frames_.back().problems_inside;
  Frame* outer = frames_.empty() ? nullptr : &frames_.back();
  const bool is_expanded = frame.is_cast || frame.is_expanded;
  if (is_expanded) {
    if (outer != nullptr) outer->is_expanded = true;
    std::ranges::move(frame.inside, std::back_inserter(into));
  } else {
    const auto has_values = [](const std::vector<Operand>& operands) {
      bool any = false;
      for (const Operand& one : operands) each_value(one, [&](ValueId) { any = true; });
      return any;
    };
    const auto writes = [&] {
      return std::ranges::any_of(frame.op->schema().arguments(), [](const c10::Argument& argument) {
        return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
      });
    };
    if (has_values(outputs) || writes()) {
      into.push_back({*frame.op, std::move(frame.inputs), std::move(outputs), open_path()});
      write_defaults(into.back(), recording_.values);
    }
  }
  std::ranges::move(is_expanded ? frame.problems_inside : frame.problems,
                    std::back_inserter(problems));
}

IKEBANA_INLINE std::string Recorder::open_path() const {
  for (auto module = open_modules.rbegin(); module != open_modules.rend(); ++module)
    if (const std::string* path = weights_.path_of(*module)) return *path;
  return {};
}

IKEBANA_INLINE std::string Recorder::place(const Frame& frame) const {
  return place_of(frame.op ? name_of(*frame.op) : std::string("an operator"), open_path());
}

IKEBANA_INLINE bool Recorder::autocasts() const {
  return std::ranges::any_of(weights_.all(), [](const NamedWeight& weight) {
    return at::autocast::is_autocast_enabled(weight.tensor.device().type());
  });
}

IKEBANA_INLINE bool Recorder::is_cast(const c10::OperatorHandle& op) const {
  for (const c10::DispatchKey key : c10::autocast_dispatch_keyset)
    if (!c10::impl::tls_is_dispatch_key_excluded(key) && op.hasKernelForDispatchKey(key))
      return true;
  return false;
}

IKEBANA_INLINE void Recorder::replace_written_by_host() {
  const auto clone = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  for (RecordedNode& node : nodes_) {
    if (node.outputs.size() != 1 || !std::holds_alternative<ValueId>(node.outputs[0])) continue;
    const auto found = written_by_host_.find(std::get<ValueId>(node.outputs[0]));
    if (found == written_by_host_.end()) continue;
    node.op = clone;
    node.inputs = {Operand(found->second), Operand(c10::IValue())};
  }
}

IKEBANA_INLINE Recording Recorder::finish(const std::vector<at::Tensor>& outputs,
                                          ValueList& output_values) {
  const at::DisableRecordFunctionGuard off;
  for (const at::Tensor& t : outputs) {
    if (!t.defined()) {
      output_values.emplace_back();
      continue;
    }
    bool shares_storage = false;
    const auto id = known_id(t, shares_storage);
    if (id && storage_of(t) != nullptr && storage_of(t)->unwritten) {
      frames_.emplace_back();
      take_written_by_host(t);
      frames_.pop_back();
    }
    output_values.push_back(id ? *id : add_constant(nullptr, t));
  }
  replace_written_by_host();
  recording_.nodes = std::move(nodes_);
  forget_unused(recording_, output_values);
  return std::move(recording_);
}

}  // namespace ikebana::detail::exported
