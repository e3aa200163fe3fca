#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/group/compare_transports.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void compare_transports(Connection& connection, c10::Device device) {
  const bool by_its_thread =  // of this device, which all threads of a process have in common
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
            "other for ever. Start the ranks as processes, as `launch` does, or call "
            "c10::AutogradState::get_tls_state().set_multithreading_enabled(false) in the thread "
            "of each rank.");
  }
}

}  // namespace ikebana::detail
