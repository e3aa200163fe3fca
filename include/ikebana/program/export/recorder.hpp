#pragma once
// Records the operators of one forward by LibTorch's record functions of this thread.
//
// Each call of the dispatcher begins such a function, before any dispatch key is looked at: above
// autograd, and above autocast. The outermost calls are recorded with all their arguments, so that
// `linear`, `layer_norm` and attention stay whole, and nothing is registered in the process. Calls
// inside of a recorded one are skipped, with one exception. An operator that autocast casts for is
// replaced by what it calls, so that its casts become operators of the program.
//
// What no operator shows is found out as follows. A tensor that has the storage and the sizes of a
// known one is that one (`detach`, `.data()`). A result of `empty` that is read before an operator
// wrote to it was written by the host (`torch::tensor`): its values are a constant. Any other
// tensor that no operator made is a constant, too. The program is then run beside the model on
// other values and sizes (replay.hpp), which finds a constant that depends on the input.
#include <ikebana/bridge/thread_callback.hpp>
#include <ikebana/program/export/recording.hpp>
#include <ikebana/program/export/weights.hpp>
#include <optional>
#include <unordered_map>

namespace ikebana::detail::exported {

/// RAII: while it exists, the operators of this thread are recorded. Must be destroyed on the
/// thread that made it, and does not nest.
class Recorder {
 public:
  Recorder(const ModelWeights& weights, const std::vector<at::Tensor>& inputs);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Returns the recorder of this thread, or null.
  static Recorder*& current();

  /// The modules that are run inside of each other, the innermost last.
  std::vector<const torch::nn::Module*> open_modules;

  /// Ends the recording. `outputs` are the tensors that the forward returned, and `output_values`
  /// become their values.
  Recording finish(const std::vector<at::Tensor>& outputs, ValueList& output_values);

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

  /// A storage that has values.
  struct KnownStorage {
    WeakStorage hold;  // keeps the storage's address from being used again
    RecordedValue::Kind owner = RecordedValue::Kind::Made;
    std::optional<ValueId> unwritten;  // the result of `empty`, until something is written to it
    std::vector<std::pair<ValueId, std::int64_t>> values;  // the values that lie in it, with their
                                                           // offsets
  };
  /// An operator that is running.
  struct Frame {
    std::optional<c10::OperatorHandle> op;  // no value: the operator is not recorded
    std::vector<Operand> inputs;
    std::vector<RecordedNode> inside;
    std::vector<std::string> problems, problems_inside;
    std::vector<at::Tensor> reads;  // the tensors that it reads from storages that are unwritten
    bool is_tree = false, is_cast = false, is_expanded = false;
  };

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function);
  static void end(const at::RecordFunction& function, at::ObserverContext*);
  void begin_operator(const at::RecordFunction& function);
  void end_operator(const at::RecordFunction& function);

  void check_operator(Frame& frame, c10::ArrayRef<const c10::IValue> arguments);
  void note_write(Frame& frame, const at::Tensor& t, const std::string& argument, bool reads);
  Operand operand_of(Frame& frame, const c10::IValue& value);
  ValueId id_of(Frame* frame, const at::Tensor& t);
  std::optional<ValueId> known_id(const at::Tensor& t, bool& shares_storage);
  ValueId add_constant(Frame* frame, const at::Tensor& t);
  Operand result_of(const c10::IValue& value, bool is_empty);
  ValueId add_value(const at::Tensor& t, RecordedValue value);
  KnownStorage* storage_of(const at::Tensor& t);
  /// Makes the values that the host wrote to a result of `empty` a constant.
  void take_written_by_host(const at::Tensor& t);
  void keep(Frame frame, std::vector<Operand> outputs);
  std::string place(const Frame& frame) const;
  std::string open_path() const;
  bool autocasts() const;
  bool is_cast(const c10::OperatorHandle& op) const;
  void replace_written_by_host();

  const ModelWeights& weights_;
  Recording recording_;
  std::vector<Frame> frames_;
  std::vector<RecordedNode> nodes_;
  std::unordered_map<const c10::TensorImpl*, ValueId> ids_;
  std::unordered_map<const c10::StorageImpl*, KnownStorage> storages_;
  std::vector<Weak> holds_;
  std::unordered_map<ValueId, ValueId> written_by_host_;  // a result of `empty`, and the constant
                                                          // that replaces it
  std::optional<bridge::ThreadCallback> callback_;
};

/// RAII: while it exists, a module runs. It reports that to this thread's recorder, if there is
/// one.
class RunningModule {
 public:
  explicit RunningModule(const torch::nn::Module* module) : recorder_(Recorder::current()) {
    if (recorder_ != nullptr) recorder_->open_modules.push_back(module);
  }
  ~RunningModule() {
    if (recorder_ != nullptr) recorder_->open_modules.pop_back();
  }
  RunningModule(const RunningModule&) = delete;
  RunningModule& operator=(const RunningModule&) = delete;

 private:
  Recorder* recorder_;
};

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/recorder.ipp>
#endif
