#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/group/all_ranks.hpp>
#include <sstream>

namespace ikebana::detail {

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
