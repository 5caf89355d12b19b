#include "core/base/host/shared_library.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dpipe {

SharedLibrary::SharedLibrary(std::string name, void* handle)
    : name_(std::move(name)), handle_(handle) {}

absl::StatusOr<SharedLibrary> SharedLibrary::Open(absl::Span<const std::string> names,
                                                  const std::string& needed_for) {
  std::string reason = "no name was given";
  for (const std::string& name : names) {
    void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return SharedLibrary(name, handle);
    const char* const error = dlerror();
    reason = error != nullptr ? error : "the loader gave no reason";
  }
  return absl::NotFoundError(
      absl::StrCat("cannot open ", absl::StrJoin(names, " or "), " (", reason, "); ", needed_for));
}

absl::StatusOr<void*> SharedLibrary::Find(const std::string& symbol) const {
  void* const address = dlsym(handle_, symbol.c_str());
  if (address != nullptr) return address;
  return absl::NotFoundError(absl::StrCat(name_, " has no symbol ", symbol, "; it may be too old"));
}

}  // namespace dpipe
