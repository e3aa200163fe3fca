#pragma once
// Defines recipes that are chosen by name at run time.
#include <ikebana/any_trainer/any_trainer.hpp>
#include <map>

namespace ikebana {

/// Recipes by name. Each is a function that makes a trainer from `Args`, usually defined in its own
/// file. A program adds the recipes that it offers; nothing registers itself.
template <class Batch, class... Args>
class Recipes {
 public:
  /// Makes a trainer: `[](GPT model) { return AnyTrainer<Tokens>(Trainer{model, AdamW{}}); }`.
  using Factory = std::function<AnyTrainer<Batch>(Args...)>;

  /// Adds a recipe, which `make` finds by its name. Throws BadValue for a name that was added
  /// before.
  Recipes& add(const std::string& name, Factory factory) {
    if (!factories_.emplace(name, std::move(factory)).second)
      throw BadValue("recipes: `" + name + "` was added already. Give each recipe its own name.");
    return *this;
  }
  /// Makes a trainer by the recipe of that name. Throws BadValue for an unknown name, with all
  /// names that were added.
  AnyTrainer<Batch> make(const std::string& name, Args... args) const {
    auto found = factories_.find(name);
    if (found != factories_.end()) return found->second(std::forward<Args>(args)...);
    std::string known;
    for (const auto& one : names()) known += (known.empty() ? "" : ", ") + one;
    throw BadValue("recipes: there is no `" + name + "`. Name one of: " + known + ".");
  }
  /// Returns the names that were added, in alphabetical order.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, factory] : factories_) all.push_back(name);
    return all;
  }

 private:
  std::map<std::string, Factory> factories_;
};

}  // namespace ikebana
