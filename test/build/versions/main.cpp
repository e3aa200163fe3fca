// A program of two files, the other of which was compiled with another version of the library. It
// must end with an error that names both.
#include <ikebana/detail/one_version.hpp>

int main() { return 0; }
