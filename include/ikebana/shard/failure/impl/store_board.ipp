#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/failure/store_board.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void StoreBoard::post(const std::string& key, const std::string& text) {
  call([key, text](c10d::Store& store) {
    store.set("board/" + key, bytes_of(text));
    return std::string();
  });
}

IKEBANA_INLINE std::optional<std::string> StoreBoard::look(const std::string& key) {
  const std::string text = call([name = "board/" + key](c10d::Store& store) {
    if (!store.check({name})) return std::string();
    const auto found = store.get(name);
    return "+" + std::string(found.begin(), found.end());
  });
  return text.empty() ? std::nullopt : std::optional(text.substr(1));
}

IKEBANA_INLINE void StoreBoard::remove(const std::string& key) {
  call([name = "board/" + key](c10d::Store& store) {
    store.deleteKey(name);
    return std::string();
  });
}

}  // namespace ikebana::detail
