#include "core/comm/rendezvous/launch/launched_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/numbers.h"

namespace dpipe {
namespace {

std::optional<int> NumberIn(const char* variable) {
  const char* text = std::getenv(variable);
  int number = -1;
  if (text == nullptr || !absl::SimpleAtoi(text, &number)) return std::nullopt;
  return number;
}

}  // namespace

// A program started by a process of the job inherits the variable too, but has another parent.
bool StartedByLauncher() { return NumberIn(kLauncherVariable) == getppid(); }

std::optional<int> InheritedListener() {
  const std::optional<int> fd = NumberIn(kListenerVariable);
  if (fd.has_value()) unsetenv(kListenerVariable);  // not inherited by child programs
  return fd;
}

std::optional<int> InheritedHoldPipe() {
  const std::optional<int> fd = NumberIn(kHoldVariable);
  if (!fd.has_value() || !StartedByLauncher()) return std::nullopt;
  fcntl(*fd, F_SETFD, FD_CLOEXEC);  // not inherited by child programs
  return fd;
}

}  // namespace dpipe
