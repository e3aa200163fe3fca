#pragma once
// Declares the functions that each plugin exports to the program that opens it. Its other symbols
// are hidden.
#include <cstdint>

struct Plugin {
  /// These return whether saved-tensor hooks are available, and the installed engine.
  bool (*available)();
  const void* (*engine)();
  /// Opens a scope of saved-tensor hooks on the calling thread; closing it returns the number of
  /// tensors that its hooks packed.
  void* (*open_saved)();
  int (*close_saved)(void* scope);
  /// Opens a mode that intercepts operators: closing returns the number of products and attentions
  /// that its mode intercepted.
  void* (*open_operators)();
  int (*close_operators)(void* scope);
  /// Opens a mode for operators that draw random numbers; a dropout.
  void* (*open_random)();
  int (*close_random)(void* scope);
  void (*drop)();
  /// Runs a backward pass; true if the gradients are right.
  bool (*train)();
  /// These make a leaf, add a gradient hook that counts its calls, and run a backward pass to the
  /// leaf.
  void* (*leaf)();
  void* (*hook)(const void* leaf, int& calls);
  void (*unhook)(void* hook);
  void (*backward)(const void* leaf);
  /// These are about memory of the CPU: they return the bytes in use, allocate and free a tensor,
  /// and say whether it is counted.
  std::int64_t (*bytes)();
  void* (*allocate)(std::int64_t bytes);
  void (*free_tensor)(void* tensor);
  bool (*counted)(const void* tensor);
  /// Opens a scope that intercepts linear layers of the calling thread; closing it returns how
  /// many. `linear` computes one; true if the result is that of an open scope, or of LibTorch.
  void* (*open_linear_scope)();
  int (*close_linear_scope)(void* scope);
  bool (*linear)(bool intercepted);
  /// Computes an attention, which is one custom operator; true if the result is right.
  bool (*attend)();
  /// Opens a scope of a pool on the calling thread; closing it ends both, and returns how many
  /// allocations the pool served.
  void* (*open_pool)();
  int (*close_pool)(void* scope);
};

using PluginEntry = const Plugin* (*)();
