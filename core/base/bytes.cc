#include "core/base/bytes.h"

#include "absl/strings/str_format.h"

namespace dpipe {

std::string FormatBytes(int64_t size_bytes) {
  if (size_bytes < kKiB) return absl::StrFormat("%d B", size_bytes);
  if (size_bytes < kMiB) return absl::StrFormat("%.1f KiB", static_cast<double>(size_bytes) / kKiB);
  if (size_bytes < kGiB) return absl::StrFormat("%.1f MiB", static_cast<double>(size_bytes) / kMiB);
  return absl::StrFormat("%.1f GiB", static_cast<double>(size_bytes) / kGiB);
}

}  // namespace dpipe
