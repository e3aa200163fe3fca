#pragma once
// Campaigns cause warnings by design; this discards them.
#include <c10/util/Exception.h>

namespace campaign {

/// RAII: discards the warnings of its thread.
class Quiet : c10::WarningHandler {
  void process(const c10::Warning&) override {}
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

}  // namespace campaign
