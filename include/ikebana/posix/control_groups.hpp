#pragma once
// Finds the control groups of Linux that limit this process.
#include <functional>
#include <string>

namespace ikebana::detail {

/// Calls `f(folder, is_second_version)` for the control group that limits this process by a
/// controller, such as `memory`, and for each group around it, whose limits hold as well. Files are
/// in `folder`, which ends with a slash. In a container, the group's own folder may be the root.
/// `root` stands before all paths, for tests.
void each_control_group(const std::string& root, const std::string& controller,
                        const std::function<void(const std::string&, bool)>& f);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/control_groups.ipp>
#endif
