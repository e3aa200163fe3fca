#pragma once
// Is an error of the right class, does it say what it should, and is nothing changed by it?
#include "test.hpp"

#include <ikebana.hpp>
#include <typeinfo>

namespace test {

using Words = std::vector<const char*>;
/// `f` throws an E that says all of this; empty where it does, else what is wrong.
template <class E, class F>
std::string told(F&& f, const Words& words) {
  std::string message;
  try {
    f();
    return "nothing was thrown";
  } catch (const E& error) {
    message = error.what();
    if (typeid(error) != typeid(E)) return std::string("another class: ") + message;
  } catch (const std::exception& error) {
    return std::string("another family: ") + error.what();
  }
  for (const char* word : words)
    if (!test::contains(message, word)) return "no `" + std::string(word) + "` in: " + message;
  return {};
}

inline bool same(const ikebana::StateDict& a, const ikebana::StateDict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a)
    if (!b.count(name) || !test::same_bits(tensor, b.at(name))) return false;
  return true;
}

/// The same, and the trainer is as before: its bits, no gradients, ready for the next step.
template <class E, class Trainer, class Batch, class F>
std::string undone(Trainer& trainer, const Batch& good, F&& f, const Words& words) {
  const ikebana::StateDict before = trainer.state();
  std::string wrong = told<E>(f, words);
  if (!wrong.empty()) return wrong;
  if (!same(trainer.state(), before)) return "the state changed";
  for (const auto& p : trainer.model()->parameters())
    if (p.grad().defined()) return "a gradient stayed";
  trainer.step(good);
  return same(trainer.state(), before) ? "the next step did nothing" : "";
}
}  // namespace test
