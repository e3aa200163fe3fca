#pragma once
// Defines the warnings that LibTorch is given.
#include <torch/torch.h>

#include <string>
#include <vector>

namespace test {

/// The warnings of this process while it exists.
class Warnings : public c10::WarningHandler {
 public:
  Warnings() : before_(c10::WarningUtils::get_warning_handler()) {
    c10::WarningUtils::set_warning_handler(this);
  }
  ~Warnings() override { c10::WarningUtils::set_warning_handler(before_); }
  void process(const c10::Warning& warning) override { all.push_back(warning.msg()); }
  std::vector<std::string> all;

 private:
  c10::WarningHandler* before_;
};

}  // namespace test
