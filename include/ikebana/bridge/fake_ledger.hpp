#pragma once
// This header has moved to fake/fake_ledger.hpp. Version 0.2 removes this one.
#include <ikebana/fake/fake_ledger.hpp>
