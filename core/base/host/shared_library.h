// Libraries that are opened on first use, so that one binary runs with and without them.
#ifndef DPIPE_CORE_BASE_HOST_SHARED_LIBRARY_H_
#define DPIPE_CORE_BASE_HOST_SHARED_LIBRARY_H_

#include <string>

#include "absl/types/span.h"
#include "core/base/status.h"

namespace dpipe {

// An open library. It is never closed, because threads or handlers that it created may outlive any
// owner.
class SharedLibrary {
 public:
  // Opens the first of `names` that the system's loader finds. Names are paths, or file names that
  // the loader searches for (see ld.so(8)). Returns NotFound, with all names and the loader's
  // reason for the last one, if none can be opened. `needed_for` ends the message ("NCCL is needed
  // for ranks on several GPUs").
  static absl::StatusOr<SharedLibrary> Open(absl::Span<const std::string> names,
                                            const std::string& needed_for);

  const std::string& name() const { return name_; }

  // Returns the function or variable `symbol`. Returns NotFound, naming it and the library, if
  // missing.
  absl::StatusOr<void*> Find(const std::string& symbol) const;

  // Sets *function, a pointer to a function of any type, to the address of `symbol`.
  template <typename Function>
  absl::Status Bind(const std::string& symbol, Function** function) const {
    DPIPE_ASSIGN_OR_RETURN(void* const address, Find(symbol));
    *function = reinterpret_cast<Function*>(address);
    return absl::OkStatus();
  }

 private:
  SharedLibrary(std::string name, void* handle);

  std::string name_;
  void* handle_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_HOST_SHARED_LIBRARY_H_
