#pragma once
// What each plugin shows to the program that opens it; everything else in it is hidden.
#include <cstdint>

struct Plugin {
  /// Whether its saved-tensor hooks can fire, and the engine that would ask for them.
  bool (*available)();
  const void* (*engine)();
  /// Opens a scope on the calling thread; closing it tells how many tensors its hooks packed.
  void* (*open)();
  int (*close)(void* scope);
  /// The same for operators: closing tells how many products and attentions its mode saw.
  void* (*watch)();
  int (*seen)(void* scope);
  /// Trains a little; true where the gradients are right.
  bool (*train)();
  /// A leaf that gives its gradient to hooks; a hook that counts; a backward pass over the leaf.
  void* (*leaf)();
  void* (*hook)(const void* leaf, int& calls);
  void (*unhook)(void* hook);
  void (*backward)(const void* leaf);
  /// Memory of the CPU: bytes now; take and give back a tensor; is it counted?
  std::int64_t (*bytes)();
  void* (*take)(std::int64_t bytes);
  void (*restore_dtype)(void* tensor);
  bool (*counted)(const void* tensor);
  /// Answers for the calling thread's linear layers until closed, which tells for how many;
  /// computes one, and is true where it is what nobody or the open scope makes of it.
  void* (*see_linear)();
  int (*unsee_linear)(void* scope);
  bool (*linear)(bool seen);
  /// Computes an attention, which is one operator of ours for whoever watches; true where it is
  /// right.
  bool (*attend)();
};

using PluginEntry = const Plugin* (*)();
