// Libraries that are opened when they are first needed, so that one binary runs with and without.
#ifndef DPIPE_CORE_BASE_SHARED_LIBRARY_H_
#define DPIPE_CORE_BASE_SHARED_LIBRARY_H_

#include <string>

#include "absl/types/span.h"
#include "core/base/status.h"

namespace dpipe {

// An open library. It is never closed: what it made (threads, handlers) may outlive any owner.
class SharedLibrary {
 public:
  // The first of `names` that the system's loader finds: file names, which it searches for as
  // ld.so(8) says, or paths. NotFound has every name and what the loader said of the last;
  // `needed_for` ends the sentence ("NCCL is needed for ranks on several GPUs").
  static absl::StatusOr<SharedLibrary> Open(absl::Span<const std::string> names,
                                            const std::string& needed_for);

  const std::string& name() const { return name_; }

  // The function or variable `symbol`; NotFound names it and the library.
  absl::StatusOr<void*> Find(const std::string& symbol) const;

  // Sets *function, a pointer to a function of any type, to `symbol`.
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

#endif  // DPIPE_CORE_BASE_SHARED_LIBRARY_H_
