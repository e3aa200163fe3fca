#pragma once
// Runs operators on fake tensors: shapes, dtypes and lifetimes are those of a computation, and
// nothing is computed. As Python's FakeTensorMode, for C++.
#include <ikebana/bridge/fake_tensors.hpp>
#include <ikebana/bridge/operators.hpp>
#include <ikebana/bridge/scratch_rules.hpp>
#include <ikebana/detail/without_values.hpp>
#include <string>
#include <unordered_map>

namespace ikebana::bridge {

/// What happens to an operator, decided once for each.
struct FakeOperator {
  ShapeRule rule = nullptr;   ///< its results, where LibTorch's C++ side cannot tell them
  ScratchRule scratch = nullptr;  ///< what its kernel allocates besides
  bool is_view = false;       ///< returns views, and touches no element
  bool is_composite = false;  ///< calls other operators, which are seen
  bool has_meta = false;      ///< LibTorch has a kernel for tensors without memory
  bool writes = false;
  bool draws = false;
  bool in_place = false;  ///< returns nothing but arguments
  bool reads = false;  ///< gives the host a number, or a shape that depends on values
  std::vector<int> returned = {};  ///< for each result the argument that it is, or -1
};

/// While it is open in an OperatorScope, every tensor that is made is fake, but small ones that
/// depend on no fake one: those are computed, so that numbers and indices which a program makes for
/// itself have their values. A fake result of one element can be read on the host; it is 1. Random
/// operators draw nothing. Operators that write to a tensor with memory of more than `small` bytes
/// leave it as it is.
///
/// Throws Error for an operator whose shapes are not known, and where a program reads the value of
/// a fake tensor by `item()` or needs it for a shape. Costs some microseconds per operator. Source:
/// torch._subclasses.FakeTensorMode.
class FakeTensorMode : public OperatorMode {
 public:
  static constexpr std::size_t small = 4 << 10;  // bytes
  explicit FakeTensorMode(std::shared_ptr<FakeMemory> memory) : memory_(std::move(memory)) {}

  void call(OperatorCall& call) override {
    const FakeOperator& op = found(call);
    const bool fake = takes_fake(call);
    if (op.in_place && !changes_layout(call)) {
      if (!fake && !op.draws) return call.compute();
      const std::int64_t scratch = scratch_of(call, op);
      call.replace(written(call, op));
      return use(scratch);
    }
    if (op.is_composite && op.rule == nullptr) return decompose(call);
    if (op.is_view) return call.compute();
    if (op.reads && fake) refuse_read(call);
    if (!fake && !op.draws && (op.writes || is_small(call, op)))
      return compute_small(call);
    if (op.rule == nullptr && !op.has_meta) refuse_unknown(call);
    const std::int64_t scratch = scratch_of(call, op);
    if (op.rule != nullptr) by_rule(call, op);
    else by_meta(call);
    use(scratch);
  }

  /// A fake tensor with the layout of `like`, on `device`.
  at::Tensor make(at::IntArrayRef sizes, at::ScalarType type, c10::Device device) {
    std::vector<std::int64_t> strides(sizes.size(), 1);
    for (std::size_t i = sizes.size(); i-- > 1;)
      strides[i - 1] = strides[i] * std::max<std::int64_t>(sizes[i], 1);
    return make(sizes, strides, type, device);
  }
  at::Tensor make(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                  c10::Device device) {
    const std::size_t bytes =
        at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
    const bool is_number = device.is_cpu() && bytes == c10::elementSize(type);
    return over(is_number ? fake_number(memory_, type, device)
                          : fake_storage(memory_, bytes, device, no_values),
                sizes, strides, 0, type);
  }

 private:
  static constexpr const char* no_values =
      "a tensor without memory was read: this computation only finds out how much memory it would "
      "take. Give it a batch of real tensors, which measures instead.";

  static at::Tensor over(c10::Storage storage, at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::int64_t offset, at::ScalarType type) {
    const c10::DispatchKeySet keys(
        c10::computeDispatchKey(type, std::nullopt, storage.device()));
    at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys,
                                                            c10::scalarTypeToTypeMeta(type));
    t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
    return t;
  }

  static std::int64_t scratch_of(const OperatorCall& call, const FakeOperator& op) {
    return op.scratch != nullptr && device_of(call).is_cpu() ? op.scratch(call) : 0;
  }
  /// Memory that is there besides the results, and gone when the operator returns.
  void use(std::int64_t bytes) {
    if (bytes > 0) memory_->freed(memory_->allocated(static_cast<std::size_t>(bytes), at::kCPU));
  }

  const FakeOperator& found(const OperatorCall& call) {
    auto [entry, is_new] = known_.try_emplace(&call.name());
    if (is_new) entry->second = examined(call);
    return entry->second;
  }
  static FakeOperator examined(const OperatorCall& call);
  /// True of `resize_`, and where a result is written to a tensor that has no elements yet.
  static bool changes_layout(const OperatorCall& call) {
    const std::string& name = call.name().name;
    if (name == "aten::resize_" || name == "aten::set_") return true;
    bool grows = false;
    for (std::size_t i = 0; i < call.arguments().size(); ++i)
      if (call.schema().arguments()[i].is_out() && call.arguments()[i].isTensor())
        grows = grows || call.arguments()[i].toTensor().numel() == 0;
    return grows;
  }

  /// Larger tensors with memory count as fake: their values are not computed with.
  static bool takes_fake(const OperatorCall& call) {
    bool fake = false;
    ikebana::detail::visit_all(call.arguments(), [&](const at::Tensor& t) {
      fake = fake || !t.has_storage() || is_fake(t) || t.storage().nbytes() > small;
    });
    return fake;
  }
  /// True where all that the operator makes is small, so that it may be computed.
  bool is_small(const OperatorCall& call, const FakeOperator& op) {
    if (op.rule != nullptr || is_for_host_values(call)) return true;
    if (!op.has_meta) return true;
    const Counterparts counterparts(call);
    std::size_t bytes = 0;
    ikebana::detail::visit_all(counterparts.results, [&](const at::Tensor& t) {
      if (t.has_storage()) bytes += t.storage().nbytes();
    });
    return bytes <= small;
  }
  /// Memory that a later operator would write, and does not where it has fake arguments, is 1 too.
  void compute_small(OperatorCall& call) const {
    std::vector<const c10::StorageImpl*> given;
    auto note = [&](const at::Tensor& t) { given.push_back(ikebana::detail::key_of(t)); };
    ikebana::detail::visit_all(call.arguments(), note);
    const bool is_empty = call.name().name.starts_with("aten::empty");
    call.compute();
    ikebana::detail::visit_all(call.results(), [&](const at::Tensor& t) {
      if (is_empty) t.fill_(1);
      if (!t.has_storage() || std::count(given.begin(), given.end(), ikebana::detail::key_of(t)))
        return;
      count_memory(t.storage(), memory_);
    });
  }
  /// True within `torch::tensor`, which alone calls `empty` under this guard, and writes to the
  /// memory itself.
  static bool is_for_host_values(const OperatorCall& call) {
    return call.name().name == "aten::empty" &&
           c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality) &&
           !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView);
  }

  /// Runs the composition on fake tensors, so that each operator of it is seen.
  static void decompose(OperatorCall& call) {
    torch::jit::Stack stack(call.arguments().begin(), call.arguments().end());
    const auto tls = c10::impl::tls_local_dispatch_key_set();
    {
      const c10::impl::ForceDispatchKeyGuard seen(tls.included_ | c10::DispatchKeySet(operator_key),
                                                  tls.excluded_ -
                                                      c10::DispatchKeySet(operator_key));
      call.op().redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    }
    call.replace(std::vector<c10::IValue>(stack.begin(), stack.end()));
  }
  /// The arguments that an operator in place returns.
  static std::vector<c10::IValue> written(const OperatorCall& call, const FakeOperator& op) {
    std::vector<c10::IValue> results;
    for (const int i : op.returned) results.push_back(call.arguments()[static_cast<std::size_t>(i)]);
    return results;
  }
  void by_rule(OperatorCall& call, const FakeOperator& op) {
    const c10::Device device = device_of(call);
    std::vector<c10::IValue> results;
    for (const Shape& shape : op.rule(call)) {
      if (shape.is_none) results.push_back(at::Tensor());
      else if (shape.strides.empty()) results.push_back(make(shape.sizes, shape.type, device));
      else results.push_back(make(shape.sizes, shape.strides, shape.type, device));
    }
    call.replace(std::move(results));
  }

  /// The operator's results on meta tensors that stand for its arguments. Two arguments that share
  /// memory have counterparts that do, so that a view among the results is known as one.
  struct Counterparts {
    explicit Counterparts(const OperatorCall& call) {
      const auto& arguments = call.schema().arguments();
      torch::jit::Stack stack;
      for (std::size_t i = 0; i < arguments.size(); ++i)
        stack.push_back(of(arguments[i].name(), call.arguments()[i]));
      const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      const at::AutoDispatchBelowADInplaceOrView below;
      call.op().callBoxed(stack);
      results.assign(stack.begin(), stack.end());
    }
    c10::IValue of(const std::string& name, const c10::IValue& value) {
      if (name == "device") return c10::Device(at::kMeta);
      if (name == "pin_memory" || value.isGenerator()) return {};
      return ikebana::detail::with_tensors(value, [&](const at::Tensor& t) { return of(t); });
    }
    at::Tensor of(const at::Tensor& t) {
      for (const auto& [given, meta] : pairs)
        if (given.is_same(t)) return meta;
      at::Tensor meta = over(storage_of(t), t.sizes(), t.strides(), t.storage_offset(),
                             t.scalar_type());
      if (t.unsafeGetTensorImpl()->is_wrapped_number())
        meta.unsafeGetTensorImpl()->set_wrapped_number(true);
      return pairs.emplace_back(t, meta).second;
    }
    c10::Storage storage_of(const at::Tensor& t) {
      for (const auto& [given, meta] : pairs)
        if (ikebana::detail::key_of(given) == ikebana::detail::key_of(t)) return meta.storage();
      return c10::Storage(c10::Storage::use_byte_size_t(), t.storage().nbytes(),
                          at::DataPtr(nullptr, c10::Device(at::kMeta)),
                          c10::GetAllocator(at::kMeta), true);
    }
    std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
    std::vector<c10::IValue> results;
  };

  void by_meta(OperatorCall& call) {
    const Counterparts counterparts(call);
    const c10::Device device = device_of(call);
    std::vector<c10::IValue> results;
    for (const c10::IValue& value : counterparts.results)
      results.push_back(ikebana::detail::with_tensors(
          value, [&](const at::Tensor& t) { return real_of(counterparts, t, device); }));
    for (const auto& [given, meta] : counterparts.pairs) pass_layout(given, meta);
    call.replace(std::move(results));
  }
  at::Tensor real_of(const Counterparts& counterparts, const at::Tensor& t, c10::Device device) {
    for (const auto& [given, meta] : counterparts.pairs) {
      if (meta.is_same(t)) return given;
      if (ikebana::detail::key_of(meta) == ikebana::detail::key_of(t))
        return over(given.storage(), t.sizes(), t.strides(), t.storage_offset(), t.scalar_type());
    }
    return make(t.sizes(), t.strides(), t.scalar_type(), device);
  }
  /// An operator such as `resize_`, or one with `out`, may give an argument another layout.
  void pass_layout(const at::Tensor& given, const at::Tensor& meta) {
    if (given.sizes() == meta.sizes() && given.strides() == meta.strides()) return;
    if (meta.storage().nbytes() > given.storage().nbytes()) {
      const c10::Storage grown =
          fake_storage(memory_, meta.storage().nbytes(), given.device(), no_values);
      auto* impl = given.storage().unsafeGetStorageImpl();
      impl->set_data_ptr_noswap(
          std::move(grown.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks()));
      impl->set_nbytes(meta.storage().nbytes());
      ikebana::detail::set_error(given.storage(), no_values);
    }
    given.unsafeGetTensorImpl()->set_sizes_and_strides(meta.sizes(), meta.strides(),
                                                       meta.storage_offset());
  }
  static c10::Device device_of(const OperatorCall& call) {
    for (std::size_t i = 0; i < call.arguments().size(); ++i)
      if (call.arguments()[i].isDevice() && call.schema().arguments()[i].name() == "device")
        return call.arguments()[i].toDevice();
    c10::Device device = at::kCPU;
    bool found = false;
    ikebana::detail::visit_all(call.arguments(), [&](const at::Tensor& t) {
      if (!found) device = t.device(), found = t.dim() > 0;
    });
    return device;
  }
  [[noreturn]] static void refuse_read(const OperatorCall& call) {
    throw Error("estimate: `" + c10::toString(call.name()) +
                "` needs the values of a tensor, and an estimate has none. Give it a batch of real "
                "tensors, which measures instead.");
  }
  [[noreturn]] static void refuse_unknown(const OperatorCall& call) {
    throw Error("estimate: the shapes that `" + c10::toString(call.name()) +
                "` returns are not known. Give it a batch of real tensors, which measures instead.");
  }

  std::shared_ptr<FakeMemory> memory_;
  std::unordered_map<const c10::OperatorName*, FakeOperator> known_;
};

/// RAII: opens the mode on this thread.
class FakeTensorScope {
 public:
  explicit FakeTensorScope(FakeTensorMode& mode) : scope_(mode) {}

 private:
  ikebana::detail::WithoutValuesScope without_values_;
  OperatorScope<> scope_;
};

inline FakeOperator FakeTensorMode::examined(const OperatorCall& call) {
  const c10::OperatorHandle& op = call.op();
  const auto& schema = op.schema();
  using Key = c10::DispatchKey;
  FakeOperator found;
  found.rule = shape_rule(call.name());
  found.scratch = scratch_rule(op);
  found.has_meta = op.hasKernelForDispatchKey(Key::Meta);
  found.writes = schema.is_mutable();
  found.draws = call.draws_random_numbers();
  found.reads = op.hasTag(at::Tag::data_dependent_output) ||
                op.hasTag(at::Tag::dynamic_output_shape) ||
                call.name().name == "aten::_local_scalar_dense";
  const std::string& name = call.name().name;
  found.is_composite = (op.hasKernelForDispatchKey(Key::CompositeImplicitAutograd) &&
                        !op.hasKernelForDispatchKey(Key::CPU)) ||
                       name == "aten::_embedding_bag_backward";
  const bool has_own = op.hasKernelForDispatchKey(Key::CPU);
  bool views = !schema.returns().empty();
  for (const auto& result : schema.returns())
    views = views && result.alias_info() != nullptr && !result.alias_info()->isWrite();
  found.is_view = views && !found.is_composite;
  if (!found.is_view && !found.is_composite && !has_own)
    found.is_composite =
        op.hasKernelForDispatchKey(Key::CompositeExplicitAutograd) ||
        op.hasKernelForDispatchKey(Key::CompositeExplicitAutogradNonFunctional);
  if (!found.writes) return found;
  for (const auto& result : schema.returns()) {
    int same = -1;
    if (const auto* alias = result.alias_info(); alias && alias->isWrite())
      for (std::size_t i = 0; i < schema.arguments().size(); ++i)
        if (const auto* other = schema.arguments()[i].alias_info();
            other && other->beforeSets() == alias->beforeSets())
          same = static_cast<int>(i);
    found.returned.push_back(same);
  }
  found.in_place = std::count(found.returned.begin(), found.returned.end(), -1) == 0;
  return found;
}

}  // namespace ikebana::bridge
