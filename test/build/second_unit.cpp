#include <ikebana.hpp>

namespace test::second_unit {
int train();
int train() { return 1; }
}  // namespace test::second_unit
