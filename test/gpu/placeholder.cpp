// Goes when the first cases come.
#include "device.hpp"

namespace gpu {

TEST_CASE("device: a tensor made on it is on it") {
  CHECK(at::empty({1}, device()).device() == device());
}

}  // namespace gpu
