#pragma once
// LibTorch's wheel has Gloo and not its headers. This declares what ProcessGroupGloo.hpp names; no
// program of the tests uses a layout of it.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds limit);
};
namespace transport {
class Device;
class UnboundBuffer;
}  // namespace transport
namespace rendezvous {
/// The base of a class that ProcessGroupGloo.hpp defines.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys,
                    const std::chrono::milliseconds& limit) = 0;
};
}  // namespace rendezvous
}  // namespace gloo
