// Units of one program include the headers, in both forms of the library. What they define without
// `inline`, and the library does not, would be defined twice, and the program would not link.
#include "test.hpp"

namespace test::compiled_unit {
at::Tensor train();  // in test/build/second_unit.cpp
}
namespace test::header_only_unit {
at::Tensor train();
}

TEST_CASE("forms: units of both train in one program, with the same bits") {
  const at::Tensor weight = test::compiled_unit::train();
  CHECK(weight.abs().sum().item<double>() > 0);
  CHECK(at::equal(weight, test::header_only_unit::train()));
}
