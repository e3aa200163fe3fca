// Two units of one program include the headers. A definition in them that is not inline would then
// be defined twice, and the program would not link.
#include "test.hpp"

namespace test::second_unit {

int train();  // in test/build/second_unit.cpp

TEST_CASE("headers: two units of one program include them") { CHECK(train() == 1); }

}  // namespace test::second_unit
