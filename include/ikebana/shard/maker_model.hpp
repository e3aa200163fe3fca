#pragma once
// A model that a maker made and that no rank holds whole: its parameters are made unit by unit.
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/shard/record_maker.hpp>

namespace ikebana::detail {

/// Runs a maker, and afterwards makes what it would have made. Memory: the tape, of about 1 kB for
/// an operator and 3 kB for one that draws; copies of those tensors with values that the maker
/// wrote into others; while the maker runs, the largest tensor that is drawn.
/// A template for the same reason as Tape.
template <class = void>
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
  void make_buffers(torch::nn::Module& model) {
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor> buffers = each_once(model.buffers());
    const auto real = values_of(buffers);
    for (at::Tensor buffer : buffers)
      if (tape_.find(buffer)) buffer.set_data(tensor_over(real.at(key_of(buffer)), buffer));
  }
  /// Its parameters, whole.
  Tensors parameters_of(const Unit& unit) {
    const at::NoGradGuard no_grad;
    const auto real = values_of(unit.parameters);
    Tensors all;
    for (const at::Tensor& p : unit.parameters)
      all.push_back(tape_.find(p) ? tensor_over(real.at(key_of(p)), p) : p.detach());
    return all;
  }

 private:
  template <class Maker>
  auto recorded(Maker& maker) {
    RecordMaker<> mode(tape_);
    try {
      const bridge::OperatorScope<> scope(mode);
      return maker();
    } catch (const c10::Error& error) {  // of a tensor without values
      const std::string text = message_of(error);
      if (text.find("while the maker ran") == std::string::npos) throw;
      throw BadModel(text);
    }
  }
  /// From now on a use of a parameter says its name; of what is neither parameter nor buffer, that.
  void name_tensors(const torch::nn::Module& model) {
    tape_.each_storage([](const TapeStorage& storage) {
      set_error(storage.shown, storage.made_by +
                                   " while the maker ran is neither a parameter nor a buffer of "
                                   "the model, so it has no values. Register it: "
                                   "register_buffer(name, tensor).");
    });
    for (const auto& item : model.named_buffers()) name(item.key(), item.value());
    for (const auto& item : model.named_parameters()) name(item.key(), item.value());
  }
  void name(const std::string& name, const at::Tensor& t) {
    if (const TapeStorage* storage = tape_.find(t)) set_error(storage->shown, away_error(name));
  }
  typename Tape<>::Storages values_of(const std::vector<at::Tensor>& tensors) {
    std::set<StorageKey> wanted;
    for (const at::Tensor& t : tensors)
      if (tape_.find(t)) wanted.insert(key_of(t));
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    return tape_.replay(wanted);
  }

  Tape<> tape_;
};

}  // namespace ikebana::detail
