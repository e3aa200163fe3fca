#pragma once
// Includes programs of torch.export: models that were written in Python and are trained here, and
// C++ models as files that Python opens.
#include <ikebana/program/export.hpp>
#include <ikebana/program/load.hpp>
