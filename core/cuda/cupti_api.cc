#include "core/cuda/cupti_api.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

absl::Status Bind(const SharedLibrary& library, CuptiApi& table) {
  DPIPE_CUPTI_FUNCTIONS(DPIPE_TABLE_BIND)
  return absl::OkStatus();
}

// Toolkits install CUPTI in a separate folder.
std::vector<std::string> Names() {
  std::vector<std::string> names = CudaLibraryNames("libcupti.so.13");
  names.push_back("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13");
  return names;
}

}  // namespace

absl::StatusOr<const CuptiApi*> LoadCupti() {
  static const auto* const loaded = new absl::StatusOr<CuptiApi>(LoadTable(
      Names(), "accounts of GPU time need it: install CUPTI 13 (nvidia-cuda-cupti)", Bind));
  return PointerOrStatus(*loaded);
}

absl::Status CuptiStatus(const CuptiApi& api, CUptiResult result, absl::string_view call) {
  if (result == CUPTI_SUCCESS) return absl::OkStatus();
  const char* text = nullptr;
  if (api.cuptiGetResultString(result, &text) != CUPTI_SUCCESS) text = "unknown";
  return absl::FailedPreconditionError(
      absl::StrCat(call, ": ", text, " (", static_cast<int>(result), ")"));
}

}  // namespace dpipe
