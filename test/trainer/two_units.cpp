// Two units of one program include the headers: what these define and is not inline does not link.
#include "test.hpp"

namespace test::second_unit {

int train();  // in test/build/second_unit.cpp

TEST_CASE("headers: two units of one program include them") { CHECK(train() == 1); }

}  // namespace test::second_unit
