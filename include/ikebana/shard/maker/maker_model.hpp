#pragma once
// A model that a maker made and that no rank holds whole: its parameters are made unit by unit.
#include <ikebana/hooks.hpp>
#include <ikebana/shard/maker/record_maker.hpp>

namespace ikebana::detail {

/// Runs a maker, and afterwards makes what it would have made. Memory: the tape, of about 1 kB for
/// an operator and 3 kB for one that draws random numbers; copies of tensors with values that the
/// maker wrote into others; while the maker runs, the largest tensor that is drawn.
class MakerModel {
 public:
  template <class Maker>
  auto run(Maker& maker) {
    if (!bridge::operator_modes_available())
      throw Error(
          "trainer: another library of this process uses the dispatch key by which a maker's "
          "operators are recorded. Give the trainer the model itself, or load only one version of "
          "ikebana.");
    auto model = recorded(maker);
    if (const auto module = module_of(model)) name_tensors(*module);
    return model;
  }
  void make_buffers(torch::nn::Module& model);
  /// Makes the whole parameters of a unit.
  Tensors parameters_of(const Unit& unit);

 private:
  template <class Maker>
  auto recorded(Maker& maker) {
    RecordMaker mode(tape_);
    try {
      const bridge::OperatorScope<> scope(mode);
      return maker();
    } catch (const c10::Error& error) {  // a tensor without values was used
      const std::string text = message_of(error);
      if (text.find("while the maker ran") == std::string::npos) throw;
      throw BadModel(text);
    }
  }
  /// Sets the error of a use from now on: it names the parameter or buffer, or says that the tensor
  /// is neither.
  void name_tensors(const torch::nn::Module& model);
  void name(const std::string& name, const at::Tensor& t);
  Tape::Storages values_of(const std::vector<at::Tensor>& tensors);

  Tape tape_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/maker/impl/maker_model.ipp>
#endif
