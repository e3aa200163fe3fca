#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/device/on.hpp>

namespace ikebana::detail {

IKEBANA_INLINE c10::Device DeviceByName::named(const std::string& name) try {
  return c10::Device(name);
} catch (const c10::Error& error) {
  throw BadValue("On: there is no device \"" + name + "\": " + error.what_without_backtrace() +
                 ". Write one as \"cuda\" or \"cuda:1\".");
}

}  // namespace ikebana::detail
