#pragma once
// What is warned of in a campaign is there by design.
#include <c10/util/Exception.h>

namespace campaign {

/// While it lives, nobody reads the warnings of its thread.
class Quiet : c10::WarningHandler {
  void process(const c10::Warning&) override {}
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

}  // namespace campaign
