#pragma once
// Counts how often each operator below autograd is called while a scope with this mode is open.
#include <ikebana/bridge/operators.hpp>
#include <map>
#include <string>

namespace test {

using Counts = std::map<std::string, int>;

struct Counting : ikebana::bridge::OperatorMode {
  Counts seen;
  void call(ikebana::bridge::OperatorCall& call) override {
    ++seen[call.name().name];
    call.compute();
  }
};

}  // namespace test
