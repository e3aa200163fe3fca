#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/operator_device.hpp>
#include <ikebana/shard/maker/record_maker.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor CounterpartCall::argument_of(const at::Tensor& result) const {
  for (const Pair& pair : pairs_)
    if (pair.counterpart.is_same(result)) return pair.given;
  return {};
}

IKEBANA_INLINE c10::Storage CounterpartCall::storage_of(const at::Tensor& result) const {
  for (const Pair& pair : pairs_)
    if (key_of(pair.counterpart) == key_of(result)) return pair.given.storage();
  return {};
}

IKEBANA_INLINE std::size_t CounterpartCall::new_bytes() const {
  std::size_t bytes = 0;
  visit_all(results_, [&](const at::Tensor& t) {
    if (is_plain(t) && !storage_of(t)) bytes += t.storage().nbytes();
  });
  return bytes;
}

IKEBANA_INLINE bool CounterpartCall::pass_layouts() const {
  for (const auto& [given, counterpart] : pairs_) {
    if (key_of(counterpart) != counterpart_storages_.at(key_of(given)).unsafeGetStorageImpl())
      return false;
    if (given.sizes() == counterpart.sizes() && given.strides() == counterpart.strides() &&
        given.storage_offset() == counterpart.storage_offset())
      continue;
    given.unsafeGetTensorImpl()->set_sizes_and_strides(counterpart.sizes(), counterpart.strides(),
                                                       counterpart.storage_offset());
    if (TapeStorage* storage = tape_.find(given)) {
      storage->shown.set_nbytes(counterpart.storage().nbytes());
      storage->meta.set_nbytes(counterpart.storage().nbytes());
    }
  }
  return true;
}

IKEBANA_INLINE CounterpartCall::CounterpartCall(Tape& tape, const bridge::OperatorCall& call,
                                                const Storages* real)
    : tape_(tape), real_(real) {
  const auto& arguments = call.schema().arguments();
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    stack.push_back(counterpart_of(arguments[i].name(), call.arguments()[i]));
  call.compute_on(stack);
  const std::size_t n = call.schema().returns().size();
  results_.assign(stack.end() - static_cast<std::ptrdiff_t>(n), stack.end());
}

IKEBANA_INLINE c10::IValue CounterpartCall::counterpart_of(const std::string& name,
                                                           const c10::IValue& value) {
  if (real_ == nullptr) {
    if (name == "device") return c10::Device(at::kMeta);
    if (name == "pin_memory" || value.isGenerator()) return {};
  }
  return with_tensors(value, [&](const at::Tensor& t) { return counterpart_of(t); });
}

IKEBANA_INLINE at::Tensor CounterpartCall::counterpart_of(const at::Tensor& t) {
  for (const Pair& pair : pairs_)
    if (pair.given.is_same(t)) return pair.counterpart;
  return pairs_.emplace_back(Pair{t, tensor_over(counterpart_storage(t), t)}).counterpart;
}

IKEBANA_INLINE const c10::Storage& CounterpartCall::counterpart_storage(const at::Tensor& t) {
  c10::Storage& counterpart = counterpart_storages_[key_of(t)];
  if (counterpart) return counterpart;
  const TapeStorage* storage = tape_.find(t);
  if (real_ != nullptr) return counterpart = storage ? real_->at(key_of(t)) : t.storage();
  return counterpart =
             storage ? storage->meta : storage_without_memory(at::kMeta, t.storage().nbytes());
}

IKEBANA_INLINE void RecordMaker::call(bridge::OperatorCall& call) {
  if (has_recorded(call)) return record(call);
  if (may_be_recorded(call) && makes_more_than_small(call)) return record(call);
  std::unique_lock lock(bridge::generators_mutex(), std::defer_lock);
  if (call.draws_random_numbers()) lock.lock();
  call.compute();
}

IKEBANA_INLINE bool RecordMaker::has_recorded(const bridge::OperatorCall& call) {
  bool any = false;
  visit_all(call.arguments(), [&](const at::Tensor& t) { any = any || tape_.find(t); });
  return any;
}

IKEBANA_INLINE bool RecordMaker::may_be_recorded(const bridge::OperatorCall& call) {
  if (call.schema().is_mutable() || !call.name().name.starts_with("aten::")) return false;
  if (bridge::is_for_host_values(call)) return false;
  for (const c10::IValue& value : call.arguments())
    if (value.isDevice() && value.toDevice().is_meta()) return false;
  bool plain = true;
  visit_all(call.arguments(),
            [&](const at::Tensor& t) { plain = plain && is_plain(t) && !t.is_meta(); });
  return plain && returns_tensors(call.schema());
}

IKEBANA_INLINE bool RecordMaker::returns_tensors(const c10::FunctionSchema& schema) {
  return std::all_of(schema.returns().begin(), schema.returns().end(), [](const auto& r) {
    const auto kind = r.type()->kind();
    return kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
  });
}

IKEBANA_INLINE bool RecordMaker::makes_more_than_small(const bridge::OperatorCall& call) {
  try {
    return CounterpartCall(tape_, call).new_bytes() > small;
  } catch (const c10::Error&) {
    return false;  // the operator itself says what is wrong, or has no meta kernel
  }
}

IKEBANA_INLINE void RecordMaker::record(bridge::OperatorCall& call) {
  check(call);
  TapeCall made{call.op(), {}};
  note_arguments(call, made);
  std::unique_lock lock(bridge::generators_mutex(), std::defer_lock);
  if (call.draws_random_numbers()) lock.lock(), note_generators(call, made);
  const CounterpartCall counterpart = called(call, made);
  std::vector<c10::IValue> results;
  for (const c10::IValue& value : counterpart.results())
    results.push_back(with_tensors(
        value, [&](const at::Tensor& t) { return shown(call, counterpart, t, made); }));
  for (const c10::IValue& value : results)
    made.results.push_back(with_tensors(value, [&](const at::Tensor& t) { return kept(t); }));
  fix_dtype(call, made);
  if (!counterpart.pass_layouts()) refuse(call, "gives a tensor other memory");
  if (!made.writes.empty()) tape_.add(std::move(made));
  call.replace(std::move(results));
}

IKEBANA_INLINE void RecordMaker::note_arguments(const bridge::OperatorCall& call, TapeCall& made) {
  note_writes(call, made);
  for (const c10::IValue& value : call.arguments())
    made.arguments.push_back(with_tensors(value, [&](const at::Tensor& t) { return kept(t); }));
  visit_all(made.arguments, [&](const at::Tensor& t) {
    if (tape_.find(t)) made.reads.insert(key_of(t));
  });
  made.overwrites = overwrites(call, made);
}

IKEBANA_INLINE void RecordMaker::note_generators(const bridge::OperatorCall& call, TapeCall& made) {
  bool own = false;
  for (c10::IValue& value : made.arguments)
    if (value.isGenerator()) own = true, value = value.toGenerator().clone();
  if (!own) made.generator.emplace(GeneratorBefore{bridge::device_of(call)});
}

IKEBANA_INLINE CounterpartCall RecordMaker::called(const bridge::OperatorCall& call,
                                                   const TapeCall& made) {
  std::optional<CounterpartCall> meta = on_meta(call);
  if (meta && !call.draws_random_numbers()) return std::move(*meta);
  if (!meta && depends_on_values(call)) refuse(call, "needs the values");
  const bool reads = !(meta && (writes_all(call) || call.name().name.ends_with("_like")));
  auto real = reads ? tape_.replay(made.reads) : tape_.any_values(made.reads);
  CounterpartCall counterpart(tape_, call, real);
  return meta ? std::move(*meta) : std::move(counterpart);
}

IKEBANA_INLINE std::optional<CounterpartCall> RecordMaker::on_meta(
    const bridge::OperatorCall& call) {
  try {
    return CounterpartCall(tape_, call);
  } catch (const c10::Error&) {  // there is no kernel, or the operator itself says what is wrong
    return std::nullopt;
  }
}

IKEBANA_INLINE bool RecordMaker::depends_on_values(const bridge::OperatorCall& call) {
  return call.op().hasTag(at::Tag::data_dependent_output) ||
         call.op().hasTag(at::Tag::dynamic_output_shape) || !returns_tensors(call.schema());
}

IKEBANA_INLINE at::Tensor RecordMaker::kept(const at::Tensor& t) {
  if (tape_.find(t)) return tensor_over(t.storage(), t);
  if (t.is_meta()) return t;
  at::Tensor copy = t.clone();
  if (t.unsafeGetTensorImpl()->is_wrapped_number())
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

IKEBANA_INLINE at::Tensor RecordMaker::shown(const bridge::OperatorCall& call,
                                             const CounterpartCall& counterpart,
                                             const at::Tensor& t, TapeCall& made) {
  if (at::Tensor given = counterpart.argument_of(t); given.defined()) return given;
  if (!is_plain(t)) refuse(call, "returns a tensor that is not strided, or a conjugate view");
  if (const c10::Storage storage = counterpart.storage_of(t)) return tensor_over(storage, t);
  const std::size_t bytes = t.storage().nbytes();
  TapeStorage& storage =
      tape_.add({storage_without_memory(t.is_meta() ? bridge::device_of(call) : t.device(), bytes),
                 storage_without_memory(at::kMeta, bytes),
                 {},
                 "a tensor " + c10::str(t.sizes()) + " that `" + name_of(call.op()) + "` made"});
  set_error(storage.shown, no_values(storage));
  made.writes.insert(storage.shown.unsafeGetStorageImpl());
  return tensor_over(storage.shown, t);
}

IKEBANA_INLINE std::string RecordMaker::no_values(const TapeStorage& storage) {
  return "trainer: while the maker ran, the values were used of " + storage.made_by +
         ", which has none yet: under Shard<FSDP> a maker's tensors of more than 4 KiB are made "
         "unit by unit when it has returned. " +
         std::string(cure);
}

IKEBANA_INLINE void RecordMaker::note_writes(const bridge::OperatorCall& call, TapeCall& made) {
  const auto& arguments = call.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (const auto* alias = arguments[i].alias_info(); alias && alias->isWrite())
      visit_tensors(call.arguments()[i], [&](const at::Tensor& t) {
        if (!tape_.find(t)) take(t);
        made.writes.insert(key_of(t));
      });
}

IKEBANA_INLINE void RecordMaker::take(const at::Tensor& t) {
  auto* impl = key_of(t);
  const c10::Device device = impl->device();
  c10::Storage initial(c10::Storage::use_byte_size_t(), impl->nbytes(),
                       impl->set_data_ptr(at::DataPtr(nullptr, device)), nullptr, false);
  TapeStorage& storage =
      tape_.add({t.storage(), storage_without_memory(at::kMeta, impl->nbytes()), std::move(initial),
                 "a tensor " + c10::str(t.sizes()) + " of the maker"});
  set_error(storage.shown, no_values(storage));
}

IKEBANA_INLINE bool RecordMaker::writes_all(const bridge::OperatorCall& call) {
  static const std::set<std::string> names{
      "aten::uniform_", "aten::normal_",     "aten::random_",    "aten::exponential_",
      "aten::cauchy_",  "aten::log_normal_", "aten::geometric_", "aten::zero_",
      "aten::fill_",    "aten::copy_"};
  return names.count(call.name().name) ||
         (call.name().name == "aten::bernoulli_" && call.name().overload_name == "float");
}

IKEBANA_INLINE bool RecordMaker::overwrites(const bridge::OperatorCall& call,
                                            const TapeCall& made) {
  if (!writes_all(call) || made.writes.size() != 1) return false;
  const at::Tensor t = call.arguments()[0].toTensor();
  std::size_t uses = 0;
  visit_all(call.arguments(), [&](const at::Tensor& a) { uses += key_of(a) == key_of(t); });
  return uses == 1 && t.is_non_overlapping_and_dense() && t.nbytes() == t.storage().nbytes();
}

IKEBANA_INLINE void RecordMaker::fix_dtype(const bridge::OperatorCall& call, TapeCall& made) {
  const auto& arguments = call.schema().arguments();
  if (!made.reads.empty() || made.results.size() != 1 || !made.results[0].isTensor()) return;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name() == "dtype" && made.arguments[i].isNone())
      made.arguments[i] = made.results[0].toTensor().scalar_type();
}

IKEBANA_INLINE void RecordMaker::check(const bridge::OperatorCall& call) {
  visit_all(call.arguments(), [&](const at::Tensor& t) {
    if (!is_plain(t)) refuse(call, "takes a tensor that is not strided, or a conjugate view");
  });
}

IKEBANA_INLINE void RecordMaker::refuse(const bridge::OperatorCall& call, const std::string& why) {
  std::string what;
  visit_all(call.arguments(), [&](const at::Tensor& t) {
    if (const TapeStorage* storage = tape_.find(t); storage && what.empty())
      what = " of " + storage->made_by;
  });
  throw BadModel("trainer: while the maker ran, `" + name_of(call.op()) + "` was called, which " +
                 why + what +
                 ". That cannot be recorded: under Shard<FSDP> a maker's tensors "
                 "of more than 4 KiB are made unit by unit when it has returned. " +
                 std::string(cure));
}

}  // namespace ikebana::detail
