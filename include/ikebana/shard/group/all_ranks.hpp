#pragma once
// The base of the mechanisms of all policies on shard: the connection with the other ranks.
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/shard/group/connection.hpp>
#include <ikebana/shard/group/echo_ranks.hpp>

namespace ikebana::detail {

/// Sends the buffers of a model from rank 0 to all ranks, in one message for each device. Buffers
/// that are sparse, or whose elements share memory, are left out. Costs a copy of the buffers.
class BufferBroadcast {
 public:
  /// Sends the buffers that the model has now.
  static void run(Connection& connection, const torch::nn::Module& model);

 private:
  static void run(Connection& connection, const std::vector<at::Tensor>& buffers);
  /// Returns true if the bytes are equal. Such a buffer is not written, because a step keeps a copy
  /// of each buffer that is written. In an estimate, which has no values, buffers of batch norm
  /// count as changed, as they are in each step.
  static bool has_same_bytes(const at::Tensor& a, const at::Tensor& b);
};

/// Throws BadModel, on all ranks, if they would wait for each other without end: tensors of some
/// ranks travel by another transport, or one thread runs the backward passes of two ranks.
void compare_transports(Connection& connection, c10::Device device);

/// Throws BadModel if another rank makes the trainer of another recipe, or has another model.
void compare_models(Connection& connection, const UnitTable& units);

/// The base of the mechanisms on shard. Ranks first meet when the trainer is made: they compare
/// their models, and take rank 0's buffers and, unit by unit, rank 0's weights.
template <class Policy>
class AllRanks : public ShardHooks {
 public:
  Policy values;
  explicit AllRanks(Policy v)
      : values(std::move(v)),
        connection_(values.process_group ? *values.process_group : ProcessGroup::of_environment()) {
  }

  /// Takes names for errors, before `attach`. The recipe is `Composed<...>`.
  void name_trainer(const std::string& model, const std::string& recipe) {
    connection_.name_trainer("Trainer<" + model + ", " + recipe.substr(recipe.find('<') + 1));
  }
  void attach(c10::Device device, const UnitTable& units) {
    attach(device, units, [](torch::nn::Module&) {});
  }
  Tensors full_parameters(const Unit& unit) {
    return of_first_rank([&] { return detached(unit.parameters); });
  }
  void open_step() { meet_again(); }
  void meet_again() { connection_.open(device_); }
  void offer_exception(const std::exception_ptr& exception) noexcept {
    try {
      std::rethrow_exception(exception);
    } catch (const std::exception& error) {
      connection_.fail({text_of(error), bridge::is_out_of_memory(error)});
    } catch (...) {
      connection_.fail({"it threw something that is no std::exception"});
    }
  }
  void set_repeats(bool repeats) noexcept {
    if (FailureLog* log = connection_.log()) log->set_repeats(repeats);
  }
  /// Returns the last 64 exchanges of this rank with the others, also one that does not end.
  /// Any thread may call it at any time.
  FlightRecord flight_record() const { return connection_.flight_record(); }
  /// Returns the bytes in use for parameters on their way, besides the parameters themselves.
  std::int64_t bytes_on_their_way() const noexcept { return connection_.bytes_on_their_way(); }
  /// Is called in a copy of the process, which cannot reach the other ranks. From then on, each of
  /// them does what this one does.
  void pretend_ranks() {
    if (connection_.size() > 1)
      connection_.replace_backend(
          c10::make_intrusive<EchoRanks>(connection_.rank(), connection_.size()));
  }
  bool ran_out_of_memory() noexcept {
    const FailureLog* log = connection_.log();
    return log != nullptr && log->first_ran_out();
  }

 protected:
  /// `make_buffers(model)` gives buffers their values, after the ranks' models have been compared.
  template <class MakeBuffers>
  void attach(c10::Device device, const UnitTable& units, const MakeBuffers& make_buffers) {
    device_ = device, units_ = &units;
    reporting([&] {
      connection_.open(device_);
      compare_transports(connection_, device_);
      compare_models(connection_, units);
      make_buffers(*units.units()[0].module);
      BufferBroadcast::run(connection_, *units.units()[0].module);
    });
  }
  /// Returns the tensors that `make` returns, with rank 0's values.
  template <class Make>
  Tensors of_first_rank(const Make& make) {
    Tensors all;
    reporting([&] {
      all = make();
      for (const at::Tensor& t : all) connection_.broadcast(MessageTag::weights, t);
      if (connection_.size() > 1) meet(connection_, "the broadcast of rank 0's weights");
    });
    return all;
  }
  /// Calls `f`, and tells the other ranks if it throws.
  template <class F>
  void reporting(F&& f) {
    try {
      f();
    } catch (...) {
      offer_exception(std::current_exception());
      throw;
    }
  }

  Connection connection_;
  c10::Device device_ = at::kCPU;
  const UnitTable* units_ = nullptr;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/all_ranks.ipp>
#endif
