#pragma once
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/without_values.hpp>
#include <ikebana/shard/group/all_ranks.hpp>
#include <map>
#include <sstream>

namespace ikebana::detail {

IKEBANA_INLINE void BufferBroadcast::run(Connection& connection, const torch::nn::Module& model) {
  if (connection.size() == 1) return;
  const at::NoGradGuard no_grad;
  std::map<std::string, std::vector<at::Tensor>> all;  // the tensors, by device
  for (const at::Tensor& buffer : each_once(model.buffers()))
    if (buffer.layout() == at::kStrided && buffer.numel() > 0 &&
        at::has_internal_overlap(buffer) != at::MemOverlap::Yes)
      all[buffer.device().str()].push_back(buffer.detach());
  for (const auto& [device, buffers] : all) run(connection, buffers);
}

IKEBANA_INLINE void BufferBroadcast::run(Connection& connection,
                                         const std::vector<at::Tensor>& buffers) {
  const PackedTensors layout(buffers);
  const at::Tensor memory = layout.new_memory();
  const std::vector<at::Tensor> places = layout.places(memory);
  if (connection.rank() == 0) at::_foreach_copy_(places, buffers);
  connection.broadcast(MessageTag::buffers, memory);
  if (connection.rank() == 0) return;
  if (!memory.is_cpu()) return at::_foreach_copy_(buffers, places);
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (!has_same_bytes(buffers[i], places[i])) buffers[i].copy_(places[i]);
}

IKEBANA_INLINE bool BufferBroadcast::has_same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return !without_values() && a.is_contiguous() && !a.is_neg() && !a.is_conj() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

IKEBANA_INLINE void compare_transports(Connection& connection, c10::Device device) {
  const bool by_its_thread =  // all threads of a process share the one of the device
      !device.is_cpu() && c10::AutogradState::get_tls_state().get_multithreading_enabled();
  const std::string own = connection.transport() + '\n' +
                          (by_its_thread ? ProcessIdentity::of_this().text() + device.str() : "");
  const auto all = exchange_in(connection, "the making of a trainer", own);
  auto begin = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  for (std::size_t r = 0; r < all.size(); ++r) {
    const std::string rank = std::to_string(r);
    if (begin(all[r]) != begin(all[0]))
      throw BadModel("trainer: rank 0 trains on " + begin(all[0]) + ", and rank " + rank + " on " +
                     begin(all[r]) +
                     ". Let the models of all ranks be on devices of one type, and their process "
                     "groups have the same `backend`.");
    for (std::size_t other = 0; other < r; ++other)
      if (all[r] == all[other] && !all[r].ends_with('\n'))
        throw BadModel(
            "trainer: ranks " + std::to_string(other) + " and " + rank +
            " are threads of one process and train on one device. LibTorch runs all backward "
            "passes of a device in one thread of the process, where one rank would wait for the "
            "other without end. Start the ranks as processes, as `launch` does, or call "
            "c10::AutogradState::get_tls_state().set_multithreading_enabled(false) in the thread "
            "of each rank.");
  }
}

IKEBANA_INLINE void compare_models(Connection& connection, const UnitTable& units) {
  std::string own = connection.trainer_name() + "\n";
  auto add = [&](const std::string& name, const at::Tensor& t) {
    own += "`" + name + "` " +
           c10::str(t.sizes(), " ", t.scalar_type(), t.requires_grad() ? "" : ", frozen") + "\n";
  };
  for (const Unit& unit : units.units())
    for (std::size_t i = 0; i < unit.names.size(); ++i) add(unit.names[i], unit.parameters[i]);
  for (const auto& item : units.units()[0].module->named_buffers()) add(item.key(), item.value());
  const auto all = exchange_in(connection, "the making of a trainer", own);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    std::istringstream first(all[0]), other(all[r]);
    std::string a, b;
    do {
      if (!std::getline(first, a)) a = "none";
      if (!std::getline(other, b)) b = "none";
    } while (a == b);
    if (a == connection.trainer_name() || b == connection.trainer_name())
      throw RanksDiffer("trainer: rank 0 makes `" + a + "` as trainer " +
                        std::to_string(connection.trainer_number()) +
                        " of its ProcessGroup, and rank " + std::to_string(r) + " `" + b +
                        "`. Make the same trainers, in the same order, on all ranks.");
    throw BadModel("trainer: rank 0 has the parameter " + a + ", and rank " + std::to_string(r) +
                   " has " + b + ". Make the same model on every rank.");
  }
}

}  // namespace ikebana::detail
