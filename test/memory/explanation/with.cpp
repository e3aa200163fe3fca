#include <ikebana/estimate.hpp>
