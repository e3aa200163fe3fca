#include <ikebana/detail/version.hpp>
#undef IKEBANA_VERSION
#define IKEBANA_VERSION 70605
#include <ikebana/detail/one_version.hpp>
