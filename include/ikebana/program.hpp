#pragma once
// Programs of torch.export: a C++ model as a file that Python opens.
#include <ikebana/program/export.hpp>
