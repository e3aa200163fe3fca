#pragma once
#include "../declared.h"
