#pragma once
// Runs several ranks on one device, as threads that Gloo connects, with the models of test/ranks.
#include "device.hpp"

#include "ranks/equals_one_rank.hpp"

namespace gpu {

/// RAII: the models of test/ranks are on the device.
class RanksOnDevice {
 public:
  RanksOnDevice() { test::ranks::model_device = device(); }
  ~RanksOnDevice() { test::ranks::model_device = at::kCPU; }
  RanksOnDevice(const RanksOnDevice&) = delete;
  RanksOnDevice& operator=(const RanksOnDevice&) = delete;
};

}  // namespace gpu
