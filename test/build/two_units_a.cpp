#include <ikebana.hpp>

namespace other_unit {
int train();
}

// Everything in the headers is defined in both units: what is not inline does not link.
int main() { return other_unit::train(); }
