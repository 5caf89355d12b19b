#include "core/base/host/bound_spinning.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

namespace dpipe {
namespace {

constexpr char kCount[] = "GOMP_SPINCOUNT";
constexpr char kSecondStart[] = "DPIPE_SECOND_START";  // set between the two starts only

}  // namespace

void BoundSpinning(bool has_openmp, const std::function<void()>& execute_again) {
  if (std::getenv(kSecondStart) == nullptr) {
    const bool chosen = std::getenv(kCount) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr;
    // A bundle runs the program through a loader, which is what would be executed again.
    const bool by_loader = std::getenv("DPIPE_PROGRAM_FILE") != nullptr;
    if (!has_openmp || chosen || by_loader) return;
    ::setenv(kCount, kSpinCount, /*overwrite=*/1);
    ::setenv(kSecondStart, "1", /*overwrite=*/1);
    execute_again();
  }
  ::unsetenv(kCount);
  ::unsetenv(kSecondStart);
}

void BoundSpinning(char** argv) {
  const bool has_openmp = ::dlsym(RTLD_DEFAULT, "GOMP_parallel") != nullptr;
  BoundSpinning(has_openmp, [argv] { ::execv("/proc/self/exe", argv); });
}

}  // namespace dpipe
