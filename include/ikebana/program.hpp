#pragma once
// Programs of torch.export: models that were written in Python and are trained here.
#include <ikebana/program/load.hpp>
#include <ikebana/program/save.hpp>
