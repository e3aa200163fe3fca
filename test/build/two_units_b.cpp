#include <ikebana.hpp>

namespace other_unit {
int train();
int train() { return 0; }
}  // namespace other_unit
